"""A run whose log grows as a test says, and the live part of the process around it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from importlib import import_module

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.actions.conversations import ModelChoice
from chat.actions.endings import columns_of
from chat.live.hub import Hubs, hubs
from chat.live.watch import Watch
from chat.models import Conversation, Run, Runner, RunStatus, Upstream, User
from chat.result import Fold, close_open
from chat.runs.database import DatabaseThreads, readers
from chat.runs.segments import Write, bodies_of
from chat.runs.tail import Entry, MemoryTail
from chat.runs.tails import live_tail
from chat.runs.writer import SegmentWriter
from tests.live.connection import Program, StreamTab, Tab

threads = DatabaseThreads("test", size=1)

SignIn = Callable[[User], str]


class LiveRun:
    """A run that this test executes by hand: what is said is committed, and then shown."""

    def __init__(self, run: Run, writer: SegmentWriter, tail: MemoryTail) -> None:
        self.row = run
        self.id = run.public_id
        self.entries: list[Entry] = []
        self._fold = Fold()
        self._writer = writer
        self._tail = tail

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
        """A whole story, so many events in a commit; its own end ends the run."""
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
            Write(
                run_pk=self.row.pk,
                runner=self.row.runner_id,
                entries=entries,
                columns=columns_of(numbered[-1]) if is_end else {},
                is_end=is_end,
                conversation_pk=self.row.conversation_id,
            )
        )
        self.entries += entries
        self._tail.publish(self.id, entries)


@pytest.fixture
async def writer(transactional_db: None) -> AsyncIterator[SegmentWriter]:
    writer = SegmentWriter()
    writer.start()
    yield writer
    await writer.close()


@pytest.fixture
def begin(
    conversation: Conversation, upstream: Upstream, alice: User, writer: SegmentWriter
) -> Callable[..., LiveRun]:
    """Begins a run in Alice's shared conversation; call it in a thread from async tests.

    With ``is_heard=False`` its runner is in another process: nothing comes by the tail.
    """

    def begin(*, is_heard: bool = True, is_claimed: bool = True) -> LiveRun:
        run = verbs.send_message(
            alice,
            conversation,
            parent=None,
            text="Hello",
            choice=ModelChoice(upstream=upstream, model="m"),
            idempotency_key=uuid.uuid4(),
        )
        if is_claimed:
            run.runner = Runner.objects.create(host="elsewhere", pid=1)
            run.status = RunStatus.RUNNING
            run.save()
        return LiveRun(run, writer, live_tail if is_heard else MemoryTail())

    return begin


@pytest.fixture
async def run(begin: Callable[..., LiveRun]) -> LiveRun:
    return await threads.call(begin)


@pytest.fixture
def sign_in(transactional_db: None) -> SignIn:
    """Makes a session as the sign-in form would; returns its key."""

    def sign_in(user: User) -> str:
        session = import_module(settings.SESSION_ENGINE).SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()
        return str(session.session_key)

    return sign_in


@pytest.fixture
def bobs_session(sign_in: SignIn, bob: User) -> str:
    return sign_in(bob)


@pytest.fixture
def charlies_session(sign_in: SignIn, charlie: User) -> str:
    return sign_in(charlie)


@pytest.fixture
async def live(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The live part of a process, looking often; everything in it ends with the test."""
    watch = Watch()
    monkeypatch.setattr("chat.consumers.tabs.watch", watch)
    monkeypatch.setattr("chat.consumers.run_events.watch", watch)
    monkeypatch.setattr("chat.consumers.tab_stream.watch", watch)
    monkeypatch.setattr("chat.live.watch.CHECK_SECONDS", 0.02)
    yield
    await watch.close()
    await hubs.close()
    await readers.close()
    await threads.close()


@pytest.fixture
async def own_hubs(transactional_db: None) -> AsyncIterator[Hubs]:
    own = Hubs()
    yield own
    await own.close()
    await readers.close()
    await threads.close()


OpenTab = Callable[..., Tab]
OpenStream = Callable[..., StreamTab]
OpenProgram = Callable[..., Program]


@pytest.fixture
async def open_tab(live: None) -> AsyncIterator[OpenTab]:
    tabs: list[Tab] = []

    def open_tab(*args: object, **options: object) -> Tab:
        tabs.append(Tab(*args, **options))
        return tabs[-1]

    yield open_tab
    await asyncio.gather(*(tab.close() for tab in tabs))


@pytest.fixture
async def open_stream(live: None) -> AsyncIterator[OpenStream]:
    streams: list[StreamTab] = []

    def open_stream(*args: object, **options: object) -> StreamTab:
        streams.append(StreamTab(*args, **options))
        return streams[-1]

    yield open_stream
    await asyncio.gather(*(stream.close() for stream in streams))


@pytest.fixture
async def open_program(live: None) -> AsyncIterator[OpenProgram]:
    programs: list[Program] = []

    def open_program(*args: object, **options: object) -> Program:
        programs.append(Program(*args, **options))
        return programs[-1]

    yield open_program
    await asyncio.gather(*(program.close() for program in programs))
