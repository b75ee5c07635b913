"""The live connection of a page where websockets are blocked: the same messages, another carrier."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from contextlib import suppress

import pytest

from chat import access
from chat.consumers import tab_stream
from chat.live.hub import hubs
from chat.live.viewer import UNACKNOWLEDGED_BYTES
from chat.models import Conversation, User
from chat.runs.tails import live_tail
from tests.live.conftest import LiveRun, OpenStream, OpenTab, SignIn, threads
from tests.live.connection import StreamTab
from tests.live.test_access import ENDINGS, keep_talking
from tests.live.test_actors import Asking
from tests.live.test_actors import asking as asking
from tests.live.test_actors import users as users
from tests.live.test_actors import visibility as visibility
from tests.live.test_pages import LONG, until_equal
from tests.rendering.stories import MARKDOWN, RICH, told


def error_of(tab: StreamTab) -> str:
    return str(json.loads(tab.body)["error"]["code"])


async def answered(tab: StreamTab) -> StreamTab:
    await tab.until(lambda tab: tab.status)
    return tab


async def finished(tab: StreamTab) -> StreamTab:
    await tab.until_finished()
    return tab


# --- what it brings --------------------------------------------------------------------------


@pytest.mark.parametrize("story", [RICH, told(MARKDOWN, size=7)], ids=["rich", "markdown"])
async def test_a_page_that_listens_shows_what_a_reload_shows(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, story: list[object]
) -> None:
    tab = open_stream(bobs_session, (run.id, []))

    await run.replay(story, at_once=3)

    await until_equal(tab, run)


async def test_the_frames_are_those_of_the_websocket(
    run: LiveRun, open_stream: OpenStream, open_tab: OpenTab, bobs_session: str
) -> None:
    stream, socket = open_stream(bobs_session, (run.id, [])), open_tab(bobs_session)
    socket.follow(run.id)
    await answered(stream)

    for number in range(3):
        await (run.tell("One, ") if number == 0 else run.add("and another, "))
        for tab in (stream, socket):
            await tab.until_seq(run.id, len(run.entries))

    assert stream.frames(run.id) == socket.frames(run.id)


async def test_it_is_greeted_before_there_is_anything_to_say(
    open_stream: OpenStream, bobs_session: str
) -> None:
    tab = open_stream(bobs_session)

    await tab.until(lambda tab: tab.messages)

    assert tab.status == 200
    assert tab.messages == [{"heartbeat": True}]
    assert len(tab.body) > 2048
    assert tab.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert tab.headers[b"cache-control"] == b"no-cache, no-transform"
    assert tab.headers[b"x-accel-buffering"] == b"no"


async def test_a_silent_connection_is_heard_to_live(
    open_stream: OpenStream, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.viewer.HEARTBEAT_SECONDS", 0.01)
    tab = open_stream(bobs_session)

    await tab.until(lambda tab: len(tab.messages) > 5)

    assert tab.said == []


async def test_a_page_that_comes_back_goes_on_from_its_cursor_at_whichever_process(
    run: LiveRun, open_stream: OpenStream, bobs_session: str
) -> None:
    first = open_stream(bobs_session, (run.id, []))
    await run.tell("One, ")
    await first.until_seq(run.id, len(run.entries))
    seen = list(run.entries)
    await first.close()
    await run.add("two, ")
    # Another process has neither the hub nor the tail.
    await hubs.close()
    live_tail.forget(run.id)

    back = open_stream(bobs_session, (run.id, seen))
    await run.add("three.")
    await run.end()

    await until_equal(back, run)
    assert not any(frame["replaces"] for frame in back.frames(run.id))


async def test_a_page_that_lost_its_place_asks_with_a_checksum_that_fits_nothing(
    run: LiveRun, open_stream: OpenStream, bobs_session: str
) -> None:
    await run.tell(LONG, size=20_000)

    tab = open_stream(bobs_session, (run.id, []), cursor=(4, ""))
    await run.end()

    await until_equal(tab, run)
    assert tab.frames(run.id)[0]["replaces"]


async def test_a_change_of_the_room_is_told(
    open_stream: OpenStream, bobs_session: str, conversation: Conversation
) -> None:
    room = conversation.public_id
    tab = open_stream(bobs_session, room=room, revision=conversation.revision - 1)

    await tab.until(lambda tab: tab.said)

    assert tab.said == [{"room": room.hex, "revision": conversation.revision}]


async def test_nothing_has_to_be_acknowledged(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.live.viewer.BEHIND_SECONDS", -1.0)
    tab = open_stream(bobs_session, (run.id, []))
    await run.tell("Long. ")

    for _ in range(3):
        await run.add("word " * (UNACKNOWLEDGED_BYTES // 8))
        await tab.until_seq(run.id, len(run.entries))
    await run.end()

    await until_equal(tab, run)
    assert len(tab.body) > UNACKNOWLEDGED_BYTES


# --- in steps: an answer for what has happened, and then another --------------------------------


async def test_in_steps_it_ends_with_the_first_news(
    run: LiveRun, open_stream: OpenStream, bobs_session: str
) -> None:
    tab = open_stream(bobs_session, (run.id, []), wait="25")
    await tab.until(lambda tab: tab.messages)

    await run.tell("News")
    await finished(tab)

    assert tab.frames(run.id)


async def test_steps_one_after_the_other_bring_everything(
    run: LiveRun, open_stream: OpenStream, bobs_session: str
) -> None:
    saying = asyncio.create_task(run.replay(RICH))
    seq, steps, frames = 0, 0, []
    while not frames or frames[-1]["live"]:
        steps += 1
        cursor = (seq, frames[-1]["check"]) if frames else None
        tab = open_stream(bobs_session, (run.id, run.entries[:seq]), cursor=cursor, wait="25")
        await finished(tab)
        frames += tab.frames(run.id)
        seq = frames[-1]["seq"] if frames else 0
    await saying

    assert seq == len(run.entries)
    assert [frame["after"] for frame in frames] == [0, *(frame["seq"] for frame in frames[:-1])]


@pytest.mark.parametrize("wait", ["0", "-3", "soon", "٣"])
async def test_without_news_it_ends_when_its_time_is_over(
    open_stream: OpenStream, bobs_session: str, wait: str
) -> None:
    tab = await finished(open_stream(bobs_session, wait=wait))

    assert tab.messages == [{"heartbeat": True}]


@pytest.mark.parametrize("wait", ["26", "9" * 30])
async def test_nobody_waits_longer_than_proxies_do(
    open_stream: OpenStream, bobs_session: str, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setattr(tab_stream, "LONGEST_WAIT_SECONDS", 0)

    await finished(open_stream(bobs_session, wait=wait))


async def test_a_place_in_line_is_told_along_the_way_and_is_no_news(
    begin: Callable[..., LiveRun], open_stream: OpenStream, bobs_session: str
) -> None:
    run = await threads.call(lambda: begin(is_claimed=False))
    tab = open_stream(bobs_session, (run.id, []), wait="25")

    await tab.until(lambda tab: any("queue" in message for message in tab.messages))

    assert not tab.is_finished


# --- who may look --------------------------------------------------------------------------------


async def test_a_room_is_entered_by_readers(
    run: LiveRun, open_stream: OpenStream, asking: Asking
) -> None:
    await run.tell("For whom")
    room = run.row.conversation.public_id
    tab = await answered(open_stream(asking.session, (run.id, []), room=room))

    if asking.may_read:
        await tab.until_seq(run.id, len(run.entries))
    else:
        assert (tab.status, error_of(await finished(tab))) == (404, "not_found")
        assert "For whom" not in str(tab.sent)


async def test_a_run_is_followed_by_readers(
    run: LiveRun, open_stream: OpenStream, asking: Asking
) -> None:
    await run.tell("For whom")
    tab = open_stream(asking.session, (run.id, []), wait="0")

    if asking.may_read:
        await open_stream(asking.session, (run.id, [])).until_seq(run.id, len(run.entries))
    else:
        await finished(tab)
        assert tab.said == []


async def test_a_foreign_room_and_a_missing_one_are_the_same(
    run: LiveRun, open_stream: OpenStream, charlies_session: str
) -> None:
    foreign = await finished(open_stream(charlies_session, room=run.row.conversation.public_id))
    missing = await finished(open_stream(charlies_session, room=uuid.uuid4()))

    assert foreign.status == 404
    assert foreign.sent == missing.sent
    assert access.NOT_HERE in foreign.body.decode()


@pytest.mark.parametrize("session", ["", "x" * 32])
async def test_nobody_is_told_to_sign_in(
    run: LiveRun, open_stream: OpenStream, session: str
) -> None:
    tab = await finished(open_stream(session, room=run.row.conversation.public_id))

    assert (tab.status, error_of(tab)) == (401, "signed_out")


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
async def test_another_site_cannot_listen_with_the_browser_s_cookie(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, name: str, value: str, status: int
) -> None:
    await run.tell("Not for other sites")
    header = (name.encode(), value.encode())

    tab = open_stream(bobs_session, (run.id, []), wait="0", headers=[header])

    assert (await finished(tab)).status == status
    assert ("other sites" in str(tab.sent)) <= (status == 200)


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS"])
async def test_nothing_but_listening_is_possible(
    open_stream: OpenStream, bobs_session: str, method: str
) -> None:
    tab = await finished(open_stream(bobs_session, method=method))

    assert (tab.status, tab.headers[b"allow"]) == (405, b"GET")


@pytest.mark.parametrize(
    "hello",
    [
        "",
        "null",
        "[]",
        "{",
        '{"type":"follow"}',
        '{"type":"hello","room":7}',
        '{"type":"hello","runs":[1]}',
        '{"type":"hello","room":"\\ud800"}',
        '{"type":"hello","x":' + "[" * 20_000 + "]" * 20_000 + "}",
    ],
    ids=lambda text: repr(text[:40]),
)
async def test_junk_is_refused_in_words(
    open_stream: OpenStream, bobs_session: str, hello: str
) -> None:
    tab = await finished(open_stream(bobs_session, hello=hello))

    assert (tab.status, error_of(tab)) == (400, "unreadable")


async def test_one_connection_too_many_is_refused_in_words(
    open_stream: OpenStream, bobs_session: str, settings: object
) -> None:
    settings.CONNECTIONS_PER_PERSON = 1
    first = await answered(open_stream(bobs_session))

    refused = await finished(open_stream(bobs_session))
    await first.close()
    back = await answered(open_stream(bobs_session))

    assert (refused.status, error_of(refused)) == (429, "too_many")
    assert refused.headers[b"retry-after"] == b"5"
    assert back.status == 200


# --- and who no longer may ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_access", "reason"), [pytest.param(*way[:2], id=way[0].__name__) for way in ENDINGS]
)
async def test_the_last_words_are_that_it_may_not_look_any_more(
    run: LiveRun,
    open_stream: OpenStream,
    bobs_session: str,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    end_access: Callable[[User], None],
    reason: str,
) -> None:
    monkeypatch.setattr("chat.doorbell.Doorbell.ring", lambda self, topic: None)
    tab = open_stream(bobs_session, (run.id, []), room=run.row.conversation.public_id)
    await run.tell("Only for the team")
    await tab.until_seq(run.id, len(run.entries))
    talking = asyncio.create_task(keep_talking(run))

    await threads.call(end_access, bob)
    await tab.until_finished()
    talking.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await talking

    assert tab.messages[-1] == {"gone": True, "reason": reason}


async def test_a_right_that_cannot_be_checked_ends_without_a_word(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(questions: object) -> None:
        raise RuntimeError("away")

    tab = open_stream(bobs_session, (run.id, []))
    await run.tell("Only for the team")
    await tab.until_seq(run.id, len(run.entries))

    monkeypatch.setattr("chat.live.watch.FAIL_CLOSED_SECONDS", 0.0)
    monkeypatch.setattr("chat.live.watch.check", fail)
    await tab.until_finished()

    # Nobody knows: the page comes back and asks again.
    assert not any("gone" in message for message in tab.messages)


async def test_everybody_has_their_own_connection(
    run: LiveRun, open_stream: OpenStream, bobs_session: str, sign_in: SignIn, alice: User
) -> None:
    alices_session = await threads.call(sign_in, alice)
    tabs = [open_stream(session, (run.id, [])) for session in (bobs_session, alices_session)]
    for tab in tabs:
        await answered(tab)
    await tabs[0].close()

    await run.tell("Still here")

    await tabs[1].until_seq(run.id, len(run.entries))


async def test_a_tab_that_leaves_leaves_nothing_behind(
    run: LiveRun, live: None, bobs_session: str
) -> None:
    tab = StreamTab(bobs_session, (run.id, []))
    await run.tell("Hello")
    await tab.until_seq(run.id, len(run.entries))
    hub = tab_stream.watch._connections.copy().pop()._runs[run.id].hub

    await tab.close()

    assert not tab_stream.watch._connections
    assert not hub.has_viewers
