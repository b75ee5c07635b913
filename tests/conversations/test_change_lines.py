"""Changes of a conversation are signed: on the page, on open pages, in exports and transcripts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping

import pytest
from django.test import Client

from chat import access
from chat.administration.transcript import read_page, turns_of
from chat.conversations.actions.conversation import rename
from chat.conversations.actions.messages import ModelChoice, edit_message, retry
from chat.exports.json_form import write_json
from chat.exports.markdown_form import write_markdown
from chat.exports.reading import read_source
from chat.message_queue import actions as queue
from chat.models import (
    Conversation,
    ConversationChange,
    Group,
    Membership,
    Message,
    Participant,
    QueuedMessage,
    TeamRole,
    User,
)
from chat.organization import actions as organization
from chat.participants import actions as participants
from chat.projects.actions import create_project, move_conversation
from tests.conftest import MakeUser
from tests.support.rooms import Room, queries_of, text_of

pytestmark = pytest.mark.databases(slow=True)
SignIn = Callable[[User], Client]


def lines(client: Client, room: Room) -> list[str]:
    """The sentences of the lines on the page, without their times."""
    return [text_of(each).rpartition("·")[0].strip() for each in said_in(room.page(client))]


def said_in(tree: object) -> list[object]:
    return tree.xpath("//p[@class='room-change']")


def share(user: User, room: Room, who: User | Group, role: str) -> Participant:
    return participants.add_participant(user, room.conversation, who, role)


def move(user: User, room: Room, *, out: bool = False) -> None:
    project = create_project(user, room.conversation.team, name="Springs")
    move_conversation(user, room.conversation, project)
    if out:
        move_conversation(user, room.conversation, None)


def queued_of(author: User, room: Room) -> QueuedMessage:
    run = room.ask("Still there?", room.runs[-1].message)
    queue.enqueue(
        author,
        room.conversation,
        parent=run.message,
        text="And then?",
        choice=ModelChoice(upstream=room.upstream, model="demo/model"),
        idempotency_key=uuid.uuid4(),
    )
    return QueuedMessage.objects.get()


def divers(room: Room) -> Group:
    return Group.objects.create(team=room.conversation.team, name="Divers")


def change_role(alice: User, bob: User, room: Room) -> None:
    participants.set_role(alice, share(alice, room, bob, "reader"), "manager")


def remove(alice: User, bob: User, room: Room) -> None:
    participants.remove_participant(alice, share(alice, room, divers(room), "reader"))


def leave(alice: User, bob: User, room: Room) -> None:
    participants.remove_participant(bob, share(alice, room, bob, "reader"))


def archive_and_back(alice: User, bob: User, room: Room) -> None:
    organization.archive(alice, room.conversation)
    organization.unarchive(alice, room.conversation)


def trash_and_back(alice: User, bob: User, room: Room) -> None:
    Conversation.objects.filter(pk=room.conversation.pk).update(deleted_at="2026-01-01T00:00Z")
    organization.restore(alice, room.conversation)


# What somebody does, and the lines that say so.
VERBS: Mapping[str, tuple[Callable[[User, User, Room], object], list[str]]] = {
    "rename": (
        lambda alice, bob, room: rename(room.conversation, "Rivers <i>", by=alice),
        ["Alice renamed this conversation to “Rivers <i>”"],
    ),
    "same title": (
        lambda alice, bob, room: rename(room.conversation, room.conversation.title, by=alice),
        [],
    ),
    "share": (
        lambda alice, bob, room: share(alice, room, bob, "reader"),
        ["Alice added Bob as reader"],
    ),
    "share with a group": (
        lambda alice, bob, room: share(alice, room, divers(room), "writer"),
        ["Alice added Divers as writer"],
    ),
    "another role": (change_role, ["Alice added Bob as reader", "Alice made Bob a manager"]),
    "remove": (remove, ["Alice added Divers as reader", "Alice removed Divers"]),
    "leave": (leave, ["Alice added Bob as reader", "Bob left this conversation"]),
    "private": (
        lambda alice, bob, room: participants.set_visibility(alice, room.conversation, "private"),
        ["Alice limited access to the people added here"],
    ),
    "team reads": (
        lambda alice, bob, room: participants.set_visibility(
            alice, room.conversation, "team", "reader"
        ),
        ["Alice let everyone in the team read"],
    ),
    "settings": (
        lambda alice, bob, room: participants.set_settings_shown(
            alice, room.conversation, are_shown=True
        ),
        ["Alice let readers see the system prompt, parameters and tools"],
    ),
    "move": (
        lambda alice, bob, room: move(alice, room),
        ["Alice moved this conversation to a project"],
    ),
    "move out": (
        lambda alice, bob, room: move(alice, room, out=True),
        [
            "Alice moved this conversation to a project",
            "Alice moved this conversation out of its project",
        ],
    ),
    "archive": (
        archive_and_back,
        ["Alice archived this conversation", "Alice unarchived this conversation"],
    ),
    "restore": (trash_and_back, ["Alice restored this conversation from the trash"]),
    "send a queued message": (
        lambda alice, bob, room: queue.send_now(alice, queued_of(bob, room)),
        ["Alice sent the queued message of Bob"],
    ),
    "send one's own": (
        lambda alice, bob, room: queue.send_now(alice, queued_of(alice, room)),
        [],
    ),
    "remove a queued message": (
        lambda alice, bob, room: queue.remove(alice, queued_of(bob, room)),
        ["Alice removed the queued message of Bob"],
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_signed(room: Room, alice: User, bob: User, signed_in: SignIn, verb: str) -> None:
    room.turn("First")
    act, expected = VERBS[verb]

    act(alice, bob, room)

    assert lines(signed_in(alice), room) == expected


def test_line_comes_below_the_turn_that_was_last(
    as_alice: Client, as_bob: Client, room: Room, alice: User
) -> None:
    first = room.turn("First")
    headers = room.position(first)
    rename(room.conversation, "Rivers", by=alice)

    patches = room.changes(as_bob, headers)

    assert patches.targets >= {f"#a{first.public_id.hex}", "#room-head"}
    assert [text_of(each).partition("”")[0] for each in said_in(patches.tree)] == [
        "Alice renamed this conversation to “Rivers"
    ]
    # A page that has it does not get it again, and later turns stand below it.
    second = room.turn("Second", first)
    patches = room.changes(as_bob, room.position(second, first=first.parent))
    assert said_in(patches.tree) == []
    footer = room.page(as_alice).xpath(f"//*[@id='a{first.public_id.hex}']")[0]
    assert len(footer.xpath(".//p[@class='room-change']")) == 1


def test_many_changes_are_one_line_that_opens(as_bob: Client, room: Room, alice: User) -> None:
    room.turn("First")
    for number in range(3):
        rename(room.conversation, f"Title {number}", by=alice)

    (fold,) = room.page(as_bob).xpath("//details[@class='room-changes']")

    assert text_of(fold.find("summary")) == "3 changes"
    assert len(said_in(fold)) == 3


def test_nothing_is_read_where_nothing_was_changed(room: Room, alice: User, as_bob: Client) -> None:
    room.turn("First")
    room.page(as_bob)
    before = queries_of(as_bob, room.url)
    rename(room.conversation, "Rivers", by=alice)

    assert queries_of(as_bob, room.url) == before + 1


def test_guest_does_not_learn_the_names_of_groups(
    room: Room, alice: User, make_user: MakeUser, signed_in: SignIn
) -> None:
    room.turn("First")
    guest = make_user("Guest")
    Membership.objects.create(team=room.conversation.team, user=guest, role=TeamRole.GUEST)
    share(alice, room, guest, "reader")
    share(alice, room, divers(room), "reader")

    assert lines(signed_in(guest), room)[-1] == "Alice added a group as reader"
    export = b"".join(write_json(read_source(guest, seen_by(guest, room))))
    assert b"Divers" not in export


def seen_by(user: User, room: Room) -> Conversation:
    return access.get_conversation(user, room.conversation.public_id)


def test_exports_and_transcripts_are_signed(room: Room, alice: User, bob: User) -> None:
    first = room.turn("First")
    rename(room.conversation, "Rivers *wide*", by=bob)
    room.turn("Second", first)
    source = read_source(alice, seen_by(alice, room))

    markdown = b"".join(write_markdown(source)).decode()
    (change,) = json.loads(b"".join(write_json(source)))["conversation"]["changes"]

    signed = markdown.index("* *Bob renamed this conversation to “Rivers \\*wide\\*”")
    assert markdown.index("Answer to: First") < signed < markdown.index("Second")
    assert (change["kind"], change["actor"]["name"], change["name"], change["turn"]) == (
        *("renamed", "Bob", "Rivers *wide*"),
        str(first.public_id),
    )
    turns = turns_of(read_page(room.conversation, 1))
    assert [len(each.turn.changes) for each in turns] == [0, 1, 0, 0]


def test_versions_say_who_made_them_and_when(
    room: Room, alice: User, bob: User, signed_in: SignIn
) -> None:
    answer = room.turn("First")
    choice = ModelChoice(upstream=room.upstream, model="demo/model")
    retry(bob, answer, choice=choice, idempotency_key=uuid.uuid4())
    question: Message = answer.parent
    makers = "//*[@class='version-maker']"

    def shown() -> list[str]:
        return [text_of(each).partition("·")[0].strip() for each in room.page(client).xpath(makers)]

    client = signed_in(alice)
    assert shown() == ["Retried by Bob"]
    edit_message(bob, question, text="1st", choice=choice, idempotency_key=uuid.uuid4())
    assert shown() == ["Edited by Bob"]


def test_change_of_a_deleted_person_stays(
    room: Room, alice: User, bob: User, signed_in: SignIn
) -> None:
    room.turn("First")
    rename(room.conversation, "Rivers", by=bob)
    bob.delete()

    assert lines(signed_in(alice), room) == ["Deleted user renamed this conversation to “Rivers”"]
    assert ConversationChange.objects.count() == 1
