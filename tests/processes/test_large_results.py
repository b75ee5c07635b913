"""Results of tools that are larger than any limit do not fill the memory of the process that calls."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.runs.waiting import calling, saying
from tests.support.hostile_server import CHUNKED_HEAD, HEAD, Peer, chunk
from tests.support.processes.mcp_server import add_remote_tool, in_thread, wanted_call
from tests.support.processes.memory import peak_bytes
from tests.support.processes.site import Site
from tests.support.processes.tools import call_statuses, follow_up_of
from tests.tools.mcp.servers import ToldServer, answered, text_result

pytestmark = [pytest.mark.process, pytest.mark.slow]
MIB = 1024 * 1024
RESULT_BYTES = 100 * MIB
# The limit of 5 MiB is in memory several times while the protocol is read, also as text.
MOST_BYTES = 48 * MIB
BLOCK = b"x" * 65536


async def in_one_message(peer: Peer, message: dict[str, Any]) -> None:
    length = f"Content-Length: {RESULT_BYTES}\r\n\r\n".encode()
    await peer.send(HEAD + b"Content-Type: application/json\r\n" + length)
    await peer.send(b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"')
    await peer.flood(BLOCK, RESULT_BYTES // len(BLOCK))


async def in_one_event(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(CHUNKED_HEAD + chunk(b'event: message\ndata: {"jsonrpc":"2.0","a":"'))
    await peer.flood(chunk(BLOCK), RESULT_BYTES // len(BLOCK))


async def in_many_events(peer: Peer, message: dict[str, Any]) -> None:
    notice = (
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
    )
    event = chunk(b"event: message\ndata: " + notice % (b"x" * 1000) + b"\n\n")
    await peer.send(CHUNKED_HEAD)
    await peer.flood(event, RESULT_BYTES // len(event))


FLOODS = {each.__name__: each for each in (in_one_message, in_one_event, in_many_events)}


def test_result_of_100_mb_takes_no_more_memory_than_the_limit(site: Site) -> None:
    unread: list[str] = []

    async def answers(peer: Peer, message: dict[str, Any]) -> None:
        name = message["params"]["name"]
        flood = FLOODS.get(name)
        if flood is None:
            await peer.send(answered(text_result("2.31 m"), message))
            return
        try:
            await flood(peer, message)
        except ConnectionError:
            unread.append(name)

    with in_thread(ToldServer(tools_call=answers)) as server:
        site.rows(
            "UPDATE chat_upstream SET dialect = 'openai_chat', base_url = ?", f"{site.fake.url}/v1"
        )
        tools = {name: add_remote_tool(site, server.url, name) for name in ("small", *FLOODS)}
        site.start()
        # What the first call of a process loads.
        _call(site, "small", tools["small"])
        before = peak_bytes(site)
        for name in FLOODS:
            _call(site, name, tools[name])

    assert call_statuses(site) == ["done", "failed", "failed", "failed"]
    rows = site.rows("SELECT error FROM chat_toolcall WHERE status = 'failed'")
    assert all("result is larger than the limit" in row["error"] for row in rows)
    assert unread == list(FLOODS)
    assert peak_bytes(site) - before < MOST_BYTES


def _call(site: Site, name: str, tool: UUID) -> None:
    site.fake.script(calling(wanted_call(name)), saying("Done."))
    run = site.send("How high?", tools=[tool])
    row = site.until_ended(follow_up_of(site, run))
    assert row["status"] == "completed"
