"""The live connection of a page where websockets are blocked: the same messages over SSE."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from chat import access
from chat.live import sse
from chat.live.broadcaster import broadcasters
from chat.live.viewer import UNACKNOWLEDGED_BYTES
from chat.models import Conversation
from chat.runs.configured_buffer import event_buffer
from tests.live.conftest import LiveRun, OpenStream, OpenTab
from tests.live.test_pages import FOREIGN, LONG
from tests.rendering.stories import MARKDOWN, RICH, told

# --- what it brings --------------------------------------------------------------------------


@pytest.mark.parametrize("story", [RICH, told(MARKDOWN, size=7)], ids=["rich", "markdown"])
async def test_streamed_page_equals_a_reload(
    run: LiveRun, open_stream: OpenStream, story: list[object]
) -> None:
    tab = open_stream((run.id, []))

    await run.replay(story, at_once=3)

    await run.assert_shown(tab)


async def test_frames_equal_those_of_the_websocket(
    run: LiveRun, open_stream: OpenStream, open_tab: OpenTab
) -> None:
    stream, socket = open_stream((run.id, [])), open_tab()
    socket.follow(run.id)
    await stream.until_answered()

    for number in range(3):
        await (run.tell("One, ") if number == 0 else run.add("and another, "))
        for tab in (stream, socket):
            await tab.until_seq(run.id, len(run.entries))

    assert stream.frames(run.id) == socket.frames(run.id)


async def test_stream_begins_with_padding_and_a_heartbeat(open_stream: OpenStream) -> None:
    tab = open_stream()

    await tab.until(lambda tab: tab.messages)

    assert tab.status == 200
    assert tab.messages == [{"heartbeat": True}]
    assert len(tab.body) > 2048
    assert tab.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert tab.headers[b"cache-control"] == b"no-cache, no-transform"
    assert tab.headers[b"x-accel-buffering"] == b"no"


async def test_silent_stream_sends_heartbeats(
    open_stream: OpenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.01)
    tab = open_stream()

    await tab.until(lambda tab: len(tab.messages) > 5)

    assert tab.said == []


async def test_page_resumes_at_any_process(run: LiveRun, open_stream: OpenStream) -> None:
    first = open_stream((run.id, []))
    await run.tell("One, ")
    await first.until_seq(run.id, len(run.entries))
    seen = list(run.entries)
    await first.close()
    await run.add("two, ")
    # Another process has neither the hub nor the tail.
    await broadcasters.close()
    event_buffer.forget(run.id)

    back = open_stream((run.id, seen))
    await run.add("three.")
    await run.end()

    await run.assert_shown(back)
    assert not any(frame["replaces"] for frame in back.frames(run.id))


@pytest.mark.parametrize("check", ["", FOREIGN])
async def test_unknown_cursor_gets_the_whole_answer(
    run: LiveRun, open_stream: OpenStream, check: str
) -> None:
    await run.tell(LONG, size=20_000)

    tab = open_stream((run.id, []), cursor=(4, check))
    await run.end()

    await run.assert_shown(tab)
    assert tab.frames(run.id)[0]["replaces"]


async def test_changed_room_is_announced(
    open_stream: OpenStream, conversation: Conversation
) -> None:
    room = conversation.public_id
    tab = open_stream(room=room, revision=conversation.revision - 1)

    await tab.until(lambda tab: tab.said)

    expected = {"channel": "page", "room": room.hex, "revision": conversation.revision}
    assert tab.said == [expected]


@pytest.mark.usefixtures("whole_texts")
async def test_stream_needs_no_acknowledgement(
    run: LiveRun, open_stream: OpenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    tab = open_stream((run.id, []))
    await run.tell("Long. ")

    for _ in range(3):
        await run.add(f"{'word ' * 2000}\n\n" * (UNACKNOWLEDGED_BYTES // 16_000))
        await tab.until_seq(run.id, len(run.entries))
    await run.end()

    await run.assert_shown(tab)
    assert len(tab.body) > UNACKNOWLEDGED_BYTES


# --- long polling: an answer that ends with the first news ---------------------------------------


async def test_poll_ends_with_the_first_news(run: LiveRun, open_stream: OpenStream) -> None:
    tab = open_stream((run.id, []), wait="25")
    await tab.until(lambda tab: tab.messages)

    await run.tell("News")
    await tab.until_finished()

    assert tab.frames(run.id)


async def test_repeated_polls_bring_everything(run: LiveRun, open_stream: OpenStream) -> None:
    replaying = asyncio.create_task(run.replay(RICH, at_once=3))
    seq, frames = 0, []
    while not frames or frames[-1]["live"]:
        cursor = (seq, frames[-1]["check"]) if frames else None
        tab = open_stream((run.id, run.entries[:seq]), cursor=cursor, wait="25")
        await tab.until_finished()
        frames += tab.frames(run.id)
        seq = frames[-1]["seq"] if frames else 0
    await replaying

    assert seq == len(run.entries)
    assert [frame["after"] for frame in frames] == [0, *(frame["seq"] for frame in frames[:-1])]


@pytest.mark.parametrize("wait", ["0", "-3", "soon", "٣"])
async def test_poll_without_news_ends_in_time(open_stream: OpenStream, wait: str) -> None:
    tab = await open_stream(wait=wait).until_finished()

    assert tab.messages == [{"heartbeat": True}]


@pytest.mark.parametrize("wait", ["26", "9" * 30])
async def test_wait_is_limited(
    open_stream: OpenStream, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setattr(sse, "LONGEST_WAIT_SECONDS", 0)

    await open_stream(wait=wait).until_finished()


async def test_queue_position_is_no_news(queued_run: LiveRun, open_stream: OpenStream) -> None:
    tab = open_stream((queued_run.id, []), wait="25")

    await tab.until(lambda tab: any("queue" in message for message in tab.messages))

    assert not tab.is_finished


# --- who may look --------------------------------------------------------------------------------


async def test_foreign_and_missing_rooms_look_the_same(
    run: LiveRun, open_stream: OpenStream, charlies_session: str
) -> None:
    foreign = await open_stream(session=charlies_session, room=run.room).until_finished()
    missing = await open_stream(session=charlies_session, room=uuid.uuid4()).until_finished()

    assert foreign.status == 404
    assert foreign.sent == missing.sent
    assert str(access.NOT_HERE) in foreign.body.decode()


@pytest.mark.parametrize("session", ["", "x" * 32], ids=["none", "unknown"])
async def test_stranger_is_signed_out(run: LiveRun, open_stream: OpenStream, session: str) -> None:
    tab = await open_stream(session=session, room=run.room).until_finished()

    assert (tab.status, tab.error_code) == (401, "signed_out")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost:port", 403),
        ("origin", "http://localhost:8000", 200),
    ],
)
async def test_other_sites_cannot_use_the_cookie(
    run: LiveRun, open_stream: OpenStream, name: str, value: str, status: int
) -> None:
    await run.tell("Not for other sites")
    header = (name.encode(), value.encode())

    tab = open_stream((run.id, []), wait="0", headers=[header])
    await tab.until_finished()

    assert tab.status == status
    assert ("other sites" in str(tab.sent)) <= (status == 200)


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS"])
async def test_only_get_is_allowed(open_stream: OpenStream, method: str) -> None:
    tab = await open_stream(method=method).until_finished()

    assert (tab.status, tab.headers[b"allow"]) == (405, b"GET")


async def test_junk_is_refused_with_an_error(
    open_stream: OpenStream, subtests: pytest.Subtests
) -> None:
    for hello in (
        "",
        "null",
        "[]",
        "{",
        '{"type":"follow"}',
        '{"type":"hello","room":7}',
        '{"type":"hello","runs":[1]}',
        '{"type":"hello","room":"\\ud800"}',
        '{"type":"hello","x":' + "[" * 20_000 + "]" * 20_000 + "}",
    ):
        with subtests.test(msg=repr(hello[:40])):
            tab = await open_stream(hello=hello).until_finished()

            assert (tab.status, tab.error_code) == (400, "unreadable")


# --- leaving ---------------------------------------------------------------------------------------


async def test_leaving_ends_no_other_stream(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, alices_session: str
) -> None:
    tabs = [
        open_stream((run.id, []), session=session) for session in (bobs_session, alices_session)
    ]
    for tab in tabs:
        await tab.until_answered()
    await tabs[0].close()

    await run.tell("Still here")

    await tabs[1].until_seq(run.id, len(run.entries))


async def test_closed_stream_leaves_nothing_behind(run: LiveRun, open_stream: OpenStream) -> None:
    tab = open_stream((run.id, []))
    await run.tell("Hello")
    await tab.until_seq(run.id, len(run.entries))
    broadcaster = sse.access_monitor._connections.copy().pop()._runs[run.id].broadcaster

    await tab.close()

    assert not sse.access_monitor._connections
    assert not broadcaster.has_viewers
