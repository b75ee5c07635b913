"""Calls that fail: what their cards say, and how the answer goes on, as the table in ``docs/mcp.md`` has it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.template.loader import render_to_string
from lxml import html

from chat.core.threads import DatabaseThreads
from chat.models import CallStatus, QuestionStatus, Run, Team, Tool, ToolKind, ToolRule, User
from chat.models import ToolServer as Server
from chat.questions.card_reading import cards_by_run
from chat.runs import runner as runners
from chat.tools import calls
from chat.tools.definitions import tool_digest
from chat.tools.runner import RUN_CALLS, ToolRunner
from chat.upstreams import addresses
from chat.upstreams.client import Client
from tests.runs.helpers import threads
from tests.runs.waiting import calling, saying, wire_call
from tests.support.hostile_server import CHUNKED_HEAD, HEAD, Peer, answer, chunk, hang
from tests.support.rooms import text_of
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import calls_of, follow_up_of, given_to, statuses
from tests.tools.mcp.conftest import Caller
from tests.tools.mcp.servers import (
    Reply,
    ToldServer,
    answered,
    dies,
    refused,
    sends,
    sends_bytes,
    sends_status,
    text_result,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "mcp.md"
LOOK_SECONDS = 0.2
# On a machine that has other things to do.
PATIENCE_SECONDS = 240
NO, YES, MAYBE = "no", "yes", "it may have"


async def dies_within_the_answer(peer: Peer, message: dict[str, Any]) -> None:
    data = answered(text_result("x" * 1000), message)
    await peer.send(data[:-500])
    peer.reset()


async def dies_within_a_stream(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(CHUNKED_HEAD + chunk(b"event: message\ndata: {"))
    peer.reset()


async def ends_a_stream_early(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(CHUNKED_HEAD + chunk(b": nothing\n\n") + b"0\r\n\r\n")


async def sends_too_much(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(HEAD + b"Content-Type: application/json\r\nContent-Length: 900000000\r\n\r\n")
    await peer.flood(b" " * 65536, 200)
    await peer.wait_gone()


async def never_answers(peer: Peer, message: dict[str, Any]) -> None:
    peer.server.reached.set()
    await hang(peer)


async def refuses(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(refused(-32602, message, "No such\n <b>gate</b>\u202e"))


def content(*blocks: dict[str, str], **members: object) -> Reply:
    return sends({"resultType": "complete", "content": list(blocks), **members})


class Fault(NamedTuple):
    reply: Reply
    sentence: str
    has_run: str = NO
    # What else there is about the tool.
    is_read_only: bool = False


MESSAGE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"No gate"}}'
ELSEWHERE = "Location: http://elsewhere.test/mcp\r\n"
ASKS = 'WWW-Authenticate: Bearer resource_metadata="http://x.test/"\r\n'
CLOSED = "The server closed the connection before it answered."
LOST = "The connection to the server was lost before the result arrived."
LARGE = "The tool ran, but its result is larger than the limit."
INVALID = "The tool ran, but its result isn’t valid"
BUSY = "The server gets too many requests"
NOT_MCP = "The answer isn’t MCP"
SAYS = "The server says:"
# One of each row of the table.
FAULTS = {
    "gone": Fault(dies, "The connection was refused"),
    "rebound": Fault(dies, "Connections to this address aren’t allowed"),
    "redirect": Fault(
        sends_status("307 Temporary Redirect", ELSEWHERE), "The server redirects to another address"
    ),
    "sign_in": Fault(sends_status("401 Unauthorized", ASKS), "The server asks for a sign-in"),
    "key_refused": Fault(
        sends_status("403 Forbidden"), "The server refused the request. Check the headers"
    ),
    "no_server": Fault(sends_status("404 Not Found"), "There is no MCP server at this address"),
    "too_many_requests": Fault(sends_status("429 Too Many Requests"), BUSY),
    "refused_by_the_server": Fault(refuses, SAYS),
    "dies": Fault(dies, CLOSED, MAYBE),
    "dies_but_only_reads": Fault(dies, CLOSED, MAYBE, is_read_only=True),
    "dies_within_the_answer": Fault(dies_within_the_answer, LOST, MAYBE),
    "never_answers": Fault(never_answers, "The tool took longer than it may.", MAYBE),
    "server_error": Fault(sends_status("502 Bad Gateway"), "The server failed (HTTP 5", MAYBE),
    "busy": Fault(sends_status("503 Service Unavailable"), BUSY, MAYBE),
    "no_known_reason": Fault(
        sends_status("400 Bad Request"), "The server refused the request (HTTP 4", MAYBE
    ),
    "page": Fault(sends_bytes(answer(b"<p>", "text/html")), NOT_MCP, MAYBE),
    "too_large": Fault(sends_too_much, LARGE, YES),
    "no_result": Fault(sends({}), INVALID, YES),
    "fails": Fault(
        content({"type": "text", "text": "No water"}, isError=True),
        "The tool reported an error",
        YES,
    ),
}
# Others with the same outcome.
VARIANTS = {
    "refused_with_a_status": Fault(sends_bytes(answer(MESSAGE, status="400 Bad Request")), SAYS),
    "dies_within_a_stream": Fault(dies_within_a_stream, LOST, MAYBE),
    "ends_a_stream": Fault(ends_a_stream_early, LOST, MAYBE),
    "error_of_a_proxy": Fault(sends_status("520 Unknown"), "The server failed (HTTP 5", MAYBE),
    "proxy_gave_up": Fault(sends_status("524 Timeout"), "The server failed (HTTP 5", MAYBE),
    "busy_with_a_message": Fault(
        sends_bytes(answer(MESSAGE, status="503 Service Unavailable")), BUSY, MAYBE
    ),
    "proxy_was_left": Fault(
        sends_status("499 Closed"), "The server refused the request (HTTP 4", MAYBE
    ),
    "accepted": Fault(
        sends_bytes(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"), NOT_MCP, MAYBE
    ),
    "values": Fault(content(structuredContent={"a": [{}] * 60_000}), LARGE, YES),
    "blocks": Fault(content(*[{"type": "text", "text": ""}] * 1001), LARGE, YES),
    "structured": Fault(content(structuredContent={"a": "x" * 600_000}), LARGE, YES),
    "wrong_content": Fault(content({"type": "video"}), INVALID, YES),
    "wrong_picture": Fault(
        content({"type": "image", "data": "%%%", "mimeType": "image/png"}), INVALID, YES
    ),
}


@dataclass(frozen=True)
class Row:
    """A row of the table that quotes what the card says."""

    sentence: str
    has_run: str
    waits: bool


def documented() -> Sequence[Row]:
    table = DOCUMENT.read_text().partition("## When something fails")[2].partition("\n## ")[0]
    lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in table.splitlines() if "| “" in line]
    return [
        Row(re.findall("“(.*?)”", says)[0], has_run, waits == "waits")
        for _, says, has_run, waits in lines
    ]


def test_table_in_the_documentation_is_that_of_the_test() -> None:
    expected = {
        (fault.sentence, fault.has_run, fault.has_run == MAYBE) for fault in FAULTS.values()
    }

    assert {(row.sentence, row.has_run, row.waits) for row in documented()} == expected


def make_tool(team: Team, name: str, url: str) -> Tool:
    server = Server.objects.create(team=team, name=name, address=url)
    tool = Tool(
        team=team,
        server=server,
        name=name,
        remote_name=name,
        kind=ToolKind.MCP,
        rule=ToolRule.AUTO,
        schema={"type": "object"},
        is_read_only=FAULTS[name].is_read_only,
    )
    tool.seen_digest = tool_digest(tool)
    tool.save()
    return tool


def rebind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name ``rebind.test`` leads to another address from the second time on."""
    found, usual = iter(["127.0.0.1"]), addresses._getaddrinfo

    def lookup(host: str, port: int) -> list[Any]:
        if host != "rebind.test":
            return usual(host, port)
        return [(None, None, None, None, (next(found, "169.254.169.254"), port))]

    monkeypatch.setattr(addresses, "_getaddrinfo", lookup)


async def server_of(stack: AsyncExitStack, name: str) -> tuple[ToldServer, str]:
    """The server, and the address that calls use."""
    fault = FAULTS.get(name) or VARIANTS[name]
    server = await stack.enter_async_context(ToldServer(tools_call=fault.reply))
    if name == "gone":
        await server.__aexit__(None, None, None)
    is_rebound = name == "rebound"
    return server, re.sub("//[^:]+:", "//rebind.test:", server.url) if is_rebound else server.url


def end_time(runner: ToolRunner, name: str) -> None:
    """The time of the call of this tool is over."""
    for execution, _ in runner._executions.values():
        if execution.call.address.name == name:
            execution.limit.reschedule(asyncio.get_running_loop().time())


def are_over(run: Run) -> bool:
    found = statuses(run)
    return bool(found) and all(state != QuestionStatus.RUNNING for state, _ in found)


def cards_of(run: Run, reader: User) -> dict[str, str]:
    """The texts of the cards, by the name of the tool."""
    cards = cards_by_run([Run.objects.get(pk=run.pk)])[run.pk]
    return {
        card.question.body["tool"]: text_of(
            html.fromstring(
                render_to_string(
                    "questions/_card.html", {"asked": card, "user": reader, "may_write": True}
                )
            )
        )
        for card in cards
    }


@pytest.mark.slow
async def test_each_fault_of_a_call(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    team: Team,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    started: list[ToolRunner] = []

    def make(client: Client, threads: DatabaseThreads) -> ToolRunner:
        started.append(ToolRunner(client=client, threads=threads))
        return started[0]

    # Each round and each look costs as much as a call.
    rounds = replace(RUN_CALLS, seconds=LOOK_SECONDS, make=make)
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", rounds)
    rebind(monkeypatch)
    fake.script(
        calling(*(wire_call(at, f"c{at}", name, "{}") for at, name in enumerate(FAULTS))),
        saying("Done."),
    )
    async with AsyncExitStack() as stack:
        found = {name: await server_of(stack, name) for name in FAULTS}
        servers = {name: server for name, (server, _) in found.items()}
        tools = [await threads.call(make_tool, team, name, url) for name, (_, url) in found.items()]
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=tools
        )
        await start_runner()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await servers["never_answers"].reached.wait()
            end_time(started[0], "never_answers")
            while not await threads.call(are_over, run):
                await asyncio.sleep(LOOK_SECONDS)

    rows = {str(each.question.body["tool"]): each for each in await threads.call(calls_of, run)}
    cards = await threads.call(cards_of, run, alice)
    for name, fault in FAULTS.items():
        with subtests.test(msg=name):
            call, waits = rows[name], fault.has_run == MAYBE and not fault.is_read_only
            assert fault.sentence in cards[name], cards[name]
            assert "\u202e" not in cards[name]
            assert (call.status == CallStatus.UNKNOWN) is waits
            assert (call.question.status == QuestionStatus.OPEN) is waits
            assert ("May have run" in cards[name]) is waits
            assert servers[name].calls == (0 if name in ("gone", "rebound") else 1)

    assert await threads.call(follow_up_of, run) is None
    for call in rows.values():
        if call.status == CallStatus.UNKNOWN:
            await threads.call(calls.go_on_without, alice, call)
    told = await threads.call(given_to, run)
    assert all(
        fault.sentence in told
        for name, fault in FAULTS.items()
        if fault.has_run != MAYBE and name != "fails"
    )
    assert "No water" in told
    assert "The server says: No such <b>gate</b>" in told


async def test_client_tells_each_fault(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    rebind(monkeypatch)
    # These two are no failures of the client.
    others = ("never_answers", "fails")
    for name, fault in {**FAULTS, **VARIANTS}.items():
        if name in others:
            continue
        with subtests.test(msg=name):
            async with AsyncExitStack() as stack:
                server, url = await server_of(stack, name)
                failed = await caller.failure(url)

            assert fault.sentence in str(failed)
            assert "\u202e" not in str(failed)
            assert failed.may_have_run is (fault.has_run == MAYBE)
            assert server.calls == (0 if name in ("gone", "rebound") else 1)
