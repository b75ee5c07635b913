"""Calls of an MCP server over the official library, in each version of the protocol."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from chat.tools.kinds import OutputFile
from chat.tools.mcp import call_mcp
from tests.support.hostile_server import answer
from tests.tools.mcp.conftest import Caller
from tests.tools.mcp.servers import (
    DISCOVERED,
    ERAS,
    MODERN,
    PNG,
    OwnServer,
    ToldServer,
    refused,
    sends,
    serving,
    text_result,
)


@pytest.fixture
def own() -> OwnServer:
    return OwnServer()


@pytest.mark.parametrize("era", ERAS)
async def test_server_of_each_version_is_listed_and_called(
    caller: Caller, own: OwnServer, era: str
) -> None:
    async with serving(own, era) as url:
        listing = await caller.list(url)
        output = await caller.call(url, "level", {"station": "Basel"})

    assert listing.protocol == era
    assert [tool.name for tool in listing.tools] == [
        *("level", "close_gate", "picture", "broken", "forever")
    ]
    assert (output.text, output.is_error) == ("2.31 m at Basel", False)
    assert own.calls == ["level"]
    assert caller.sent == 1
    assert caller.progress == [{"progress": 1, "total": 2, "message": "measuring"}]
    assert output.request_bytes > 0 < output.response_bytes


async def test_list_has_descriptions_arguments_and_hints(caller: Caller, own: OwnServer) -> None:
    async with serving(own) as url:
        listing = await caller.list(url)

    level, close_gate, *_ = listing.tools
    assert level.description == "How high the water is."
    assert level.schema["required"] == ["station"]
    assert (level.is_read_only, level.is_destructive, level.is_idempotent) == (True, False, False)
    assert (close_gate.is_read_only, close_gate.is_destructive) == (False, True)
    assert close_gate.is_idempotent
    names = [(name, state) for name, state, _ in caller.steps]
    assert names == [
        *(("connect", "running"), ("connect", "ok"), ("sign_in", "ok"), ("tools", "running"))
    ]
    assert "speaks MCP 2026-07-28" in caller.steps[1][2]


async def test_results_of_each_kind_are_read(caller: Caller, own: OwnServer) -> None:
    async with serving(own) as url:
        structured = await caller.call(url, "close_gate", {"gate": 7})
        picture = await caller.call(url, "picture")
        broken = await caller.call(url, "broken")

    assert structured.structured == {"gate": 7}
    assert picture.files == (OutputFile(media_type="image/png", content=PNG),)
    assert picture.text == "The gauge\n[File: image/png, 8 bytes]"
    assert broken.is_error
    assert "secret inside" not in broken.text


RESOURCES = [
    {"type": "text", "text": "a\x00b"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "https://a.test/x", "name": "x", "description": "Long"},
    {"type": "resource", "resource": {"uri": "file:///d/notes.txt", "text": "Notes"}},
    {
        "type": "resource",
        "resource": {"uri": "file:///d/%2e%2e%2fa%0a.bin", "blob": "AAAA", "mimeType": "x y<z>"},
    },
]


async def test_resources_become_files_and_links_text(caller: Caller) -> None:
    result = {"content": RESOURCES, "resultType": "complete"}
    async with ToldServer(tools_call=sends(result)) as server:
        output = await caller.call(server.url, "any")

    assert [(file.media_type, file.name) for file in output.files] == [
        ("audio/wav", ""),
        ("text/plain", "notes.txt"),
        ("application/octet-stream", "a.bin"),
    ]
    assert output.text.splitlines() == [
        "a\u2400b",
        "[File: audio/wav, 3 bytes]",
        "x · https://a.test/x · Long",
        "Notes",
        "[File: a.bin, application/octet-stream, 3 bytes]",
    ]


async def test_redirect_within_the_server_is_followed_once(caller: Caller) -> None:
    async def reply(peer, message):
        if peer.server.requests[-1].target == "/mcp":
            moved = answer(b"", status="307 Temporary Redirect", headers="Location: /mcp/\r\n")
            await peer.send(moved)
        else:
            await sends(text_result())(peer, message)

    headers = {"Authorization": "Bearer sk-canary-0123456789"}
    async with ToldServer(tools_call=reply) as server:
        output = await caller.call(f"{server.url}/mcp", "any", headers=headers)

    assert output.text == "done"
    assert [request.target for request in server.requests] == ["/mcp", "/mcp", "/mcp/"]
    assert server.requests[-1].header("authorization") == headers["Authorization"]


async def test_server_without_tools_has_none(caller: Caller) -> None:
    async with ToldServer(server_discover=sends({**DISCOVERED, "capabilities": {}})) as server:
        listing = await caller.list(server.url)

    assert listing.tools == ()
    assert server.methods == ["server/discover"]


async def test_result_without_text_is_its_structure(caller: Caller) -> None:
    result = {"content": [], "structuredContent": [1, "\x00"], "resultType": "complete"}
    async with ToldServer(tools_call=sends(result)) as server:
        output = await caller.call(server.url, "any")

    assert (output.structured, output.text) == ([1, "\u2400"], '[1,"\u2400"]')


async def test_cancelled_call_ends_at_the_server(caller: Caller, own: OwnServer) -> None:
    for era in (MODERN, "2025-11-25"):
        own.waiting.clear()
        own.was_cancelled.clear()
        async with serving(own, era) as url:
            calling = asyncio.ensure_future(caller.call(url, "forever"))
            await own.waiting.wait()
            calling.cancel()

            with pytest.raises(asyncio.CancelledError):
                await calling
            await asyncio.wait_for(own.was_cancelled.wait(), 30)


async def test_call_is_repeated_only_if_its_headers_were_refused(caller: Caller) -> None:
    calls = iter([-32020, None])

    async def reply(peer, message):
        code = next(calls)
        data = refused(code, message) if code else None
        await (peer.send(data) if data else sends(text_result())(peer, message))

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "Authorization"}},
    }
    tools = {
        "tools": [{"name": "any", "inputSchema": schema}],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    }
    headers = {"Authorization": "Bearer sk-canary-0123456789"}
    async with ToldServer(tools_call=reply, tools_list=sends(tools)) as server:
        output = await caller.call(server.url, "any", {"city": "Bern"}, headers=headers)

    assert output.text == "done"
    assert server.methods == ["server/discover", "tools/call", "tools/list", "tools/call"]
    # The header of an argument never takes the place of the credential.
    last = server.requests[-1]
    assert last.header("authorization") == "Bearer sk-canary-0123456789"
    assert last.header("mcp-param-authorization") == "Bern"
    assert caller.sent == 2


@pytest.mark.parametrize(
    ("annotation", "value", "sent"),
    [
        ("City", "Bern", "Bern"),
        ("Authorization", "Bern", "Bern"),
        ("City", "Zürich\r\nX: y", "=?base64?WsO8cmljaA0KWDogeQ==?="),
        ("City", None, None),
        ("not a token", "Bern", None),
    ],
)
async def test_argument_goes_into_the_header_that_its_definition_names(
    caller: Caller, annotation: str, value: str | None, sent: str | None
) -> None:
    properties = {"city": {"type": "string", "x-mcp-header": annotation}}
    schema = {"type": "object", "properties": properties}
    headers = {"Authorization": "Bearer sk-canary-0123456789"}
    async with ToldServer(tools_call=sends(text_result())) as server:
        await caller.call(server.url, "any", {"city": value}, headers=headers, schema=schema)

    assert server.methods == ["server/discover", "tools/call"]
    call = server.requests[-1]
    found = [pair for pair in call.headers if pair[0].startswith("Mcp-Param-")]
    assert found == ([] if sent is None else [(f"Mcp-Param-{annotation}", sent)])
    assert call.header("authorization") == "Bearer sk-canary-0123456789"


class Dropped(Exception):
    pass


async def test_call_that_must_not_be_sent_is_not_sent(caller: Caller) -> None:
    async def drop() -> None:
        raise Dropped

    async with ToldServer(tools_call=sends(text_result())) as server:
        request = replace(caller.request(server.url, "any"), sent=drop)
        with pytest.raises(Dropped):
            await call_mcp(request)

    assert server.methods == ["server/discover"]
