"""A run whose log a test writes event by event, and the live part of the process around it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

import pytest

from chat import events as canonical
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.threads import DatabaseThreads, readers
from chat.live import access_monitor as watch_module
from chat.live import websocket
from chat.live.access_monitor import AccessMonitor, Answers, Identity
from chat.live.broadcaster import RunBroadcasters, broadcasters
from chat.live.writes import tab_writes
from chat.models import Conversation, Run, Runner, RunStatus, Upstream, User
from chat.result import Fold, close_open
from chat.runs.configured_buffer import event_buffer
from chat.runs.event_buffer import LogEntry, MemoryEventBuffer
from chat.runs.outcomes import columns_of
from chat.runs.segments import SegmentWrite, bodies_of
from chat.runs.writer import SegmentWriter
from tests.live.connection import (
    SOON_SECONDS,
    Connection,
    Program,
    StreamTab,
    Tab,
    fresh_page,
    until,
)
from tests.support.pages import cursor_of
from tests.support.processes import seed
from tests.support.rooms import Room

threads = DatabaseThreads("test", size=1)

SignIn = Callable[[User], str]
Begin = Callable[..., "LiveRun"]


@pytest.fixture
def whole_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of a text than a page shows goes to its viewers."""
    monkeypatch.setattr("chat.rendering.markdown.flow.PAGE_CHARACTERS", 10_000_000)


class LiveRun:
    """A run that the test executes by hand: events are committed, and then shown."""

    def __init__(self, run: Run, writer: SegmentWriter, buffer: MemoryEventBuffer) -> None:
        self.row = run
        self.id = run.public_id
        self.entries: list[LogEntry] = []
        self._fold = Fold()
        self._writer = writer
        self._buffer = buffer

    @property
    def room(self) -> uuid.UUID:
        return self.row.conversation.public_id

    async def say(self, *events: canonical.Event) -> None:
        await self._write(events)

    async def tell(self, text: str, *, size: int = 5) -> None:
        """A message in pieces, one commit each; it stays open."""
        await self.say(canonical.ChatStart(model_instance_id="m"), canonical.MessageStart(item=0))
        for start in range(0, len(text), size):
            await self.add(text[start : start + size])

    async def add(self, text: str) -> None:
        await self.say(canonical.MessageDelta(item=0, content=text))

    async def end(self, cause: canonical.Cause = "stopped") -> None:
        closing = close_open(self._fold, cause)
        await self._write(closing, is_end=True)

    async def replay(self, story: Iterable[canonical.Event], *, at_once: int = 1) -> None:
        """A whole story, ``at_once`` events in a commit; its own end ends the run."""
        events = list(story)
        for start in range(0, len(events), at_once):
            part = events[start : start + at_once]
            await self._write(part, is_end=isinstance(part[-1], canonical.ChatEnd))

    async def _write(self, events: Iterable[canonical.Event], *, is_end: bool = False) -> None:
        numbered = list(events)
        for seq, event in enumerate(numbered, start=len(self.entries) + 1):
            event.seq = seq
            self._fold.add(event)
        entries = bodies_of(numbered)
        await self._writer.append(
            SegmentWrite(
                run_pk=self.row.pk,
                runner=self.row.runner_id,
                entries=entries,
                columns=columns_of(numbered[-1]) if is_end else {},
                is_end=is_end,
                conversation_pk=self.row.conversation_id,
            )
        )
        self.entries += entries
        self._buffer.publish(self.id, entries)

    async def assert_shown(self, page: Tab | StreamTab) -> None:
        """At the end of the run the page equals a reload, under the same cursor."""
        await page.until_over(self.id)
        row = await threads.call(Run.objects.get, pk=self.row.pk)
        expected = await threads.call(fresh_page, row)
        assert page.pages[self.id].state() == expected.state()
        assert page.cursors[self.id] == cursor_of(self.entries)


@pytest.fixture
async def writer(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SegmentWriter]:
    """Commits at once: these tests do not need the pause in which runs share a commit."""
    monkeypatch.setattr("chat.runs.writer.FLUSH_SECONDS", 0.0)
    writer = SegmentWriter()
    writer.start()
    yield writer
    await writer.close()


@pytest.fixture
def begin(
    conversation: Conversation, upstream: Upstream, alice: User, writer: SegmentWriter
) -> Begin:
    """Begins a run in Alice's shared conversation, or in another one. Async tests call it in a
    thread. With ``is_local=False`` its runner is another process, and there is no tail here."""

    def begin(
        *, room: Conversation | None = None, is_local: bool = True, is_claimed: bool = True
    ) -> LiveRun:
        run = message_actions.send_message(
            alice,
            room or conversation,
            parent=None,
            text="Hello",
            choice=ModelChoice(upstream=upstream, model="m"),
            idempotency_key=uuid.uuid4(),
        )
        if is_claimed:
            run.runner = Runner.objects.create(host="another", pid=1)
            run.status = RunStatus.RUNNING
            run.save()
        return LiveRun(run, writer, event_buffer if is_local else MemoryEventBuffer())

    return begin


@pytest.fixture
async def run(begin: Begin) -> LiveRun:
    return await threads.call(begin)


@pytest.fixture
async def queued_run(begin: Begin) -> LiveRun:
    return await threads.call(begin, is_claimed=False)


@pytest.fixture
def sign_in(transactional_db: None) -> SignIn:
    """Makes a session as the sign-in form would; returns its key."""
    return seed.sign_in


@pytest.fixture
def bobs_session(sign_in: SignIn, bob: User) -> str:
    return sign_in(bob)


@pytest.fixture
def alices_session(sign_in: SignIn, alice: User) -> str:
    return sign_in(alice)


@pytest.fixture
def charlies_session(sign_in: SignIn, charlie: User) -> str:
    return sign_in(charlie)


@pytest.fixture
def lost_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every notification is lost: changes are found by polling alone."""
    monkeypatch.setattr("chat.core.notify.ChangeNotifier.publish", lambda self, topic: None)


@pytest.fixture
async def live(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The live part of a process, which polls often. Everything in it ends with the test."""
    access_monitor = AccessMonitor()
    monkeypatch.setattr("chat.live.websocket.access_monitor", access_monitor)
    monkeypatch.setattr("chat.public_api.log_stream.access_monitor", access_monitor)
    monkeypatch.setattr("chat.live.sse.access_monitor", access_monitor)
    monkeypatch.setattr("chat.live.access_monitor.CHECK_SECONDS", 0.05)
    monkeypatch.setattr("chat.live.writes.WRITE_SECONDS", 0.02)
    yield
    await access_monitor.close()
    await tab_writes.close()
    await close_shared()


@pytest.fixture
async def own_hubs(transactional_db: None) -> AsyncIterator[RunBroadcasters]:
    own = RunBroadcasters()
    yield own
    await own.close()
    await close_shared()


async def close_shared() -> None:
    await broadcasters.close()
    await readers.close()
    await threads.close()


class Checks:
    """Records whose rooms each check asks about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rooms: list[set[UUID]] = []
        self._monkeypatch = monkeypatch
        self._check = watch_module.check
        monkeypatch.setattr(watch_module, "check", self)
        monkeypatch.setattr(watch_module, "PAUSE_SECONDS", 0.01)

    def __call__(self, questions: Iterable[tuple[Identity, frozenset[UUID]]]) -> Answers:
        questions = list(questions)
        answers = self._check(questions)
        self.rooms.append({room for _, rooms in questions for room in rooms})
        return answers

    async def stop_polling(self) -> None:
        """From now on every check is caused by a notification, and none is under way."""
        is_idle = asyncio.Event()
        wait_at_most = watch_module.wait_at_most

        async def wait(event: asyncio.Event, seconds: float) -> bool:
            if seconds > SOON_SECONDS and not event.is_set():
                is_idle.set()
            return await wait_at_most(event, seconds)

        self._monkeypatch.setattr(watch_module, "wait_at_most", wait)
        self._monkeypatch.setattr(watch_module, "CHECK_SECONDS", 3600.0)
        async with asyncio.timeout(SOON_SECONDS):
            await is_idle.wait()

    async def until_asked(self, topic: str, rooms: set[UUID]) -> None:
        """The notification may come together with a check of everybody that a newcomer caused."""
        self.rooms.clear()
        while rooms not in self.rooms:
            count = len(self.rooms)
            websocket.access_monitor._notifier.dispatch(topic)
            await until(lambda count=count: len(self.rooms) > count)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    return Checks(monkeypatch)


Kind = TypeVar("Kind", bound=Connection)


@asynccontextmanager
async def opening(kind: type[Kind], session: str) -> AsyncIterator[Callable[..., Kind]]:
    """Opens connections, with this session unless another is given, and closes them afterwards."""
    opened: list[Kind] = []

    def open_one(*args: object, session: str = session, **options: object) -> Kind:
        opened.append(kind(*args, session=session, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    await asyncio.gather(*(one.close() for one in opened))


OpenTab = Callable[..., Tab]
OpenTabs = Callable[..., Awaitable[list[Tab]]]
OpenStream = Callable[..., StreamTab]
OpenProgram = Callable[..., Program]


@pytest.fixture
async def open_tab(live: None, bobs_session: str) -> AsyncIterator[OpenTab]:
    """Bob's, unless ``session`` says otherwise; as are the two below."""
    async with opening(Tab, bobs_session) as open_tab:
        yield open_tab


@pytest.fixture
def open_tabs(open_tab: OpenTab, alices_session: str, room: Room) -> OpenTabs:
    """Opens Bob's and Alice's tab of the room, which have told these channels what they show."""

    async def open_tabs(**channels: object) -> list[Tab]:
        tabs = [open_tab(), open_tab(session=alices_session)]
        for tab in tabs:
            tab.hello(room.conversation.public_id, 1, **channels)
            await tab.until(lambda tab: tab.heartbeats)
        return tabs

    return open_tabs


@pytest.fixture
async def open_stream(live: None, bobs_session: str) -> AsyncIterator[OpenStream]:
    async with opening(StreamTab, bobs_session) as open_stream:
        yield open_stream


@pytest.fixture
async def open_program(live: None, bobs_session: str) -> AsyncIterator[OpenProgram]:
    async with opening(Program, bobs_session) as open_program:
        yield open_program


@pytest.fixture
async def bobs_tab(open_tab: OpenTab, run: LiveRun) -> Tab:
    """Follows the run from its beginning."""
    tab = open_tab()
    tab.follow(run.id)
    return tab
