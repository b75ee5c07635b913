"""The runner's own small server: three addresses, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chat.core.process import Process
from chat.health import runner_probe as module
from chat.health.checks import Checks
from chat.health.runner_probe import ProbeServer
from chat.models import Runner
from tests.health.helpers import TOKEN, until


@pytest.fixture
async def server(checks: Checks, process: Process) -> AsyncIterator[ProbeServer]:
    server = ProbeServer("127.0.0.1", 0)
    yield server
    await server.close()


@pytest.fixture
async def port(server: ProbeServer) -> int:
    return await server.start()


async def say(port: int, text: bytes) -> bytes:
    """Everything that comes back until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def get(port: int, path: str, *, method: str = "GET", head: str = "") -> tuple[int, str]:
    host = f"Host: 127.0.0.1:{port}\r\n"
    answer = (await say(port, f"{method} {path} HTTP/1.1\r\n{host}{head}\r\n".encode())).decode()
    first, _, body = answer.partition("\r\n\r\n")
    return int(first.split(" ")[1]), body


async def test_serving_runner_is_alive_and_ready(runner_row: Runner, port: int) -> None:
    assert await get(port, "/healthz") == (200, '{"status":"ok"}\n')
    status, body = await get(port, "/readyz?verbose")
    assert status == 200
    assert '"phase":"serving"' in body


async def test_draining_runner_is_alive_and_not_ready(
    runner_row: Runner, port: int, process: Process
) -> None:
    process.drains()

    assert (await get(port, "/readyz"))[0] == 503
    assert (await get(port, "/healthz"))[0] == 200


async def test_metrics_are_for_allowed_readers(
    runner_row: Runner, port: int, settings: Any
) -> None:
    assert "tributary_executing_runs" in (await get(port, "/metrics"))[1]

    settings.METRICS_NETWORKS = []
    settings.METRICS_TOKEN = TOKEN
    missing = await get(port, "/nothing")

    assert await get(port, "/metrics") == missing
    assert missing[0] == 404
    assert (await get(port, "/readyz"))[1] == '{"status":"ok"}\n'
    token = f"Authorization: Bearer {TOKEN}\r\n"
    assert (await get(port, "/metrics", head=token))[0] == 200


async def test_only_reading_is_possible(port: int) -> None:
    assert (await get(port, "/healthz", method="POST"))[0] == 405
    assert await get(port, "/healthz", method="HEAD") == (200, "")


@pytest.mark.parametrize(
    "text",
    [b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20_000, b"\x16\x03\x01\x02\x00" * 5000],
)
async def test_large_request_is_cut(port: int, text: bytes) -> None:
    assert await say(port, text) == b""


async def test_malformed_request_is_refused(port: int) -> None:
    assert (await say(port, b"hello\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_silent_client_is_cut(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)

    assert await say(port, b"GET /healthz HTTP/1.1\r\n") == b""


async def test_connections_are_bounded(
    server: ProbeServer, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    _, waiting = await asyncio.open_connection("127.0.0.1", port)
    await until(lambda: server.connections > 0)

    assert await say(port, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    waiting.close()
