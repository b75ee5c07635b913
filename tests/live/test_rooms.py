"""What a page learns of its room: a colleague's turn, a rename, a place in line."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from uuid import UUID

import pytest

from chat.actions import conversations as verbs
from chat.actions.conversations import ModelChoice
from chat.consumers import tabs
from chat.doorbell import QUEUED, ROOMS, Doorbell, room_topic
from chat.live import watch as watch_module
from chat.live.watch import Answers, Identity
from chat.models import Conversation, Run, RunStatus, Upstream, User
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import Tab


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every doorbell is lost."""
    monkeypatch.setattr("chat.doorbell.Doorbell.ring", lambda self, topic: None)


def write(user: User, conversation: Conversation, upstream: Upstream) -> Run:
    return verbs.send_message(
        user,
        conversation,
        parent=None,
        text="A colleague's question",
        choice=ModelChoice(upstream=upstream, model="m"),
        idempotency_key=uuid.uuid4(),
    )


def rename(user: User, conversation: Conversation, upstream: Upstream) -> None:
    verbs.rename(conversation, "Another title")


def change_in_the_admin(user: User, conversation: Conversation, upstream: Upstream) -> None:
    conversation.touch()


async def enter(tab: Tab, room: Conversation) -> int:
    """Shows the room as it is; returns its revision."""
    await threads.call(room.refresh_from_db)
    tab.hello(room.public_id, room.revision)
    return room.revision


@pytest.mark.parametrize("change", [write, rename, change_in_the_admin])
async def test_a_change_of_the_room_is_announced_although_every_doorbell_is_lost(
    silence: None,
    open_tab: OpenTab,
    bobs_session: str,
    conversation: Conversation,
    upstream: Upstream,
    alice: User,
    change: Callable[[User, Conversation, Upstream], object],
) -> None:
    tab = open_tab(bobs_session)
    seen = await enter(tab, conversation)

    await threads.call(change, alice, conversation, upstream)
    await tab.until(lambda tab: tab.said)

    assert tab.said[0]["room"] == conversation.public_id.hex
    assert tab.said[0]["revision"] > seen


async def test_a_page_that_is_up_to_date_hears_nothing(
    silence: None, open_tab: OpenTab, bobs_session: str, conversation: Conversation
) -> None:
    tab = open_tab(bobs_session)
    revision = await enter(tab, conversation)

    # An older page of the same room is answered; by then the other was looked at as well.
    older = open_tab(bobs_session)
    older.hello(conversation.public_id, revision - 1)
    await older.until(lambda tab: tab.said)

    assert tab.said == []
    assert older.said == [{"room": conversation.public_id.hex, "revision": revision}]


async def test_the_end_of_a_run_changes_the_room(
    silence: None, run: LiveRun, open_tab: OpenTab, bobs_session: str, conversation: Conversation
) -> None:
    tab = open_tab(bobs_session)
    await enter(tab, conversation)
    await run.tell("Hello")

    await run.end()

    await tab.until(lambda tab: tab.said)
    assert tab.said[0]["room"] == conversation.public_id.hex


async def test_a_waiting_run_is_told_its_place_and_when_it_has_left_the_line(
    silence: None, begin: Callable[..., LiveRun], open_tab: OpenTab, bobs_session: str
) -> None:
    ahead = await threads.call(lambda: begin(is_claimed=False))
    run = await threads.call(lambda: begin(is_claimed=False))
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await tab.until(lambda tab: tab.said)
    await set_status(ahead, RunStatus.RUNNING)
    await tab.until(lambda tab: len(tab.said) == 2)
    await set_status(run, RunStatus.RUNNING)
    await tab.until(lambda tab: len(tab.said) == 3)

    assert tab.said == [
        {"queue": run.id.hex, "place": "Place 2 in line"},
        {"queue": run.id.hex, "place": "Place 1 in line"},
        {"queue": run.id.hex, "place": ""},
    ]


async def test_a_page_is_told_when_a_server_is_drained_and_when_it_goes_on(
    silence: None, upstream: Upstream, open_tab: OpenTab, bobs_session: str
) -> None:
    tab = open_tab(bobs_session)

    await drain(upstream, is_draining=True)
    await tab.until(lambda tab: tab.said)
    await drain(upstream, is_draining=False)
    await tab.until(lambda tab: len(tab.said) == 2)

    assert tab.said == [{"draining": [upstream.public_id.hex]}, {"draining": []}]


async def drain(upstream: Upstream, *, is_draining: bool) -> None:
    await threads.call(lambda: Upstream.objects.update(is_draining=is_draining))


async def set_status(run: LiveRun, status: RunStatus) -> None:
    await threads.call(lambda: Run.objects.filter(pk=run.row.pk).update(status=status))


async def test_a_stopped_run_that_nobody_had_claimed_ends_on_every_page(
    silence: None,
    begin: Callable[..., LiveRun],
    open_tab: OpenTab,
    bobs_session: str,
    alice: User,
) -> None:
    run = await threads.call(lambda: begin(is_claimed=False))
    tab = open_tab(bobs_session)
    tab.follow(run.id)

    await threads.call(verbs.stop_run, alice, run.row)
    await tab.until_over(run.id)

    assert "topped" in tab.pages[run.id].answer.text()


# --- the doorbell ------------------------------------------------------------------------


async def test_a_ring_wakes_who_waits_for_its_topic_and_nobody_else() -> None:
    bell = Doorbell()
    room = room_topic(uuid.uuid4())
    wanted, other = bell.subscribe(room), bell.subscribe(QUEUED)
    listening = asyncio.create_task(bell.listen())
    await asyncio.sleep(0)

    await asyncio.to_thread(bell.ring, room)

    async with asyncio.timeout(10):
        await wanted.wait()
    assert not other.is_set()
    listening.cancel()


async def test_a_ring_for_a_room_brings_the_check_forward(
    silence: None,
    open_tab: OpenTab,
    bobs_session: str,
    conversation: Conversation,
    upstream: Upstream,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tab = open_tab(bobs_session)
    await enter(tab, conversation)
    async with asyncio.timeout(10):
        while not tabs.watch._bell._waiters.get(ROOMS):
            await asyncio.sleep(0.01)
    # From now on nobody looks by himself.
    monkeypatch.setattr("chat.live.watch.CHECK_SECONDS", 3600.0)
    await asyncio.sleep(0.1)

    await threads.call(rename, alice, conversation, upstream)
    assert not any("room" in message for message in tab.said)
    tabs.watch._bell.wake(room_topic(conversation.public_id))

    await tab.until(lambda tab: any("room" in message for message in tab.said))


async def test_a_ring_for_a_room_has_its_own_viewers_looked_at_and_nobody_else(
    silence: None,
    open_tab: OpenTab,
    bobs_session: str,
    conversation: Conversation,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make_other() -> Conversation:
        return Conversation.objects.create(
            team=conversation.team, owner=alice, visibility="team", title="Another room"
        )

    other = await threads.call(make_other)
    for room in (conversation, other):
        await enter(open_tab(bobs_session), room)
    everybody = {conversation.public_id, other.public_id}
    async with asyncio.timeout(10):
        while {room for one in tabs.watch.connections for room in one.rooms} != everybody:
            await asyncio.sleep(0.01)
    # From now on nobody looks by himself.
    monkeypatch.setattr("chat.live.watch.CHECK_SECONDS", 3600.0)
    asked: list[set[UUID]] = []
    check = watch_module.check

    def noted(questions: Iterable[tuple[Identity, frozenset[UUID]]]) -> Answers:
        questions = list(questions)
        asked.append({room for _, rooms in questions for room in rooms})
        return check(questions)

    monkeypatch.setattr(watch_module, "check", noted)
    bell = tabs.watch._bell

    async def until_asked(topic: str, rooms: set[UUID]) -> None:
        async with asyncio.timeout(10):
            # A ring may come together with the look at everybody that a newcomer wants.
            while rooms not in asked:
                bell.wake(topic)
                await asyncio.sleep(0.05)
        asked.clear()

    await until_asked(room_topic(other.public_id), {other.public_id})
    await until_asked(room_topic(conversation.public_id), {conversation.public_id})
    await until_asked(ROOMS, everybody)


async def test_a_ring_reaches_the_other_processes_through_the_layer() -> None:
    here, there = Doorbell(), Doorbell()
    heard = there.subscribe(QUEUED)
    listening = [asyncio.create_task(bell.listen()) for bell in (here, there)]
    await asyncio.sleep(0.05)

    here.ring(QUEUED)

    async with asyncio.timeout(10):
        await heard.wait()
    for task in listening:
        task.cancel()


async def test_a_layer_that_fails_costs_nothing_but_the_ring(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(layer: str) -> None:
        raise ConnectionError("no layer today")

    bell = Doorbell()
    heard = bell.subscribe(QUEUED)
    monkeypatch.setattr("chat.doorbell.get_channel_layer", broken)
    listening = asyncio.create_task(bell.listen())
    await asyncio.sleep(0)

    bell.ring(QUEUED)

    async with asyncio.timeout(10):
        await heard.wait()
        while "doorbell.lost what=ring" not in caplog.text:
            await asyncio.sleep(0.01)
    assert not listening.done()
    listening.cancel()


async def test_who_no_longer_waits_leaves_nothing_behind() -> None:
    bell = Doorbell()
    event = bell.subscribe(QUEUED)

    bell.unsubscribe(QUEUED, event)
    bell.unsubscribe(QUEUED, event)

    assert not bell._waiters
