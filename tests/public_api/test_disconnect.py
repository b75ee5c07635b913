"""Chats whose client disconnects or loses access, with the consumer in this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chat.accounts.actions import tokens
from chat.core.process import ProcessPhase, process
from chat.core.threads import readers
from chat.live.access_monitor import AccessMonitor
from chat.models import AccessToken, Run, Team, Upstream, User
from chat.public_api import endpoints, sending
from chat.public_api.answer_stream import stopping, threads
from chat.runs.public_events import response_id_of
from tests.live.connection import Connection
from tests.public_api.site import CHAT
from tests.runs.waiting import call, ended, result_of

STOP_ON_DISCONNECT = (b"tributary-on-disconnect", b"stop")


class ChatRequest(Connection):
    """A streamed chat, or another POST."""

    def __init__(
        self, token: str, *headers: tuple[bytes, bytes], path: str = CHAT, **fields: Any
    ) -> None:
        self.status = 0
        self.body = b""
        self.is_finished = False
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [
                (b"host", b"localhost:8000"),
                (b"authorization", f"Bearer {token}".encode()),
                (b"content-type", b"application/json"),
                *headers,
            ],
        }
        content = {"model": "demo/model", "input": "Hello", "stream": True, **fields}
        body = json.dumps(content).encode()
        super().__init__(scope, {"type": "http.request", "body": body, "more_body": False})

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            return
        self.body += event.get("body", b"")
        self.is_finished = not event.get("more_body", False)

    async def until_answered(self) -> None:
        await self.until(lambda request: request.status)

    async def until_finished(self) -> None:
        await self.until(lambda request: request.is_finished)

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


@pytest.fixture
async def access_monitor(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AccessMonitor]:
    access_monitor = AccessMonitor()
    monkeypatch.setattr(endpoints, "access_monitor", access_monitor)
    monkeypatch.setattr("chat.live.access_monitor.CHECK_SECONDS", 0.02)
    yield access_monitor
    await access_monitor.close()
    await readers.close()
    await threads.close()
    await stopping.close()


@pytest.fixture
def token(access_monitor: AccessMonitor, alice: User, team: Team, upstream: Upstream) -> str:
    return tokens.create_token(alice, team, name="nightly", days=7)[1]


async def newest_run() -> Run:
    return await threads.call(Run.objects.select_related("message__parent").latest, "pk")


@pytest.mark.parametrize(
    ("phase", "is_stopped"), [(ProcessPhase.SERVING, True), (ProcessPhase.DRAINING, False)]
)
async def test_disconnect_stops_the_run_unless_the_process_ends(
    token: str, phase: ProcessPhase, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ChatRequest(token, STOP_ON_DISCONNECT)
    await request.until_answered()

    # A server that ends sends its streams the same event as when their client has gone.
    monkeypatch.setattr(process, "_phase", phase)
    await request.close()

    assert ((await newest_run()).stop_requested_at is not None) == is_stopped


async def test_stop_does_not_wait_for_other_requests(token: str) -> None:
    request = ChatRequest(token)
    await request.until_answered()
    run = await newest_run()
    may_end = threading.Event()
    others = [asyncio.ensure_future(threads.call(may_end.wait, 30)) for _ in range(8)]

    stop = ChatRequest(token, path=f"/api/v1/runs/{run.public_id}/stop")
    await stop.until_finished()

    assert stop.status == 200
    assert json.loads(stop.body)["status"] == "stopped"
    assert not any(other.done() for other in others)
    may_end.set()
    await asyncio.gather(*others)
    await request.close()


async def test_revoked_token_ends_the_stream_and_stops_nothing(token: str) -> None:
    request = ChatRequest(token, STOP_ON_DISCONNECT)
    await request.until_answered()

    await threads.call(AccessToken.objects.update, revoked_at="2020-01-01T00:00:00Z")
    await request.until_finished()
    await request.close()

    assert (await newest_run()).stop_requested_at is None


async def test_client_is_counted_before_the_run_is_created(
    token: str, access_monitor: AccessMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def send(*args: Any) -> Run:
        counts.append(len(access_monitor.connections))
        return sending.send(*args)

    monkeypatch.setattr(endpoints, "send", send)
    request = ChatRequest(token)
    await request.until_answered()
    await request.close()

    assert counts == [1]
    assert not access_monitor.connections


async def test_same_key_is_answered_with_the_same_run(token: str) -> None:
    requests = [ChatRequest(token, (b"idempotency-key", b"job-7")) for _ in range(2)]
    for request in requests:
        await request.until_answered()
        await request.close()

    assert [request.status for request in requests] == [200, 200]
    assert await threads.call(Run.objects.count) == 1


async def test_repeated_tool_result_is_answered_with_the_same_run(token: str) -> None:
    first = ChatRequest(token)
    await first.until_answered()
    await first.close()
    run = await newest_run()
    await threads.call(ended, run, result_of(call("c1")))
    given = {"type": "tool_result", "call_id": "c1", "content": "Rain"}
    previous = response_id_of(run.public_id)

    for _ in range(2):
        request = ChatRequest(token, previous_response_id=previous, input=[given])
        await request.until_answered()
        await request.close()

        assert request.status == 200, request.body
    follow_up = await newest_run()
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
