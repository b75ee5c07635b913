"""The websocket of a tab against everything that is not a page of ours."""

import json
import uuid

import pytest

from chat.live.viewer import CLOSE_SIGNED_OUT, MOST_RUNS
from chat.models import User
from tests.live.conftest import LiveRun, OpenTab, threads
from tests.live.connection import Tab, cursor_of, page_of

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


async def until_heard(tab: Tab, run: LiveRun) -> None:
    """The connection still works: it follows and gets frames."""
    tab.follow(run.id)
    await run.tell("Still here")
    await tab.until_seq(run.id, len(run.entries))


@pytest.mark.parametrize("text", JUNK, ids=lambda text: repr(text[:40]))
async def test_junk_is_ignored(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, text: str
) -> None:
    tab = open_tab(bobs_session)

    tab.say_text(text)

    await until_heard(tab, run)


async def test_binary_messages_are_ignored(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    tab = open_tab(bobs_session)

    tab.put({"type": "websocket.receive", "bytes": b"\xff\xfe{}", "text": None})

    await until_heard(tab, run)


async def test_nobody_is_accepted_told_and_closed(run: LiveRun, open_tab: OpenTab) -> None:
    await run.tell("Not for everybody")
    tab = open_tab()

    tab.follow(run.id)
    await tab.until_closed()

    assert [event["type"] for event in tab.sent] == [
        "websocket.accept",
        "websocket.send",
        "websocket.close",
    ]
    assert tab.messages == [{"gone": True, "reason": "signed-out"}]
    assert tab.close_code == CLOSE_SIGNED_OUT


async def test_a_session_that_is_none_is_nobody_s(run: LiveRun, open_tab: OpenTab) -> None:
    tab = open_tab("x" * 32)

    await tab.until_closed()

    assert tab.close_code == CLOSE_SIGNED_OUT


@pytest.mark.parametrize(
    "origin",
    [
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
    ],
)
async def test_a_page_of_another_origin_is_refused(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, origin: bytes
) -> None:
    tab = open_tab(bobs_session, origin=origin)

    tab.follow(run.id)
    await tab.until_closed()

    assert [event["type"] for event in tab.sent] == ["websocket.close"]


async def test_a_run_that_is_followed_twice_comes_once(
    run: LiveRun, open_tab: OpenTab, bobs_session: str
) -> None:
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Once")
    await tab.until_seq(run.id, len(run.entries))

    tab.follow(run.id, run.entries)
    await run.add(" and for all")
    await run.end()
    await tab.until_seq(run.id, len(run.entries))

    assert tab.cursors[run.id] == cursor_of(run.entries)
    assert tab.pages[run.id].state() == page_of(run.id, run.entries).state()


async def test_more_runs_than_anybody_reads_are_not_followed(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch, begin
) -> None:
    monkeypatch.setattr("chat.live.viewer.MOST_RUNS", 1)
    other = await threads.call(begin)
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    tab.follow(other.id)

    await other.tell("Not this one")
    await run.tell("This one")
    await run.end()
    await tab.until_over(run.id)

    assert tab.frames(other.id) == []
    assert MOST_RUNS == 20


async def test_an_old_cursor_in_the_greeting_is_followed(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, bob: User
) -> None:
    await run.tell("Hello again")
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await tab.until_seq(run.id, len(run.entries))
    seq, check = tab.cursors[run.id]

    back = open_tab(bobs_session)
    back.pages[run.id], back.cursors[run.id] = tab.pages[run.id], (seq, check)
    cursor = {"run": run.id.hex, "seq": seq, "check": check}
    room = run.row.conversation.public_id.hex
    back.say_text(json.dumps({"type": "hello", "room": room, "revision": 1, "runs": [cursor]}))
    await run.add(" and again")
    await back.until_seq(run.id, len(run.entries))

    assert not any(frame["replaces"] for frame in back.frames(run.id))


async def test_a_client_that_leaves_leaves_nothing_behind(
    run: LiveRun, live: None, bobs_session: str
) -> None:
    from chat.consumers import tabs

    tab = Tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Hello")
    await tab.until_seq(run.id, len(run.entries))

    await tab.close()

    assert not tabs.watch._connections


async def test_acknowledgement_asks_no_thread(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hop() -> None:
        raise AssertionError("a message must not wait for the threads")

    tab = open_tab(bobs_session)
    await tab.until(lambda tab: tab.sent)
    monkeypatch.setattr("channels.consumer.aclose_old_connections", hop)

    tab.say(type="ack", runs={run.id.hex: 1})

    await until_heard(tab, run)
    assert not tab.task.done()
