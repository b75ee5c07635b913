"""The websocket of a tab: junk, strangers, other origins, repeated and excessive requests."""

import json
import uuid

import pytest

from chat.live import websocket
from chat.live.viewer import CLOSE_SIGNED_OUT, MOST_RUNS
from tests.live.conftest import Begin, LiveRun, OpenTab, threads
from tests.live.connection import Tab, cursor_message
from tests.support.pages import cursor_of, page_of

RUN = uuid.UUID(int=7).hex
JUNK = [
    "",
    "null",
    "[]",
    "hello",
    "{",
    "{}",
    '{"type":"shout"}',
    '{"type":7}',
    '{"type":"follow"}',
    '{"type":"follow","run":"not a uuid"}',
    '{"type":"follow","run":null,"seq":0}',
    f'{{"type":"follow","run":"{RUN}","seq":"1"}}',
    f'{{"type":"follow","run":"{RUN}","seq":1.5}}',
    f'{{"type":"follow","run":"{RUN}","seq":{"9" * 400}}}',
    '{"type":"ack","runs":{"not a uuid":1}}',
    f'{{"type":"ack","runs":{{"{RUN}":-5}}}}',
    '{"type":"ack","runs":[]}',
    f'{{"type":"resync","run":"{RUN}"}}',
    f'{{"type":"unfollow","run":"{RUN}"}}',
    '{"type":"hello","runs":[1,2]}',
    '{"type":"hello","room":"\\ud800"}',
    '{"type":"hello","x":' + "[" * 20_000 + "]" * 20_000 + "}",
    '{"type":"hello","type":"follow"}',
    "\x00",
]


async def assert_follows(tab: Tab, run: LiveRun) -> None:
    """The connection still works: it follows and gets frames."""
    tab.follow(run.id)
    await run.add("Still here")
    await tab.until_seq(run.id, len(run.entries))


async def test_junk_is_ignored(run: LiveRun, open_tab: OpenTab, subtests: pytest.Subtests) -> None:
    await run.tell("Hello")

    for text in JUNK:
        with subtests.test(msg=repr(text[:40])):
            tab = open_tab()

            tab.say_text(text)

            await assert_follows(tab, run)


async def test_binary_message_is_ignored(run: LiveRun, open_tab: OpenTab) -> None:
    await run.tell("Hello")
    tab = open_tab()

    tab.put({"type": "websocket.receive", "bytes": b"\xff\xfe{}", "text": None})

    await assert_follows(tab, run)


async def test_stranger_is_accepted_told_and_closed(run: LiveRun, open_tab: OpenTab) -> None:
    await run.tell("Not for everybody")
    tab = open_tab(session="")

    tab.follow(run.id)
    await tab.until_closed()

    assert [event["type"] for event in tab.sent] == [
        "websocket.accept",
        "websocket.send",
        "websocket.close",
    ]
    assert tab.messages == [{"gone": True, "reason": "signed-out"}]
    assert tab.close_code == CLOSE_SIGNED_OUT


async def test_unknown_session_is_signed_out(run: LiveRun, open_tab: OpenTab) -> None:
    tab = open_tab(session="x" * 32)

    await tab.until_closed()

    assert tab.close_code == CLOSE_SIGNED_OUT


async def test_other_origins_are_refused(
    run: LiveRun, open_tab: OpenTab, subtests: pytest.Subtests
) -> None:
    for origin in (
        b"",
        b"null",
        b"https://evil.example",
        b"http://localhost",
        b"http://localhost:8001",
        b"https://localhost:8000",
        b"http://localhost:8000.evil.example",
        b"http://evil.localhost:8000",
        b"http://localhost:8000@evil.example",
        b"http://evil.example/http://localhost:8000",
        b"http://\xe9vil.example",
        b"file://",
    ):
        with subtests.test(msg=repr(origin)):
            tab = open_tab(origin=origin)

            tab.follow(run.id)
            await tab.until_closed()

            assert [event["type"] for event in tab.sent] == ["websocket.close"]


async def test_run_followed_twice_comes_once(run: LiveRun, bobs_tab: Tab) -> None:
    await run.tell("Once")
    await bobs_tab.until_seq(run.id, len(run.entries))

    bobs_tab.follow(run.id, run.entries)
    await run.add(" and for all")
    await run.end()
    await bobs_tab.until_seq(run.id, len(run.entries))

    assert bobs_tab.cursors[run.id] == cursor_of(run.entries)
    assert bobs_tab.pages[run.id].state() == page_of(run.id, run.entries).state()


async def test_runs_beyond_the_limit_are_not_followed(
    run: LiveRun, bobs_tab: Tab, monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:
    monkeypatch.setattr("chat.live.viewer.MOST_RUNS", 1)
    other = await threads.call(begin)
    bobs_tab.follow(other.id)

    await other.tell("Not this one")
    await run.tell("This one")
    await run.end()
    await bobs_tab.until_over(run.id)

    assert bobs_tab.frames(other.id) == []
    assert MOST_RUNS == 20


async def test_hello_follows_runs_from_their_cursors(
    run: LiveRun, bobs_tab: Tab, open_tab: OpenTab
) -> None:
    await run.tell("Hello again")
    await bobs_tab.until_seq(run.id, len(run.entries))

    back = open_tab()
    back.show(run.id, run.entries, bobs_tab.cursors[run.id])
    runs = [cursor_message(run.id, back.cursors[run.id])]
    back.say_text(
        json.dumps(
            {"type": "hello", "room": run.room.hex, "revision": 1, "runs": runs, "channels": {}}
        )
    )
    await run.add(" and again")
    await back.until_seq(run.id, len(run.entries))

    assert not any(frame["replaces"] for frame in back.frames(run.id))


async def test_closed_tab_leaves_nothing_behind(run: LiveRun, bobs_tab: Tab) -> None:
    await run.tell("Hello")
    await bobs_tab.until_seq(run.id, len(run.entries))

    await bobs_tab.close()

    assert not websocket.access_monitor._connections


async def test_acknowledgement_needs_no_thread(
    run: LiveRun, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go_to_thread() -> None:
        raise AssertionError("a message must not wait for the threads")

    await run.tell("Hello")
    tab = open_tab()
    await tab.until(lambda tab: tab.sent)
    monkeypatch.setattr("channels.consumer.aclose_old_connections", go_to_thread)

    tab.say(type="ack", runs={run.id.hex: 1})

    await assert_follows(tab, run)
    assert not tab.task.done()
