"""Answers whose calls a runner makes at an MCP server, from the model's request to the next one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from chat import events as canonical
from chat.conversations.actions.conversation import stop_run
from chat.models import Run, Team, Tool, ToolKind, ToolRule, ToolServer, User
from chat.runs import runner as runners
from chat.tools import claims
from chat.tools.claims import ClaimedCall, claim_due
from chat.tools.definitions import tool_digest
from chat.tools.runner import RUN_CALLS
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import calling, saying, wire_call
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import calls_of, follow_up_of, statuses
from tests.tools.mcp.servers import OwnServer, ToldServer, sends, serving, text_result

Begin = Callable[..., Awaitable[Run]]


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))


def make_tool(team: Team, url: str, name: str, **fields: object) -> Tool:
    server, _ = ToolServer.objects.get_or_create(team=team, name="Harbor", address=url)
    tool = Tool(
        team=team,
        server=server,
        name=name,
        remote_name=name,
        kind=ToolKind.MCP,
        rule=ToolRule.AUTO,
        schema={"type": "object"},
        **fields,
    )
    tool.seen_digest = tool_digest(tool)
    tool.save()
    return tool


@pytest.fixture
def begin(fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, team: Team) -> Begin:
    async def begin(url: str, *, seen: bool = True, **arguments: dict[str, object]) -> Run:
        """Queues an answer that calls the tools of these names."""
        tools = [await threads.call(make_tool, team, url, name) for name in arguments]
        if not seen:
            await threads.call(Tool.objects.update, description="Gives away what it finds")
        wanted = [
            wire_call(at, f"c{at}", name, json.dumps(given))
            for at, (name, given) in enumerate(arguments.items())
        ]
        fake.script(calling(*wanted), saying("Done."))
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=tools
        )
        await start_runner()
        return run

    return begin


async def test_parallel_calls_of_one_server(begin: Begin, fake: FakeUpstream) -> None:
    own = OwnServer()
    async with serving(own) as url:
        run = await begin(url, level={"station": "Bergen"}, picture={}, broken={})
        await until(lambda: follow_up_of(run) is not None)
        follow_up = await threads.call(follow_up_of, run)
        follow_up = await until_ended(follow_up)

    assert text_of(follow_up) == "Done."
    items = canonical.decode_result(follow_up.result).output[:3]
    assert [each.status for each in items] == ["done", "done", "failed"]
    assert "2.31 m at Bergen" in items[0].output
    assert (items[0].execution.executor, items[0].execution.server) == ("mcp", "Harbor")
    files = await threads.call(lambda: [each.file.media_type for each in run.files.all()])
    assert files == ["image/png"]
    assert own.calls.count("level") == 1


async def test_stopped_call_is_cancelled_at_its_server(
    begin: Begin, alice: User, fake: FakeUpstream
) -> None:
    own = OwnServer()
    async with serving(own) as url:
        run = await begin(url, forever={})
        await own.waiting.wait()

        assert await threads.call(stop_run, alice, run)

        await own.was_cancelled.wait()
    assert await threads.call(statuses, run) == [("expired", "failed")]


async def test_call_of_a_server_that_was_disabled_since_never_reaches_it(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disable_and_claim(*args: Any) -> list[ClaimedCall]:
        ToolServer.objects.update(is_enabled=False)
        return claim_due(*args)

    monkeypatch.setattr(claims, "claim_due", disable_and_claim)
    own = OwnServer()
    async with serving(own) as url:
        run = await begin(url, level={"station": "Bergen"})
        await until(lambda: follow_up_of(run) is not None)

    assert await threads.call(statuses, run) == [("declined", "refused")]
    assert own.calls == []


async def test_definition_that_nobody_has_seen_is_not_called(begin: Begin) -> None:
    own = OwnServer()
    async with serving(own) as url:
        run = await begin(url, seen=False, level={"station": "Bergen"})
        await until(lambda: follow_up_of(run) is not None)

    assert await threads.call(statuses, run) == [("declined", "refused")]
    assert own.calls == []


async def test_call_has_the_trace_of_its_run(begin: Begin) -> None:
    async with ToldServer(tools_call=sends(text_result())) as told:
        run = await begin(told.url, any={})
        await until(lambda: follow_up_of(run) is not None)

    [sent] = [request for request in told.requests if b"tools/call" in request.body]
    trace = json.loads(sent.body)["params"]["_meta"]["traceparent"]
    [call] = await threads.call(calls_of, run)
    assert trace == f"00-{run.public_id.hex}-{call.question.public_id.hex[16:]}-01"
