"""A chat whose client leaves, or is hung up on, with the consumer in this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chat.actions import tokens
from chat.consumers import programs
from chat.health.process import Phase, process
from chat.live.watch import Watch
from chat.models import AccessToken, Run, Team, Upstream, User
from chat.programs import sending
from chat.programs.database import stopping, threads
from chat.runs.database import readers
from chat.runs.public import response_id_of
from tests.live.connection import Connection
from tests.runs.waiting import call, ended, result_of


class Asking(Connection):
    """``POST``, to ``/api/v1/chat`` where nothing else is said."""

    def __init__(
        self,
        token: str,
        *headers: tuple[bytes, bytes],
        path: str = "/api/v1/chat",
        **members: Any,
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
        body = json.dumps({"model": "demo/model", "input": "Hello", **members}).encode()
        super().__init__(scope, {"type": "http.request", "body": body, "more_body": False})

    def took(self, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            return
        self.body += event.get("body", b"")
        self.is_finished = not event.get("more_body", False)

    async def until_answered(self) -> None:
        await self.until(lambda asking: asking.status)

    async def close(self) -> None:
        await self.leave({"type": "http.disconnect"})


@pytest.fixture
async def watch(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watch]:
    watch = Watch()
    monkeypatch.setattr(programs, "watch", watch)
    monkeypatch.setattr("chat.live.watch.CHECK_SECONDS", 0.02)
    yield watch
    await watch.close()
    await readers.close()
    await threads.close()
    await stopping.close()


@pytest.fixture
def text(watch: Watch, alice: User, team: Team, upstream: Upstream) -> str:
    return tokens.create_token(alice, team, name="nightly", days=7)[1]


def last_run() -> Run:
    return Run.objects.select_related("message__parent").latest("pk")


@pytest.mark.parametrize(("phase", "is_stopped"), [(Phase.SERVING, True), (Phase.DRAINING, False)])
async def test_leaving_stops_and_a_process_that_ends_does_not(
    text: str, phase: Phase, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(text, (b"tributary-on-disconnect", b"stop"), stream=True)
    await asking.until_answered()

    # The server tells the streams that it ends as it tells them that their client has gone.
    monkeypatch.setattr(process, "_phase", phase)
    await asking.close()

    run = await threads.call(last_run)
    assert (run.stop_requested_at is not None) == is_stopped


async def test_a_stop_stands_in_no_line_with_what_others_send(text: str) -> None:
    asking = Asking(text, stream=True)
    await asking.until_answered()
    run = await threads.call(last_run)
    may_end = threading.Event()
    others = [asyncio.ensure_future(threads.call(may_end.wait, 30)) for _ in range(8)]

    stopping_it = Asking(text, path=f"/api/v1/runs/{run.public_id}/stop")
    await stopping_it.until(lambda asking: asking.is_finished)

    assert stopping_it.status == 200
    assert json.loads(stopping_it.body)["status"] == "stopped"
    assert not any(other.done() for other in others)
    may_end.set()
    await asyncio.gather(*others)
    await asking.close()


async def test_a_token_that_ends_hangs_up_and_stops_nothing(text: str) -> None:
    asking = Asking(text, stream=True, stop_on_disconnect=True)
    await asking.until_answered()

    await threads.call(AccessToken.objects.update, revoked_at="2020-01-01T00:00:00Z")
    await asking.until(lambda asking: asking.is_finished)
    await asking.close()

    run = await threads.call(last_run)
    assert run.stop_requested_at is None


async def test_whoever_asks_is_counted_before_anything_is_made(
    text: str, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def send(*args: Any) -> Run:
        counted.append(len(watch.connections))
        return sending.send(*args)

    monkeypatch.setattr(programs, "send", send)
    asking = Asking(text, stream=True)
    await asking.until_answered()
    await asking.close()

    assert counted == [1]
    assert not watch.connections


async def test_the_same_key_again_is_answered_with_the_same_run(text: str) -> None:
    several = [Asking(text, (b"idempotency-key", b"job-7"), stream=True) for _ in range(2)]
    for asking in several:
        await asking.until_answered()
        await asking.close()

    assert [asking.status for asking in several] == [200, 200]
    assert await threads.call(Run.objects.count) == 1


async def test_a_result_is_answered_with_the_run_that_goes_on(text: str) -> None:
    first = Asking(text, stream=True)
    await first.until_answered()
    await first.close()
    run = await threads.call(last_run)
    await threads.call(ended, run, result_of(call("c1")))
    given = {"type": "tool_result", "call_id": "c1", "content": "Rain"}
    point = response_id_of(run.public_id)

    for _ in range(2):
        asking = Asking(text, stream=True, previous_response_id=point, input=[given])
        await asking.until_answered()
        await asking.close()

        assert asking.status == 200, asking.body
    follow_up = await threads.call(last_run)
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
