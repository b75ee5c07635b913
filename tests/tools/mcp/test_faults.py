"""Faults of MCP servers around calls and in lists. What the cards of calls say is in ``test_fault_cards.py``."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from chat.tools.mcp import transport
from chat.tools.mcp.listing import MOST_TOOLS
from tests.support.hostile_server import CHUNKED_HEAD, Peer, answer, chunk, hang
from tests.tools.mcp.conftest import KEY, Caller
from tests.tools.mcp.servers import (
    SESSION,
    Reply,
    ToldServer,
    answered,
    dies,
    listed,
    sends,
    sends_bytes,
    sends_status,
    text_result,
    tool_of,
)


@dataclass(frozen=True)
class Fault:
    reply: Reply
    sentence: str


ASKS = 'WWW-Authenticate: Bearer resource_metadata="http://x.test/"\r\n'


async def test_call_that_never_left_has_not_run(caller: Caller, subtests: pytest.Subtests) -> None:
    async with ToldServer() as gone:
        closed = gone.url
    for url, sentence in (
        (closed, "refused"),
        ("http://no-such-host.test/mcp", "host name"),
        ("http://169.254.169.254/mcp", "aren’t allowed"),
        ("ftp://127.0.0.1/mcp", "valid URL"),
        ("http://127.0.0.1:port/mcp", "valid URL"),
    ):
        with subtests.test(msg=url):
            failed = await caller.failure(url)

            assert sentence in str(failed)
            assert not failed.may_have_run
            assert caller.sent == 0


async def test_server_that_dies_before_the_call_has_not_run(caller: Caller) -> None:
    async with ToldServer(server_discover=dies) as server:
        failed = await caller.failure(server.url)

    assert (failed.may_have_run, caller.sent, server.calls) == (False, 0, 0)


async def test_server_that_never_answers_ends_with_the_call(caller: Caller) -> None:
    arrived = asyncio.Event()
    left = asyncio.Event()

    async def waits(peer: Peer, message: dict[str, Any]) -> None:
        arrived.set()
        await hang(peer)
        left.set()

    async with ToldServer(tools_call=waits) as server:
        calling = asyncio.ensure_future(caller.call(server.url, "any"))
        await asyncio.wait_for(arrived.wait(), 30)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(left.wait(), 30)

    assert caller.sent == 1


LIST_FAULTS = {
    "no server": Fault(sends_status("404 Not Found"), "no MCP server at this address"),
    "page": Fault(sends_bytes(answer(b"<p>", "text/html")), "isn’t MCP"),
    "sign-in": Fault(sends_status("401 Unauthorized", ASKS), "sign-in"),
    "no list": Fault(sends({"resultType": "complete", "tools": 3}), "doesn’t follow the protocol"),
    "deep": Fault(
        sends_bytes(answer(b'{"jsonrpc":"2.0","id":2,"result":' + b'{"a":' * 50_000)), "isn’t MCP"
    ),
    "too much": Fault(sends(listed(tool_of("a", description="x" * 9_000_000))), "larger"),
}


async def test_each_fault_of_a_list_has_its_sentence(
    caller: Caller, subtests: pytest.Subtests
) -> None:
    for name, fault in LIST_FAULTS.items():
        with subtests.test(msg=name):
            async with ToldServer(tools_list=fault.reply) as server:
                sentence = await asyncio.wait_for(caller.list_failure(server.url), 30)

            assert fault.sentence in sentence
            assert caller.steps[-1] == ("tools", "failed", sentence)


async def test_version_that_nobody_speaks_is_told(caller: Caller) -> None:
    async def reply(peer: Peer, message: dict[str, Any]) -> None:
        error = {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"]}}
        error["data"]["requested"] = "2026-07-28"
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        await peer.send(answer(json.dumps(body).encode()))

    async with ToldServer(server_discover=reply) as server:
        assert "versions of MCP" in await caller.list_failure(server.url)


async def test_ten_thousand_tools_are_cut(caller: Caller) -> None:
    async def reply(peer: Peer, message: dict[str, Any]) -> None:
        start = int(message["params"].get("cursor") or 0)
        tools = [tool_of(f"tool_{number}") for number in range(start, start + 100)]
        await peer.send(answered(listed(*tools, nextCursor=str(start + 100)), message))

    async with ToldServer(tools_list=reply) as server:
        listing = await caller.list(server.url)

    assert (len(listing.tools), listing.is_cut) == (MOST_TOOLS, True)
    assert server.methods.count("tools/list") <= MOST_TOOLS // 100 + 1


async def test_list_that_repeats_its_page_ends(caller: Caller) -> None:
    async with ToldServer(tools_list=sends(listed(tool_of("a"), nextCursor="same"))) as server:
        listing = await caller.list(server.url)

    assert [tool.name for tool in listing.tools] == ["a"]
    assert server.methods.count("tools/list") == 2


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


UNUSABLE = {
    "deep": (nested(60), "nested too deeply"),
    "large": ({"type": "object", "description": "x" * 70_000}, "too large"),
    "wide": (
        {"type": "object", "properties": {f"a{number}": {} for number in range(20_000)}},
        "too large",
    ),
    "foreign": (
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/"}}},
        "another document",
    ),
    "file": ({"type": "object", "allOf": [{"$ref": "file:///etc/passwd"}]}, "another document"),
    "a list of properties": ({"type": "object", "properties": []}, "no JSON object"),
}


async def test_tool_with_a_schema_bomb_is_left_out(
    caller: Caller, subtests: pytest.Subtests
) -> None:
    for name, (schema, reason) in UNUSABLE.items():
        with subtests.test(msg=name):
            tools = (tool_of("good"), {"name": "bad", "inputSchema": schema})
            async with ToldServer(tools_list=sends(listed(*tools))) as server:
                listing = await caller.list(server.url)

            assert [tool.name for tool in listing.tools] == ["good"]
            assert [name for name, _ in listing.unusable] == ["bad"]
            assert reason in listing.unusable[0][1]


async def test_second_tool_of_a_name_and_bad_names_are_left_out(caller: Caller) -> None:
    tools = (tool_of("a"), tool_of("a"), tool_of("x" * 201), tool_of(" "))
    async with ToldServer(tools_list=sends(listed(*tools))) as server:
        listing = await caller.list(server.url)

    assert [tool.name for tool in listing.tools] == ["a"]
    assert len(listing.unusable) == 3


async def test_keys_are_sent_and_kept_out_of_logs_and_results(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    async def echo(peer: Peer, message: dict[str, Any]) -> None:
        shown = peer.server.requests[-1].header("authorization")
        await peer.send(answered(text_result(f"You sent {shown}"), message))

    headers = {"Authorization": f"Bearer {KEY}"}
    with caplog.at_level(logging.DEBUG):
        async with ToldServer(tools_call=echo) as server:
            output = await caller.call(server.url, "any", headers=headers)
            wrong = {"server_discover": sends({"supportedVersions": KEY})}
            async with ToldServer(**wrong, tools_call=sends_bytes(b"x")) as other:
                await caller.failure(other.url, headers=headers)

    assert server.requests[0].header("authorization") == f"Bearer {KEY}"
    assert KEY not in output.text
    assert KEY not in caplog.text


async def test_placeholders_in_an_address_are_sent_as_they_are(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", KEY)
    async with ToldServer(tools_call=sends(text_result())) as server:
        for placeholder in ("${CANARY}", "{{CANARY}}", "$CANARY", "%(CANARY)s", "{user.email}"):
            headers = {"X-Key": placeholder}
            await caller.call(f"{server.url}/{placeholder}", "any", headers=headers)

    assert all(KEY not in request.target for request in server.requests)
    assert all("CANARY" in r.target or "user.email" in r.target for r in server.requests)
    assert all(KEY not in (r.header("x-key") or "") for r in server.requests)


async def cuts_its_stream(peer: Peer, message: dict[str, Any]) -> None:
    event = chunk(b"id: 1\nretry: 0\nevent: message\ndata:\n\n")
    await peer.send(CHUNKED_HEAD + event + b"0\r\n\r\n")


async def test_call_is_judged_by_its_own_status(caller: Caller, subtests: pytest.Subtests) -> None:
    for line in ("400 Bad Request", "404 Not Found", "405 No", "429 Too Many", "302 Found"):
        with subtests.test(msg=line):
            async with ToldServer(tools_call=cuts_its_stream, GET=sends_status(line)) as server:
                failed = await asyncio.wait_for(caller.failure(server.url), 30)

            assert failed.may_have_run
            assert "GET" in server.methods


async def says_nothing(peer: Peer, message: dict[str, Any]) -> None:
    await peer.wait_gone()


async def closes(peer: Peer, message: dict[str, Any]) -> None:
    """Without a response."""


STREAMS = {
    "refused": sends_status("405 Method Not Allowed"),
    "failing": sends_status("500 Internal Server Error"),
    "unauthorized": sends_status("401 Unauthorized"),
    "closed": closes,
    "cut again and again": cuts_its_stream,
    "silent": says_nothing,
}


@pytest.mark.parametrize("name", STREAMS)
async def test_stream_of_a_session_never_spoils_a_call(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(transport, "LISTEN_SECONDS", 0.05)

    async def answers_late(peer: Peer, message: dict[str, Any]) -> None:
        await asyncio.sleep(0.2)
        await sends(text_result())(peer, message)

    async with ToldServer(GET=STREAMS[name], tools_call=answers_late, **SESSION) as server:
        output = await caller.call(server.url, "any")

    assert output.text == "done"
    assert server.methods.count("GET") == 1


async def test_stream_that_is_cut_again_and_again_ends(caller: Caller) -> None:
    async with ToldServer(tools_call=cuts_its_stream, GET=cuts_its_stream) as server:
        failed = await asyncio.wait_for(caller.failure(server.url), 60)

    assert failed.may_have_run
    assert server.calls == 1
    assert len(server.methods) <= 110
