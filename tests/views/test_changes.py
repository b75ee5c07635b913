from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.http import HttpResponse
from django.test import Client
from lxml import html

from chat.actions import conversations as verbs
from chat.models import Artifact, Membership, Message, Run, RunStatus, TeamRole, User
from chat.views.transcript import PAGE_TURNS
from tests.views.conftest import HTMX, Patches, Room, address, end_run, position

pytestmark = pytest.mark.databases


def changes(client: Client, room: Room, headers: dict[str, str]) -> HttpResponse:
    return client.get(address("conversation_changes", room.conversation), headers=headers)


def test_a_page_that_is_up_to_date_gets_no_turns(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(alice, "First")

    patches = Patches(changes(as_alice, room, position(answer.parent, answer, room.conversation)))

    assert patches.turns == []
    assert patches.removed == []
    assert patches.to("#strip") == []


def test_a_colleagues_turn_is_appended(as_bob: Client, room: Room, alice: User) -> None:
    first = room.turn(alice, "First")
    headers = position(first.parent, first, room.conversation)
    second = room.turn(alice, "Second", first)

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns == [second.parent.public_id.hex, second.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["beforeend"]


def test_a_live_turn_comes_with_its_cursor_and_its_phase(
    as_bob: Client, room: Room, alice: User
) -> None:
    first = room.turn(alice, "First")
    headers = position(first.parent, first, room.conversation)
    run = room.ask(alice, "Second", first)

    response = changes(as_bob, room, headers)

    body = response.content.decode()
    assert f'data-run="{run.public_id.hex}" data-seq="0"' in body
    assert "data-live" in body
    assert f'id="p{run.public_id.hex}"' in body
    assert f'action="{address("run_stop", run)}"' in body


def test_the_revision_comes_with_the_changes(as_alice: Client, room: Room, alice: User) -> None:
    room.turn(alice, "First")
    room.conversation.refresh_from_db()

    response = changes(as_alice, room, HTMX)

    assert response.headers["X-Room-Revision"] == str(room.conversation.revision)


@pytest.mark.parametrize(
    "header",
    ["", "nonsense", "{}", "[]", '{"tail": 7}', '{"tail": "00"}', "{" * 9000],
    ids=["none", "nonsense", "empty", "list", "number", "unknown", "long"],
)
def test_a_page_that_does_not_say_what_it_shows_gets_everything(
    as_alice: Client, room: Room, alice: User, header: str
) -> None:
    answer = room.turn(alice, "First")

    patches = Patches(changes(as_alice, room, {**HTMX, "X-Room-Position": header}))

    assert patches.turns == [answer.parent.public_id.hex, answer.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_page_on_a_branch_that_nobody_looks_at_any_more_gets_everything(
    as_bob: Client, room: Room, alice: User
) -> None:
    one = room.turn(alice, "One")
    headers = position(one.parent, one, room.conversation)
    two = room.turn(alice, "Two")

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns == [two.parent.public_id.hex, two.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_page_that_begins_later_than_the_fork_gets_everything(
    as_bob: Client, room: Room, alice: User
) -> None:
    first = room.turn(alice, "First")
    second = room.turn(alice, "Second", first)
    third = room.turn(alice, "Third", second)
    headers = position(third.parent, third, room.conversation)
    other = room.turn(alice, "Other", first)

    patches = Patches(changes(as_bob, room, headers))

    assert patches.turns[-1] == other.public_id.hex
    assert [swap for swap, _ in patches.to("#turns")] == ["innerHTML"]


def test_a_new_title_reaches_the_heading_and_the_list(
    as_bob: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    verbs.rename(room.conversation, "Springs <i>")

    patches = Patches(changes(as_bob, room, headers))

    assert "Springs <i>" in patches.to("#room-head")[0][1]
    assert "Springs <i>" in patches.to("#conversations")[0][1]


def test_who_becomes_a_viewer_loses_the_composer(
    as_bob: Client, room: Room, alice: User, bob: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    Membership.objects.filter(user=bob).update(role=TeamRole.VIEWER)

    patches = Patches(changes(as_bob, room, headers))

    assert "you can read along" in patches.to("#composer-slot")[0][1]
    assert patches.tree.xpath("//textarea") == []


def test_who_is_no_longer_a_viewer_gets_the_composer(
    as_viewer: Client, room: Room, alice: User, viewer: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation, writes=False)
    Membership.objects.filter(user=viewer).update(role=TeamRole.MEMBER)

    patches = Patches(changes(as_viewer, room, headers))

    assert len(patches.tree.xpath("//textarea[@id='text']")) == 1


def test_the_heading_that_is_shown_is_not_sent_again(
    as_alice: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    page = as_alice.get(address("conversation", room.conversation))
    mark = page.context["head_mark"]

    patches = Patches(
        changes(as_alice, room, position(answer.parent, answer, room.conversation, head=mark))
    )

    assert patches.to("#room-head") == []


def test_a_reader_who_was_away_for_longer_than_a_page_gets_a_page(
    as_bob: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    for number in range(PAGE_TURNS // 2 + 1):
        answer = room.turn(alice, f"Further {number}", answer)

    patches = Patches(changes(as_bob, room, headers))

    assert len(patches.turns) == PAGE_TURNS
    assert patches.to("#earlier")


def test_every_target_is_on_the_page(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(alice, "First")
    page = html.fromstring(
        as_alice.get(address("conversation", room.conversation)).content.decode()
    )
    ids = {f"#{element.get('id')}" for element in page.xpath("//*[@id]")}
    headers = position(answer.parent, answer, room.conversation, revision=0, head="old")
    room.ask(alice, "Second", answer)

    patches = Patches(changes(as_alice, room, headers))

    assert {partial.get("hx-target") for partial in patches.partials} <= ids
    assert Message.objects.count() == 4


# --- an answer has ended -------------------------------------------------------------------


def follow(run: Run, room: Room, **more: object) -> dict[str, str]:
    """The headers of a page that was loaded while the run was live."""
    hex_id = run.public_id.hex
    shown = {"open": [run.message.public_id.hex], "runs": {hex_id: 0}}
    shown |= {"strip": hex_id, "action": hex_id, **more}
    return position(run.message.parent, run.message, room.conversation, **shown)


def parts_of(source: str) -> dict[str, str]:
    """Each element with an id, without what is another one each time."""
    tree = html.fragment_fromstring(source, create_parent="body")
    for changing in tree.xpath("//input[@name='csrfmiddlewaretoken' or @name='key']"):
        changing.set("value", "")
    return {
        f"#{element.get('id')}": "".join(html.tostring(element, encoding="unicode").split())
        for element in tree.xpath("//*[@id]")
    }


def also_renamed(run: Run, room: Room, alice: User) -> None:
    verbs.rename(room.conversation, "Another title")


def with_an_artifact(run: Run, room: Room, alice: User) -> None:
    artifact = Artifact.objects.create(conversation=room.conversation, artifact_id="a")
    artifact.versions.create(run=run, number=1, seq=1)


def by_a_pause(run: Run, room: Room, alice: User) -> None:
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.INCOMPLETE,
        notes=["The server paused, and cannot be asked to go on: it was removed or switched off."],
    )


def beside_another_answer(run: Run, room: Room, alice: User) -> None:
    other = room.turn(alice, "Where else?")
    verbs.choose_branch(alice, run.message.parent)
    assert other.parent.parent_id == run.message.parent.parent_id


@pytest.mark.parametrize(
    "besides",
    [None, also_renamed, with_an_artifact, by_a_pause, beside_another_answer],
    ids=lambda besides: besides.__name__ if besides else "alone",
)
def test_after_an_answer_the_page_shows_what_a_new_one_would(
    as_alice: Client,
    room: Room,
    alice: User,
    besides: Callable[[Run, Room, User], None] | None,
) -> None:
    run = room.ask(alice, "First")
    headers = follow(run, room)
    end_run(run)
    if besides is not None:
        besides(run, room, alice)

    patches = Patches(changes(as_alice, room, headers))

    page = as_alice.get(address("conversation", room.conversation)).content.decode()
    expected = parts_of(html.tostring(html.fromstring(page).body, encoding="unicode"))
    footer = f"#a{run.message.public_id.hex}"
    for target in (footer, "#strip", "#composer-action"):
        ((swap, _),) = patches.to(target)
        (patch,) = patches.by_target[target]
        assert swap == "outerHTML"
        assert parts_of(patch)[target] == expected[target]
    assert patches.turns == []
    if besides is with_an_artifact:
        assert "Artifacts (1)" in patches.to(footer)[0][1]


def test_after_an_answer_few_statements_are_made(
    as_alice: Client,
    room: Room,
    alice: User,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    for number in range(3):
        room.turn(alice, f"Earlier {number}")
    run = room.ask(alice, "First")
    headers = follow(run, room)
    end_run(run)

    # Who asks (2), the conversation, its path, the runs, things kept, tools, the list.
    with django_assert_max_num_queries(8):
        changes(as_alice, room, headers)
