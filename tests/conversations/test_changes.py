"""The changes that a page fetches: turns, title, rights, and the end of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.http import HttpResponse
from django.test import Client
from lxml import html

from chat.conversations.actions import conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.page_updates import CSRF_PLACE, KEY_PLACE, PageReader, render_updates
from chat.conversations.transcript import PAGE_TURNS
from chat.models import (
    AnswerFile,
    BranchChoice,
    Membership,
    Message,
    Run,
    RunStatus,
    TeamRole,
    User,
)
from chat.runs.outcomes import SERVER_IS_GONE
from tests.support.files import store_file
from tests.support.rooms import HTMX, Headers, Patches, Room, end_run, url_of

pytestmark = pytest.mark.databases(slow=True)


def assert_replaces_all(patches: Patches) -> None:
    assert patches.swaps("#turns") == ["innerHTML"]


def ids_of(*messages: Message) -> list[str]:
    return [message.public_id.hex for message in messages]


def test_current_page_gets_no_turns(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")

    patches = room.changes(as_alice, room.position(answer))

    assert patches.turns == []
    assert patches.removed == []
    assert patches.to("#strip") == []


def test_turn_of_a_colleague_is_appended(as_bob: Client, room: Room) -> None:
    first = room.turn("First")
    headers = room.position(first)
    second = room.turn("Second", first)

    patches = room.changes(as_bob, headers)

    assert patches.turns == ids_of(second.parent, second)
    assert patches.swaps("#turns") == ["beforeend"]


def test_live_turn_has_a_cursor_and_a_phase(as_bob: Client, room: Room) -> None:
    first = room.turn("First")
    headers = room.position(first)
    run = room.ask("Second", first)

    body = room.changes(as_bob, headers).response.content.decode()

    assert f'data-run="{run.public_id.hex}" data-seq="0"' in body
    assert "data-live" in body
    assert f'id="p{run.public_id.hex}"' in body
    assert f'action="{url_of("run_stop", run)}"' in body


def test_changes_carry_the_revision(as_alice: Client, room: Room) -> None:
    room.turn("First")
    room.conversation.refresh_from_db()

    response = room.changes(as_alice, HTMX).response

    assert response.headers["X-Room-Revision"] == str(room.conversation.revision)


# --- everything -----------------------------------------------------------------------------


def test_page_without_a_valid_position_gets_everything(
    as_alice: Client, room: Room, subtests: pytest.Subtests
) -> None:
    answer = room.turn("First")

    for header in ("", "nonsense", "{}", "[]", '{"tail": 7}', '{"tail": "00"}', "{" * 9000):
        with subtests.test(msg=header[:20]):
            patches = room.changes(as_alice, {**HTMX, "X-Room-Position": header})

            assert patches.turns == ids_of(answer.parent, answer)
            assert_replaces_all(patches)


def test_page_on_a_branch_that_its_reader_left_gets_everything(
    as_alice: Client, room: Room
) -> None:
    headers = room.position(room.turn("One"))
    two = room.turn("Two")

    patches = room.changes(as_alice, headers)

    assert patches.turns == ids_of(two.parent, two)
    assert_replaces_all(patches)


def test_page_that_begins_after_the_fork_gets_everything(as_alice: Client, room: Room) -> None:
    first = room.turn("First")
    second = room.turn("Second", first)
    third = room.turn("Third", second)
    headers = room.position(third)
    other = room.turn("Other", first)

    patches = room.changes(as_alice, headers)

    assert patches.turns[-1] == other.public_id.hex
    assert_replaces_all(patches)


def test_reader_keeps_what_a_colleague_replaced(as_bob: Client, room: Room) -> None:
    one = room.turn("One")
    headers = room.position(one)
    two = room.turn("Two")

    patches = room.changes(as_bob, headers)

    assert patches.turns == []
    assert patches.removed == []
    assert "Alice edited this message" in patches.response.content.decode()
    assert room.page(as_bob).xpath("//article/@data-turn") == ids_of(one.parent, one)
    as_bob.post(url_of("message_show", two.parent))
    assert room.page(as_bob).xpath("//article/@data-turn") == ids_of(two.parent, two)
    assert "edited this message" not in room.source(as_bob)


def test_reader_who_chose_a_version_is_told_nothing(as_bob: Client, room: Room) -> None:
    one, two = room.turn("One"), room.turn("Two")
    as_bob.post(url_of("message_show", one.parent))
    headers = room.position(two)

    patches = room.changes(as_bob, headers)

    assert patches.turns == ids_of(one.parent, one)
    assert "edited this message" not in patches.response.content.decode()


def test_own_choice_stays_one_when_the_branch_above_it_is_kept(as_bob: Client, room: Room) -> None:
    first = room.turn("First")
    chosen = room.turn("Chosen", first)
    room.turn("Newer", first)
    as_bob.post(url_of("message_show", chosen.parent))
    headers = room.position(chosen)
    room.turn("Beside all of it")

    patches = room.changes(as_bob, headers)

    assert patches.turns == []
    source = room.source(as_bob)
    # The first message is kept; below it stands what Bob has chosen.
    assert source.count("edited this message") == 1
    assert room.page(as_bob).xpath("//article/@data-turn") == ids_of(
        first.parent, first, chosen.parent, chosen
    )


def test_branch_is_kept_for_who_reads_it_alone(
    as_alice: Client, as_bob: Client, room: Room
) -> None:
    one = room.turn("One")
    headers = room.position(one)
    two = room.turn("Two")

    room.changes(as_bob, headers)

    assert room.page(as_alice).xpath("//article/@data-turn") == ids_of(two.parent, two)
    assert BranchChoice.objects.count() == 1


def test_reader_who_missed_more_than_a_page_gets_a_page(as_bob: Client, room: Room) -> None:
    answer = room.turn("First")
    headers = room.position(answer)
    for number in range(PAGE_TURNS // 2 + 1):
        answer = room.turn(f"Further {number}", answer)

    patches = room.changes(as_bob, headers)

    assert len(patches.turns) == PAGE_TURNS
    assert patches.to("#earlier")


# --- title and rights -----------------------------------------------------------------------


def test_new_title_is_sent_to_the_heading_and_the_list(as_bob: Client, room: Room) -> None:
    headers = room.position(room.turn("First"))
    conversation.rename(room.conversation, "Springs <i>")

    patches = room.changes(as_bob, headers)

    assert "Springs <i>" in patches.text("#room-head")
    assert "Springs <i>" in patches.text("#conversations")


def test_current_heading_is_not_sent_again(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    mark = as_alice.get(room.url).context["head_mark"]

    patches = room.changes(as_alice, room.position(answer, head=mark))

    assert patches.to("#room-head") == []


def test_member_who_becomes_a_viewer_loses_the_composer(
    as_bob: Client, room: Room, bob: User
) -> None:
    headers = room.position(room.turn("First"))
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    patches = room.changes(as_bob, headers)

    assert "You have read-only access" in patches.text("#composer-slot")
    assert patches.tree.xpath("//textarea") == []


def test_viewer_who_becomes_a_member_gets_the_composer(
    as_viewer: Client, room: Room, viewer: User
) -> None:
    headers = room.position(room.turn("First"), writes=False)
    Membership.objects.filter(user=viewer).update(role=TeamRole.MEMBER)

    patches = room.changes(as_viewer, headers)

    assert len(patches.tree.xpath("//textarea[@id='text']")) == 1


def test_every_target_is_on_the_page(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    ids = {f"#{id}" for id in room.page(as_alice).xpath("//@id")}
    headers = room.position(answer, revision=0, head="old")
    room.ask("Second", answer)

    patches = room.changes(as_alice, headers)

    assert patches.targets <= ids
    assert Message.objects.count() == 4


# --- the end of an answer -------------------------------------------------------------------


def position_of_a_viewer(room: Room, run: Run) -> Headers:
    """The headers of a page that was loaded while the run was live."""
    return room.live_position(run, open=[run.message.public_id.hex], runs={run.public_id.hex: 0})


def parts_of(source: str) -> dict[str, str]:
    """Each element with an id, without the values that differ each time."""
    tree = html.fragment_fromstring(source, create_parent="body")
    for changing in tree.xpath("//input[@name='csrfmiddlewaretoken' or @name='key']"):
        changing.set("value", "")
    return {
        f"#{element.get('id')}": "".join(html.tostring(element, encoding="unicode").split())
        for element in tree.xpath("//*[@id]")
    }


def nothing_else(run: Run, room: Room) -> None:
    pass


def rename(run: Run, room: Room) -> None:
    conversation.rename(room.conversation, "Another title")


def add_file(run: Run, room: Room) -> None:
    file = store_file(conversation=room.conversation, body=b"x")
    AnswerFile.objects.create(run=run, file=file, item=1)


def end_by_a_pause(run: Run, room: Room) -> None:
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.INCOMPLETE,
        notes=[str(SERVER_IS_GONE)],
    )


def add_branch(run: Run, room: Room) -> None:
    other = room.turn("Where else?")
    message_actions.choose_branch(room.conversation.owner, run.message.parent)
    assert other.parent.parent_id == run.message.parent.parent_id


@pytest.mark.parametrize("also", [nothing_else, rename, add_file, end_by_a_pause, add_branch])
def test_page_after_an_answer_equals_a_new_one(
    as_alice: Client, room: Room, also: Callable[[Run, Room], None]
) -> None:
    run = room.ask("First")
    headers = position_of_a_viewer(room, run)
    end_run(run)
    also(run, room)

    patches = room.changes(as_alice, headers)

    expected = parts_of(html.tostring(room.page(as_alice).body, encoding="unicode"))
    footer = f"#a{run.message.public_id.hex}"
    for target in (footer, "#strip", "#composer-action"):
        (patch,) = patches.by_target[target]
        assert patches.swaps(target) == ["outerHTML"]
        assert parts_of(patch)[target] == expected[target]
    assert patches.turns == []
    assert ("Files (1)" in patches.text(footer)) is (also is add_file)


def as_pushed(patches: Patches) -> dict[str, list[str]]:
    """Without the list, which comes by itself, and the keys, which are different each time."""
    for key in patches.tree.xpath("//input[@name='key']"):
        key.set("value", "")
    return {
        target: found for target, found in patches.by_target.items() if target != "#conversations"
    }


@pytest.mark.parametrize("also", [nothing_else, rename, add_file, end_by_a_pause, add_branch])
def test_pushed_update_is_what_a_request_brings(
    as_alice: Client,
    as_bob: Client,
    as_viewer: Client,
    room: Room,
    alice: User,
    bob: User,
    viewer: User,
    also: Callable[[Run, Room], None],
) -> None:
    run = room.ask("First")
    shown = position_of_a_viewer(room, run)["X-Room-Position"]
    state = json.loads(shown)
    reading = {**state, "writes": False, "action": ""}
    people = [(as_alice, alice, state), (as_bob, bob, state), (as_viewer, viewer, reading)]
    end_run(run)
    also(run, room)

    readers = [PageReader(user.pk, json.dumps(state).encode()) for _, user, state in people]
    updates = render_updates(room.conversation.public_id, readers)

    for reader, (client, _, _) in zip(readers, people, strict=True):
        update = updates[reader]
        asked = room.changes(client, {**HTMX, "X-Room-Position": reader.state.decode()})
        if update is None:
            # It reads another branch than they go on in.
            assert also is add_branch
            continue
        text = json.loads(update.message(room.conversation.public_id, 1, "a" * 32))["content"]
        assert CSRF_PLACE not in text
        assert KEY_PLACE not in text
        assert as_pushed(Patches(HttpResponse(text))) == as_pushed(asked)
        assert f'"revision":{asked.response.headers["X-Room-Revision"]},' in update.message(
            room.conversation.public_id, 1, ""
        )


def test_update_is_rendered_once_for_those_who_see_the_same(
    room: Room, alice: User, bob: User, viewer: User, charlie: User
) -> None:
    more = [User.objects.create_user(f"{n}@example.org", None, name=f"{n}") for n in range(3)]
    for user in more:
        Membership.objects.create(team=room.conversation.team, user=user, role=TeamRole.MEMBER)
    run = room.ask("First")
    state = position_of_a_viewer(room, run)["X-Room-Position"].encode()
    end_run(run)

    people = [alice, bob, *more, viewer, charlie]
    readers = [PageReader(user.pk, state) for user in people]
    updates = render_updates(room.conversation.public_id, readers)

    # Bob's rights are those of the others; who only reads has a page with a composer, and asks; a
    # stranger gets nothing.
    assert len({id(updates[reader]) for reader in readers[1:5]}) == 1
    assert updates[readers[0]] is not updates[readers[1]]
    assert updates[readers[5]] is None
    assert readers[6] not in updates


def test_end_of_an_answer_costs_few_queries(
    as_alice: Client,
    room: Room,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    for number in range(3):
        room.turn(f"Earlier {number}")
    run = room.ask("First")
    headers = position_of_a_viewer(room, run)
    end_run(run)

    # Session and user, the conversation, its path, runs, artifacts, tools, the list and its version,
    # its projects, and whether one may create some.
    with django_assert_max_num_queries(12):
        room.changes(as_alice, headers)
    # The person, the conversation, its path, runs, artifacts, tools.
    reader = PageReader(room.conversation.owner_id, headers["X-Room-Position"].encode())
    with django_assert_max_num_queries(6):
        render_updates(room.conversation.public_id, [reader])
