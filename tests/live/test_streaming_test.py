"""What the streaming self-test listens to: a few events at a steady pace, for people, within bounds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chat.consumers import streaming_test
from chat.consumers.streaming_test import AT_ONCE, Pace
from chat.live.viewer import CLOSE_LATER, CLOSE_SIGNED_OUT
from chat.wire.sse import Decoder
from tests.live.connection import ORIGIN, Connection, headers_of

ADDRESS = "/live/test/"


@pytest.fixture(autouse=True)
def _quick(live: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(streaming_test.PACES, "answer", Pace(5, 0.01))
    monkeypatch.setitem(streaming_test.PACES, "quiet", Pace(2, 3600.0))


class Listening(Connection):
    """Hears the test by the one carrier or by the other."""

    def __init__(self, session: str, *, pace: str = "answer", origin: bytes = ORIGIN) -> None:
        self.events: list[dict[str, Any]] = []
        self.outcome: int | None = None
        self.is_finished = False
        scope = {
            "type": self.kind,
            "path": ADDRESS,
            "raw_path": ADDRESS.encode(),
            "root_path": "",
            "method": "GET",
            "query_string": f"pace={pace}".encode(),
            "headers": headers_of(session, (b"origin", origin)),
            "subprotocols": [],
        }
        super().__init__(scope, self.opening)

    async def until_finished(self) -> None:
        await self.until(lambda listening: listening.is_finished)

    async def close(self) -> None:
        await self.leave(self.goodbye)


class BySocket(Listening):
    kind = "websocket"
    opening = {"type": "websocket.connect"}
    goodbye = {"type": "websocket.disconnect", "code": 1001}
    signed_out, busy = CLOSE_SIGNED_OUT, CLOSE_LATER

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "websocket.send":
            self.events.append(json.loads(event["text"]))
        if event["type"] == "websocket.close":
            self.outcome = event.get("code", 1000)
            self.is_finished = True


class ByStream(Listening):
    kind = "http"
    opening = {"type": "http.request", "body": b"", "more_body": False}
    goodbye = {"type": "http.disconnect"}
    signed_out, busy = 401, 429

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.outcome = event["status"]
        elif self.outcome == 200:
            self.events += [json.loads(frame.data) for frame in Decoder().feed(event["body"])]
        self.is_finished = event.get("more_body") is False or (
            "body" in event and not event["body"]
        )


WAYS = pytest.mark.parametrize("listen", [BySocket, ByStream])


@WAYS
async def test_each_event_says_which_it_is_and_when_it_was_sent(
    listen: type[Listening], bobs_session: str
) -> None:
    listening = listen(bobs_session)
    await listening.until_finished()
    await listening.close()

    assert [(event["number"], event["of"]) for event in listening.events] == [
        (number, 5) for number in range(1, 6)
    ]
    sent = [event["sent_ms"] for event in listening.events]
    assert sent == sorted(sent)
    # No sooner than the pace says.
    assert all(at >= 10 * number - 1 for number, at in enumerate(sent))


@WAYS
@pytest.mark.parametrize("session", ["", "x" * 32])
async def test_nobody_hears_nothing(listen: type[Listening], session: str) -> None:
    listening = listen(session)
    await listening.until(lambda listening: listening.outcome)
    await listening.close()

    assert listening.outcome == listen.signed_out
    assert listening.events == []


@WAYS
async def test_another_site_hears_nothing(listen: type[Listening], bobs_session: str) -> None:
    listening = listen(bobs_session, origin=b"https://evil.example")
    await listening.until(lambda listening: listening.outcome)
    await listening.close()

    assert listening.outcome != 200
    assert listening.events == []


@WAYS
async def test_one_person_listens_a_few_times_at_once(
    listen: type[Listening], bobs_session: str, charlies_session: str
) -> None:
    several = [listen(bobs_session, pace="quiet") for _ in range(AT_ONCE)]
    for each in several:
        await each.until(lambda each: each.events)

    refused, another = listen(bobs_session), listen(charlies_session)
    await refused.until(lambda refused: refused.outcome)
    await another.until_finished()
    await several.pop().close()
    again = listen(bobs_session)
    await again.until(lambda again: len(again.events) == 5)
    await asyncio.gather(*(each.close() for each in (*several, refused, another, again)))

    assert refused.outcome == listen.busy
    assert refused.events == []
    assert len(another.events) == 5
    assert not streaming_test.running._by_person
