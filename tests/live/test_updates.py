"""What has changed is sent to the pages that show it: to nobody else, and only what they may see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest
from django.urls import get_resolver

from chat.conversations import page_channel
from chat.conversations import page_updates as rendering
from chat.conversations.actions import conversation as actions
from chat.conversations.list_version import read_list_version
from chat.live.viewer import CLOSE_ACCESS, CLOSE_SIGNED_OUT
from chat.models import Conversation, Membership, Run, User
from chat.organization import actions as organization
from chat.participants import actions as participants
from chat.projects import actions as projects
from tests.live.conftest import LiveRun, OpenStream, OpenTab, SignIn, threads
from tests.live.connection import StreamTab, Tab

lost_notifications = pytest.mark.usefixtures("lost_notifications")


@pytest.fixture(autouse=True)
def _addresses() -> None:
    """Loaded with the first page, which nobody asks for here. That takes seconds."""
    assert get_resolver().url_patterns


def state_of(run: Run, revision: int, *, writes: bool = True) -> dict[str, Any]:
    """What a page that shows the run's turn, whose answer is live, says of itself."""
    hex_id = run.public_id.hex
    return {
        "first": run.message.parent.public_id.hex,
        "tail": run.message.public_id.hex,
        "revision": revision,
        "open": [run.message.public_id.hex],
        "strip": hex_id,
        "action": hex_id if writes else "",
        "runs": {hex_id: 0},
        "writes": writes,
    }


def page(number: int, state: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": number,
        "revision": state["revision"],
        "writes": state["writes"],
        "state": state,
    }


async def enter(tab: Tab, run: LiveRun, *, writes: bool = True) -> dict[str, Any]:
    """The tab shows the room with the live answer; returns its state."""
    room = run.row.conversation
    await threads.call(room.refresh_from_db)
    state = state_of(run.row, room.revision, writes=writes)
    tab.hello(room.public_id, page=page(1, state))
    await tab.until(lambda tab: tab.heartbeats)
    return state


def updates(tab: Tab | StreamTab) -> list[dict[str, Any]]:
    return [message for message in tab.said if "page" in message]


def targets(update: dict[str, Any]) -> list[str]:
    return re.findall(r'hx-target="([^"]+)"', update["content"])


async def test_end_is_sent_to_each_as_they_may_see_it(
    run: LiveRun, open_tab: OpenTab, viewer: User, sign_in: SignIn
) -> None:
    """Also how often it is rendered: for two tabs of one kind once."""
    bob, again = open_tab(), open_tab()
    reading = open_tab(session=await threads.call(sign_in, viewer))
    for tab in (bob, again):
        await enter(tab, run)
    await enter(reading, run, writes=False)
    await run.tell("Hello")

    await run.end()
    for tab in (bob, again, reading):
        await tab.until(updates)

    footer = [f"#rest-{run.id.hex}", f"#a{run.row.message.public_id.hex}"]
    (own,), (others,), (read,) = (updates(tab) for tab in (bob, again, reading))
    assert [message["page"] for message in (own, others, read)] == [1, 1, 1]
    composer = ["#composer-aim", "#gauge-figures", "#composer-action"]
    assert targets(own) == [*footer, "#room-head", "#strip", *composer]
    assert targets(read) == [*footer, "#room-head", "#strip"]
    assert "Try again" in own["content"]
    assert "Try again" not in read["content"]
    # Nothing of one page is on the other: keys are for one page.
    keys = [re.findall(r'name="key" value="([^"]+)"', one["content"]) for one in (own, others)]
    assert len({key for some in keys for key in some}) == 2
    assert [one for tab in (bob, again, reading) for one in tab.said if "page" not in one] == []


@lost_notifications
async def test_page_that_says_nothing_is_told_to_ask(
    run: LiveRun, open_tab: OpenTab, conversation: Conversation
) -> None:
    tab, unreadable = open_tab(), open_tab()
    await enter(unreadable, run)
    unreadable.say_to(page={"number": 2, "revision": 1, "state": {"tail": 7}})
    await threads.call(conversation.refresh_from_db)
    tab.hello(conversation.public_id, conversation.revision)

    await run.end()

    for each in (tab, unreadable):
        await each.until(lambda tab: tab.said)
        assert "content" not in each.said[-1]
        assert each.said[-1]["room"] == conversation.public_id.hex


@lost_notifications
async def test_next_update_waits_for_the_page(
    run: LiveRun, open_tab: OpenTab, conversation: Conversation, alice: User
) -> None:
    tab, other = open_tab(), open_tab()
    state = await enter(tab, run)
    await threads.call(actions.rename, conversation, "One")
    await tab.until(updates)

    # It has not said what it shows now. By the time another page gets both, it was checked as well.
    for title in ("Two", "Three"):
        await threads.call(actions.rename, conversation, title)
    await threads.call(conversation.refresh_from_db)
    await other_page(other, run, state)
    await other.until(updates)
    assert len(updates(tab)) == 1
    tab.say_to(page=page(2, {**state, "revision": updates(tab)[0]["revision"]}))

    await tab.until(lambda tab: len(updates(tab)) == 2)
    assert updates(tab)[1]["page"] == 2
    assert updates(tab)[1]["revision"] == conversation.revision
    assert "Three" in updates(tab)[1]["content"]


async def other_page(tab: Tab, run: LiveRun, state: dict[str, Any]) -> None:
    tab.hello(run.room, page=page(1, state))


@lost_notifications
async def test_page_that_is_asking_is_sent_nothing(
    run: LiveRun, open_tab: OpenTab, conversation: Conversation
) -> None:
    tab, other = open_tab(), open_tab()
    state = await enter(tab, run)
    tab.say_to(page={"is_asking": True})
    await enter(other, run)

    await threads.call(actions.rename, conversation, "Another title")
    await other.until(updates)

    assert tab.said == []
    # The answer to what it asked did not bring it.
    tab.say_to(page=page(2, state))
    await tab.until(updates)
    assert "Another title" in updates(tab)[0]["content"]


async def test_lost_update_is_asked_for(
    run: LiveRun, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.conversations.page_channel.UPDATE_SECONDS", 0.0)
    tab = open_tab()
    await enter(tab, run)

    await run.end()

    await tab.until(lambda tab: len(tab.said) == 2)
    assert ["content" in message for message in tab.said] == [True, False]
    assert tab.said[0]["revision"] == tab.said[1]["revision"]


@lost_notifications
async def test_stream_gets_one_update_and_asks_then(
    run: LiveRun, open_stream: OpenStream, conversation: Conversation
) -> None:
    await threads.call(conversation.refresh_from_db)
    state = state_of(run.row, conversation.revision)
    tab = open_stream(room=run.room, channels={"page": page(1, state)})
    await tab.until_answered()

    await threads.call(actions.rename, conversation, "Another title")
    await tab.until(lambda tab: tab.said)
    await threads.call(actions.rename, conversation, "A third one")
    await tab.until(lambda tab: len(tab.said) == 2)

    assert ["content" in message for message in tab.said] == [True, False]


def leaves_the_team(user: User) -> None:
    Membership.objects.filter(user=user).delete()


def is_disabled(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize(
    ("loses_access", "code"),
    [(leaves_the_team, CLOSE_ACCESS), (is_disabled, CLOSE_SIGNED_OUT)],
)
async def test_right_that_is_lost_before_rendering_gives_nothing(
    run: LiveRun,
    open_tab: OpenTab,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    loses_access: Callable[[User], None],
    code: int,
) -> None:
    rendered = []

    def render_after_the_loss(room: UUID, readers: Iterable[Any]) -> dict[Any, Any]:
        loses_access(bob)
        rendered.append(rendering.render_updates(room, list(readers)))
        return rendered[-1]

    monkeypatch.setattr(page_channel.updates, "render", render_after_the_loss)
    tab = open_tab()
    await enter(tab, run)

    await run.end()
    await tab.until_closed()

    assert rendered[0] == {}
    assert tab.close_code == code
    assert all("content" not in message for message in tab.said)


# --- the list -----------------------------------------------------------------------------------


def as_it_is(owner: User, bob: User, room: Conversation) -> None:
    pass


def pinned(owner: User, bob: User, room: Conversation) -> None:
    organization.pin(bob, room)


def in_a_project(owner: User, bob: User, room: Conversation) -> None:
    projects.move_conversation(owner, room, projects.create_project(owner, room.team, name="Dam"))


def archived(owner: User, bob: User, room: Conversation) -> None:
    organization.archive(owner, room)


def private(owner: User, bob: User, room: Conversation) -> None:
    participants.set_visibility(owner, room, "private")


Prepare = Callable[[User, User, Conversation], None]
PLACES: list[tuple[Prepare, str | None]] = [
    (as_it_is, "recent"),
    (pinned, "pinned"),
    (in_a_project, "project"),
    (archived, ""),
    (private, None),
]


@lost_notifications
@pytest.mark.parametrize(("prepare", "place"), PLACES)
async def test_changed_line_is_sent_to_people_who_may_see_it(
    open_tab: OpenTab,
    conversation: Conversation,
    alice: User,
    bob: User,
    prepare: Prepare,
    place: str | None,
) -> None:
    def begin() -> str:
        prepare(alice, bob, conversation)
        fresh = Conversation.objects.select_related("project").get(pk=conversation.pk)
        places["project"] = fresh.project.public_id.hex if fresh.project else ""
        return read_list_version(bob.pk)

    places: dict[str, str] = {}

    other = Conversation(team=conversation.team, owner=alice, visibility="team", title="Other")
    await threads.call(other.save)
    tab = open_tab()
    tab.hello(list={"version": await threads.call(begin)})
    await tab.until(lambda tab: tab.heartbeats)
    # So that the list is known to be up to date.
    await until_lines(tab, other, 1)

    await threads.call(actions.rename, conversation, "Another title")
    await until_lines(tab, other, 2)

    lines = [line for message in tab.said for line in message.get("lines", ())]
    mine = [line for line in lines if line["room"] == conversation.public_id.hex]
    expected = [] if place is None else [places.get(place, place)]
    assert list(dict.fromkeys(line["place"] for line in mine)) == expected
    assert any("Another title" in line["html"] for line in mine) is bool(place)
    assert all("lines" in message and message["day"] for message in tab.said[1:])


async def until_lines(tab: Tab, other: Conversation, number: int) -> None:
    """What changed before it, was sent at the latest with a change of this conversation."""
    title = f"Other {number}"
    for attempt in range(100):
        await threads.call(actions.rename, other, f"{title} {attempt}")
        try:
            async with __import__("asyncio").timeout(0.3):
                await tab.until(lambda tab: title in json.dumps(tab.said))
                return
        except TimeoutError:
            continue
    raise AssertionError(title)
