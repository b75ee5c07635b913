"""Failures around live connections: they delay a page, harm no other, and leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from django.db import OperationalError

from chat import events as canonical
from chat.live import handshake, websocket
from chat.live.broadcaster import (
    FRAME_SECONDS,
    FRAME_SLACK_SECONDS,
    RENDER_BYTES,
    THREAD_EVENTS,
    RunBroadcasters,
)
from chat.rendering.markdown import Scope, blocks, flow, open_html
from chat.rendering.markdown.renderer import Rendered
from chat.rendering.patches import Answer
from chat.runs import log_follower
from chat.runs.event_buffer import LogEntry
from project import sessions
from tests.live.conftest import Begin, LiveRun, OpenProgram, OpenStream, OpenTab, threads
from tests.live.connection import SOON_SECONDS, Tab, until

pytestmark = pytest.mark.databases(slow=True)


def away(*args: object, **options: object) -> Any:
    raise OperationalError("away")


def broken(*args: object, **options: object) -> Any:
    raise RuntimeError("broken")


async def test_tab_is_put_off_during_a_database_outage(
    open_tab: OpenTab,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tab = open_tab()
    monkeypatch.setattr(handshake.access, "get_conversation", away)

    tab.hello(uuid.uuid4())
    await tab.until_closed()

    assert tab.close_code == websocket.CLOSE_BUSY
    assert "viewer.postponed" in caplog.text
    assert "Traceback" not in caplog.text


async def test_handshake_is_put_off_during_a_database_outage(
    open_tab: OpenTab,
    open_stream: OpenStream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sessions.SessionStore, "load", away)

    tab, stream = open_tab(), open_stream()
    await tab.until_closed()
    await stream.until_finished()

    assert (tab.close_code, stream.status) == (websocket.CLOSE_BUSY, 503)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("module", "question"),
    [(log_follower, "_begin"), (log_follower, "read_entries"), (log_follower, "read_many")],
)
async def test_followers_wait_out_a_database_outage(
    begin: Begin,
    open_tab: OpenTab,
    open_program: OpenProgram,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    module: ModuleType,
    question: str,
) -> None:
    answer, is_back = getattr(module, question), threading.Event()
    monkeypatch.setattr("chat.core.threads.AGAIN_SECONDS", 0.01)
    # Each read is followed by another, as in a long log.
    monkeypatch.setattr(log_follower, "CATCH_UP_BYTES", 1)
    monkeypatch.setattr(
        module,
        question,
        lambda *args, **rest: (answer if is_back.is_set() else away)(*args, **rest),
    )
    run = await threads.call(begin, is_local=False)
    await run.tell("A river")
    tab = open_tab()
    tab.follow(run.id)
    program = open_program(run.id)
    await until(lambda: "database.unavailable" in caplog.text)
    is_back.set()

    await run.add(" finds its way")
    await run.end()

    await run.assert_shown(tab)
    await program.until_finished()
    assert program.seqs == [entry.seq for entry in run.entries]


async def test_broken_feed_ends_the_stream_without_chat_end(
    run: LiveRun, open_program: OpenProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: object) -> AsyncIterator[list[LogEntry]]:
        raise ValueError("broken")
        yield []

    monkeypatch.setattr("chat.public_api.log_stream.follow_log", broken)
    program = open_program(run.id)
    await program.until_finished()

    assert program.status == 200
    assert program.frames == []


@pytest.mark.parametrize("how", ["a handler fails", "the server ends it"])
async def test_aborted_connection_leaves_nothing_behind(
    run: LiveRun, live: None, bobs_session: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    tab = Tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Hello")
    await tab.until_seq(run.id, len(run.entries))
    broadcaster = websocket.access_monitor._connections.copy().pop()._runs[run.id].broadcaster

    if how == "a handler fails":
        monkeypatch.setattr("chat.access.get_run", broken)
        tab.say(type="follow", run=run.id.hex)
    else:
        tab.task.cancel()
    async with asyncio.timeout(SOON_SECONDS):
        await asyncio.wait({tab.task})

    # Read here: otherwise it would be logged as never retrieved in the middle of some other test.
    assert tab.task.cancelled() or str(tab.task.exception()) == "broken"
    assert not websocket.access_monitor._connections
    assert not broadcaster.has_viewers


async def test_replaced_hub_leaves_nothing_behind(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.tell("A page. ")
    with monkeypatch.context() as fault:
        fault.setattr(Answer, "apply", broken)
        first = own_hubs.join(run.id, lambda: None)
        await until(lambda: first.is_gone)

    second = own_hubs.join(run.id, lambda: None)
    await until(lambda: second.seq == len(run.entries))

    assert second is not first
    await until(lambda: all(task.done() for task in first._tasks))


async def test_frames_are_a_window_apart_on_average(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcaster = own_hubs.join(run.id, lambda: None)
    made: list[float] = []
    for _ in range(5):
        moment = max(broadcaster._due, 100.0)
        monkeypatch.setattr("chat.live.broadcaster._now", lambda moment=moment: moment)
        await broadcaster._show_frame()
        made.append(moment)

    apart = [later - earlier for earlier, later in pairwise(made)]
    assert apart[0] == pytest.approx(FRAME_SECONDS - FRAME_SLACK_SECONDS)
    assert apart[1:] == [pytest.approx(FRAME_SECONDS)] * 3


# --- the hub's threads ---------------------------------------------------------------------


async def test_cancelled_viewer_keeps_the_lock_while_rendering(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_making, may_end = threading.Event(), threading.Event()

    def slow(answer: Answer) -> list[str]:
        is_making.set()
        may_end.wait(SOON_SECONDS)
        return []

    monkeypatch.setattr(Answer, "replacement", slow)
    broadcaster = own_hubs.join(run.id, lambda: None)
    leaving = asyncio.create_task(broadcaster.replacement())
    await asyncio.to_thread(is_making.wait, SOON_SECONDS)

    leaving.cancel()
    await asyncio.wait({leaving}, timeout=0.05)
    assert broadcaster._applying.locked()

    may_end.set()
    await asyncio.wait({leaving}, timeout=SOON_SECONDS)
    assert leaving.cancelled()
    assert not broadcaster._applying.locked()


async def test_large_events_are_rendered_in_a_thread(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[tuple[int, threading.Thread]] = []
    patches_since = Answer.patches_since

    def observed(answer: Answer, seq: int) -> str:
        makers.append((seq, threading.current_thread()))
        return patches_since(answer, seq)

    monkeypatch.setattr(Answer, "patches_since", observed)
    await run.tell("A page. ")
    broadcaster = own_hubs.join(run.id, lambda: None)
    for number in range(1, 5):
        await run.add(f"Large piece {number}. " * 2000)
    await until(lambda: broadcaster.seq == len(run.entries))
    makers.clear()

    # No shared frame begins at the first number: this patch is made for one viewer.
    await broadcaster.frames_after(1, 1)

    assert len(run.entries) < THREAD_EVENTS
    assert [seq for seq, _ in makers] == [1]
    assert makers[0][1] is not threading.main_thread()


async def test_long_block_is_rendered_in_a_thread_when_it_closes(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[tuple[int, threading.Thread]] = []
    render = blocks._render

    def observed(source: str, scope: Scope, marks: Sequence[blocks.Mark]) -> str:
        makers.append((len(source), threading.current_thread()))
        return render(source, scope, marks)

    monkeypatch.setattr(blocks, "_render", observed)
    await run.tell("- The river\n")
    broadcaster = own_hubs.join(run.id, lambda: None)
    await run.add("- The *river*\n" * 1500)
    await until(lambda: broadcaster.seq == len(run.entries))
    await run.say(canonical.MessageEnd(item=0))
    await until(lambda: broadcaster.seq == len(run.entries))

    long = [thread for length, thread in makers if length > RENDER_BYTES]
    assert len(long) == 1
    assert long[0] is not threading.main_thread()


async def test_long_text_is_compared_in_a_thread_when_it_ends(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[threading.Thread] = []
    compare = flow.closed_blocks

    def observed(*args: Any) -> list[blocks.Whole]:
        makers.append(threading.current_thread())
        return compare(*args)

    monkeypatch.setattr(flow, "closed_blocks", observed)
    await run.tell("See [a].\n\n", size=20)
    broadcaster = own_hubs.join(run.id, lambda: None)
    for text in ("The river is high.\n\n" * 1500, "[a]: https://example.org\n"):
        await run.add(text)
        await until(lambda: broadcaster.seq == len(run.entries))
    await run.say(canonical.MessageEnd(item=0))
    await until(lambda: broadcaster.seq == len(run.entries))

    assert makers
    assert threading.main_thread() not in makers


async def test_marks_that_nothing_closes_are_rendered_in_a_thread(
    run: LiveRun, own_hubs: RunBroadcasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[tuple[int, threading.Thread]] = []
    render = open_html.render_growing

    def observed(text: str, scope: Scope) -> Rendered | None:
        makers.append((len(text), threading.current_thread()))
        return render(text, scope)

    monkeypatch.setattr(open_html, "render_growing", observed)
    await run.tell("Words. ", size=10)
    broadcaster = own_hubs.join(run.id, lambda: None)
    for _ in range(6):
        await run.add("[" * 600)
        await until(lambda: broadcaster.seq == len(run.entries))

    long = [thread for length, thread in makers if length > RENDER_BYTES + 600]
    assert long
    assert threading.main_thread() not in long
