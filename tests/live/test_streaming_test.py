"""The streaming self-test: a few events at a steady pace, for signed-in people, within limits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.db import OperationalError

from chat.health import streaming_test
from chat.health.streaming_test import AT_ONCE, Pace
from chat.live.viewer import CLOSE_LATER, CLOSE_SIGNED_OUT
from chat.wire.sse import Frame
from project.sessions import SessionStore
from tests.live.connection import ORIGIN, Connection, HttpConnection, websocket_scope

ADDRESS = "/live/test/"


def away(*args: object) -> Any:
    raise OperationalError("away")


@pytest.fixture(autouse=True)
def _quick(live: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(streaming_test.PACES, "answer", Pace(5, 0.01))
    monkeypatch.setitem(streaming_test.PACES, "quiet", Pace(2, 3600.0))


class SocketClient(Connection):
    signed_out, busy = CLOSE_SIGNED_OUT, CLOSE_LATER

    def __init__(self, session: str, *, pace: str = "answer", origin: bytes = ORIGIN) -> None:
        self.events: list[dict[str, Any]] = []
        # The close code, as the status of the other one.
        self.status = 0
        scope = websocket_scope(ADDRESS, session, origin, query=f"pace={pace}".encode())
        super().__init__(scope, {"type": "websocket.connect"})

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "websocket.send":
            self.events.append(json.loads(event["text"]))
        if event["type"] == "websocket.close":
            self.status = event.get("code", 1000)

    async def until_answered(self) -> None:
        await self.until(lambda client: client.status)

    # Its status comes with the end.
    until_finished = until_answered

    async def close(self) -> None:
        await self.leave({"type": "websocket.disconnect", "code": 1001})


class StreamClient(HttpConnection):
    signed_out, busy = 401, 429

    def __init__(self, session: str, *, pace: str = "answer", origin: bytes = ORIGIN) -> None:
        self.events: list[dict[str, Any]] = []
        query, headers = f"pace={pace}".encode(), [(b"origin", origin)]
        super().__init__(ADDRESS, session, query=query, headers=headers)

    def take_frame(self, frame: Frame) -> None:
        self.events.append(json.loads(frame.data))


Client = SocketClient | StreamClient
both_transports = pytest.mark.parametrize("connect", [SocketClient, StreamClient])


@both_transports
async def test_events_are_numbered_and_paced(connect: type[Client], bobs_session: str) -> None:
    client = connect(bobs_session)
    await client.until_finished()
    await client.close()

    assert [(event["number"], event["of"]) for event in client.events] == [
        (number, 5) for number in range(1, 6)
    ]
    sent = [event["sent_ms"] for event in client.events]
    assert sent == sorted(sent)
    # Never sooner than the pace says, however busy the machine is.
    assert all(at >= 10 * number - 1 for number, at in enumerate(sent))


@both_transports
@pytest.mark.parametrize("session", ["", "x" * 32], ids=["none", "unknown"])
async def test_stranger_gets_no_events(connect: type[Client], session: str) -> None:
    client = connect(session)
    await client.until_answered()
    await client.close()

    assert client.status == connect.signed_out
    assert client.events == []


@both_transports
async def test_other_sites_get_no_events(connect: type[Client], bobs_session: str) -> None:
    client = connect(bobs_session, origin=b"https://evil.example")
    await client.until_answered()
    await client.close()

    assert client.status != 200
    assert client.events == []


@both_transports
async def test_concurrent_tests_per_person_are_limited(
    connect: type[Client], bobs_session: str, charlies_session: str
) -> None:
    several = [connect(bobs_session, pace="quiet") for _ in range(AT_ONCE)]
    for each in several:
        await each.until(lambda each: each.events)

    # One that is refused frees no place when it leaves.
    gone, refused, another = (
        connect(session) for session in (bobs_session, bobs_session, charlies_session)
    )
    await gone.until_answered()
    await gone.close()
    await refused.until_answered()
    await another.until_finished()
    await several.pop().close()
    again = connect(bobs_session)
    await again.until(lambda again: len(again.events) == 5)
    await asyncio.gather(*(each.close() for each in (*several, refused, another, again)))

    assert gone.status == refused.status == connect.busy
    assert refused.events == []
    assert len(another.events) == 5
    assert not streaming_test.running._by_person


async def test_socket_is_put_off_during_a_database_outage(
    bobs_session: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SessionStore, "load", away)
    client = SocketClient(bobs_session)

    await client.until_answered()

    assert client.status == CLOSE_LATER
    assert "Traceback" not in caplog.text
