"""The entries of the inbox: what makes them, what ends them, and who has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.comments.actions import begin_thread, reopen, reply, resolve
from chat.comments.actions import delete as delete_comment
from chat.conversations.actions.conversation import delete
from chat.conversations.actions.messages import ModelChoice, edit_message
from chat.inbox.channel import InboxLook
from chat.inbox.entries import MOST_ENTRIES, SHOWN_AFTER, Entry, mark_all_read, read_entries
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    GroupMember,
    Membership,
    Message,
    Participant,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    Team,
    TeamRole,
    User,
    Visibility,
)
from chat.participants.actions import add_participant, remove_participant
from chat.unread.marks import ShownRevision, store_read
from tests.conftest import MakeUser
from tests.inbox.test_inbox import make_question
from tests.support.rooms import Room, end_run

pytestmark = pytest.mark.databases(slow=True)


def later() -> datetime:
    """A moment at which what has just happened is in the inbox."""
    return timezone.now() + SHOWN_AFTER + timedelta(seconds=1)


def entries(person: User) -> tuple[Entry, ...]:
    return read_entries([person.pk], now=later())[person.pk]


def kinds(person: User) -> list[str]:
    return [each.kind for each in entries(person)]


def read(person: User, conversation: Conversation) -> None:
    conversation.refresh_from_db()
    store_read([ShownRevision(person.pk, conversation.public_id, conversation.revision)])


# --- what makes an entry, and what ends it ----------------------------------------------------------


@pytest.mark.databases
def test_mention_is_there_until_the_conversation_is_read(
    room: Room, alice: User, bob: User
) -> None:
    run = room.ask("@Bob, which one? And @Nobody")

    (entry,) = entries(bob)
    assert (entry.kind, entry.actor, entry.title) == ("mention", "Alice", "Shared")
    assert entry.message == run.message.parent.public_id
    assert entry.detail == "@Bob, which one? And @Nobody"
    assert entries(alice) == ()
    # The page of somebody who sees it at once has stored that first.
    assert read_entries([bob.pk])[bob.pk] == ()

    read(bob, room.conversation)
    assert entries(bob) == ()


def test_entries_are_not_older_than_the_account(room: Room, bob: User) -> None:
    room.ask("@Bob, which one?")

    User.objects.filter(pk=bob.pk).update(unread_since=later())

    assert entries(bob) == ()


def test_edit_takes_a_mention_back(room: Room, alice: User, bob: User, viewer: User) -> None:
    run = room.ask("@Bob and @Vera")
    assert (kinds(bob), kinds(viewer)) == (["mention"], ["mention"])

    edited = edit_message(
        alice,
        run.message.parent,
        text="Only @Vera",
        choice=ModelChoice(upstream=room.upstream, model="demo/model"),
        idempotency_key=run.public_id,
    )

    assert kinds(bob) == []
    assert [each.message for each in entries(viewer)] == [edited.message.parent.public_id]


def test_comment_is_there_until_its_conversation_is_open_or_its_thread_resolved(
    room: Room, alice: User, bob: User
) -> None:
    """It is no news of the conversation, whose revision stays."""
    run = room.ask("Where?")
    read(alice, room.conversation)
    thread = begin_thread(bob, run.message, text="Not there.", key=uuid4())

    (entry,) = entries(alice)
    assert (entry.kind, entry.actor, entry.detail) == ("comment", "Bob", "Not there.")
    assert entry.address.endswith(f"#comment-{thread.public_id.hex}")
    assert entries(bob) == ()

    read(alice, room.conversation)
    assert entries(alice) == ()

    answer = reply(bob, thread, text="Really.", key=uuid4())
    assert kinds(alice) == ["comment"]
    resolve(bob, thread)
    assert entries(alice) == ()
    reopen(thread)
    assert kinds(alice) == ["comment"]
    delete_comment(answer)
    assert entries(alice) == ()


def test_answer_is_there_for_who_asked_and_has_not_seen_its_end(
    room: Room, alice: User, bob: User
) -> None:
    run = room.ask("Where does it begin?")
    assert kinds(alice) == []
    read(alice, room.conversation)

    end_run(run)
    assert (kinds(alice), kinds(bob)) == (["answer"], [])

    read(alice, room.conversation)
    assert kinds(alice) == []


def test_answers_of_programs_and_of_imports_are_no_entries(room: Room, alice: User) -> None:
    for change in ({"request_digest": "d" * 64}, {"upstream": None}):
        run = room.ask("Where?")
        end_run(run)
        Run.objects.filter(pk=run.pk).update(**change)

    assert kinds(alice) == []


def test_failed_answer_says_so(room: Room, alice: User) -> None:
    end_run(room.ask("Where?"))
    Run.objects.update(status=RunStatus.FAILED)

    (entry,) = entries(alice)
    assert entry.source.words(entry.detail) == "Failed"


def test_share_is_there_until_it_is_opened_or_taken_back(
    private_conversation: Conversation, alice: User, bob: User, viewer: User
) -> None:
    for person in (bob, viewer):
        add_participant(alice, private_conversation, person, ConversationRole.READER)
    (entry,) = entries(bob)
    assert (entry.kind, entry.actor, entry.message) == ("share", "Alice", None)

    read(bob, private_conversation)
    remove_participant(alice, Participant.objects.get(person=viewer))

    assert (kinds(bob), kinds(viewer), kinds(alice)) == ([], [], [])


def test_question_is_there_until_it_is_answered_however_often_it_is_read(
    room: Room, alice: User
) -> None:
    question = make_question(room)
    read(alice, room.conversation)
    assert kinds(alice) == ["question"]

    Question.objects.filter(pk=question.pk).update(status=QuestionStatus.ANSWERED)
    assert kinds(alice) == []


def test_entries_end_with_the_conversation(room: Room, alice: User, bob: User) -> None:
    end_run(run := room.ask("@Bob"))
    make_question(room, below=run.message)
    assert (kinds(alice), kinds(bob)) == (["question", "answer"], ["mention"])

    delete(alice, room.conversation)
    assert (kinds(alice), kinds(bob)) == ([], [])


def test_mark_all_read_leaves_what_needs_a_response(
    room: Room, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_run(room.ask("Where?"))
    make_question(room)
    monkeypatch.setattr("chat.inbox.entries.SHOWN_AFTER", timedelta(seconds=-1))

    mark_all_read(alice)

    assert kinds(alice) == ["question"]


def test_old_and_many_entries_are_not_listed(room: Room, alice: User, bob: User) -> None:
    message = room.ask("@Bob").message.parent
    assert read_entries([bob.pk], now=later() + timedelta(days=31))[bob.pk] == ()

    mention = message.mentions.get()
    for _ in range(MOST_ENTRIES + 5):
        mention.pk = None
        mention.message = Message.objects.create(
            conversation=room.conversation, parent=mention.message, author=alice, revision=99
        )
        mention.save()
    assert len(entries(bob)) == MOST_ENTRIES


# --- who has them -----------------------------------------------------------------------------------

Share = Callable[[Conversation, User], None]


def with_person(conversation: Conversation, person: User) -> None:
    Participant.objects.create(conversation=conversation, person=person)


def with_group(conversation: Conversation, person: User) -> None:
    group = Group.objects.create(team=conversation.team, name="Divers")
    GroupMember.objects.create(group=group, user=person)
    Participant.objects.create(conversation=conversation, group=group)


def with_team(conversation: Conversation, person: User) -> None:
    Conversation.objects.filter(pk=conversation.pk).update(visibility=Visibility.TEAM)


# The role in the team, what gives access, and whether the mention is in the inbox with it.
RELATIONS = [
    ("participant", TeamRole.MEMBER, with_person, True),
    ("group", TeamRole.MEMBER, with_group, True),
    ("team", TeamRole.MEMBER, with_team, True),
    ("viewer", TeamRole.VIEWER, with_person, True),
    ("guest", TeamRole.GUEST, with_person, True),
    ("guest of the team", TeamRole.GUEST, with_team, False),
    ("stranger", None, with_person, False),
]


@pytest.mark.parametrize(
    ("role", "share", "has_it"), [row[1:] for row in RELATIONS], ids=[row[0] for row in RELATIONS]
)
def test_mention_is_only_there_while_its_person_may_read_it(
    private_room: Room,
    make_user: MakeUser,
    team: Team,
    role: TeamRole | None,
    share: Share,
    has_it: bool,
) -> None:
    dana, room = make_user("Dana"), private_room.conversation
    if role is not None:
        Membership.objects.create(team=team, user=dana, role=role)
    private_room.ask("What does @Dana say?")
    assert kinds(dana) == []

    share(room, dana)
    assert kinds(dana).count("mention") == has_it

    Membership.objects.filter(user=dana).delete()
    assert kinds(dana) == []


@pytest.fixture
def private_room(room: Room) -> Room:
    rows = Conversation.objects.filter(pk=room.conversation.pk)
    rows.update(visibility=Visibility.PRIVATE)
    room.conversation.refresh_from_db()
    return room


# --- what it costs ----------------------------------------------------------------------------------


@pytest.mark.databases
def test_look_is_one_statement_for_all_tabs(
    room: Room, alice: User, bob: User, viewer: User
) -> None:
    end_run(room.ask("@Bob and @Vera"))
    make_question(room)
    asked = [person.pk for person in (alice, bob, viewer) for _ in range(3)]

    with CaptureQueriesContext(connection) as queries:
        InboxLook().read(asked)

    assert len(queries) == 1


def test_message_without_a_sign_costs_no_statement_more(room: Room) -> None:
    costs = []
    for text in ("Where?", "@Bob?"):
        with CaptureQueriesContext(connection) as queries:
            room.ask(text)
        costs.append(len(queries))

    plain, mentioning = costs
    assert mentioning == plain + 3


# --- the page ---------------------------------------------------------------------------------------


@pytest.mark.databases
def test_page_lists_entries_at_their_turns(
    as_bob: Client, room: Room, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = room.ask("@Bob <b>which</b>?")
    monkeypatch.setattr("chat.inbox.entries.SHOWN_AFTER", timedelta(seconds=-1))

    page = as_bob.get(reverse("inbox")).content.decode()
    message = run.message.parent.public_id

    assert f'href="/m/{message}/#m{message.hex}"' in page
    assert "Alice mentioned you" in page
    assert "&lt;b&gt;which&lt;/b&gt;" in page

    as_bob.post(reverse("inbox_read"))
    assert "Nothing needs your attention" in as_bob.get(reverse("inbox")).content.decode()


def test_kinds_are_switched_off(as_bob: Client, bob: User) -> None:
    as_bob.post(reverse("inbox_notifications"), {"kinds": ["mention"]})

    bob.refresh_from_db()
    assert bob.muted_kinds == "question call comment answer"
    assert 'data-muted="question call comment answer"' in as_bob.get("/").content.decode()
