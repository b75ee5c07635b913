"""What a call costs that Tributary runs, beside a direct call of the MCP library, on both databases.

``make bench BENCH=tools``. Milliseconds of a call at a server in the same process, and their ratio to a call of the
library alone: by the client; of one answer that is alone, from the claim to the stored result; and of answers that are
all asked for at once, with rounds of one call. The client also listens for changes of the server's list of tools, with a
subscription or in the stream of the session: the last column is without that.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

import msgspec
from django.core.management import call_command

from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.core.threads import DatabaseThreads
from chat.models import (
    Membership,
    Run,
    Team,
    TeamRole,
    Tool,
    ToolCall,
    ToolKind,
    ToolRule,
    ToolServer,
    Upstream,
    User,
)
from chat.runs.runner import Runner
from chat.tools.definitions import tool_digest
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from tests.bench.both_databases import measured_on_both
from tests.runs.waiting import calling, saying, wire_call
from tests.support.upstream.fake import FakeUpstream

if TYPE_CHECKING:
    from tests.tools.mcp.servers import OwnServer

ANSWERS, ROUNDS = 50, 3
ALONE_ROUNDS = 20
DIRECT_CALLS = 50
PATIENCE_SECONDS = 300.0


def report() -> str:
    lines = [
        f"Tools: milliseconds of a call; {ANSWERS} answers at once with {ROUNDS} rounds each",
        "",
        f"{'':<12}{'direct':>8}{'alone':>16}{'at once':>16}{'complete':>10}{'calls':>7}{'seconds':>9}",
    ]
    eras: dict[str, Any] = {}
    for name, found in measured_on_both("tests.bench.tools"):
        eras = eras or found["eras"]
        lines.append(
            f"{name:<12}{found['direct']:>8.1f}{_beside(found, 'alone')}{_beside(found, 'at_once')}"
            f"{found['complete']:>7}/{ANSWERS}{found['calls']:>7}{found['seconds']:>9.1f}"
        )
    lines += ["", f"{'The client':<12}{'direct':>8}{'call':>16}{'not listening':>16}"]
    for era, found in eras.items():
        lines.append(
            f"{era:<12}{found['direct']:>8.1f}{_beside(found, 'call')}{_beside(found, 'deaf')}"
        )
    return "\n".join(lines)


def _beside(found: dict[str, Any], name: str) -> str:
    """The figure, and its ratio to that of the direct call."""
    ratio = f"({found[name] / found['direct']:.1f}x)"
    return f"{found[name]:>8.1f}{ratio:>8}"


# --- in the process of one database -------------------------------------------------------------


class Site:
    """One person with a tool, and a runner."""

    def __init__(self, fake: FakeUpstream, address: str) -> None:
        self.fake = fake
        self.user = User.objects.create_user("p@example.org", None, name="Person")
        self.team = Team.objects.create(name="Team")
        Membership.objects.create(team=self.team, user=self.user, role=TeamRole.OWNER)
        self.upstream = Upstream.objects.create(
            name="Fake",
            dialect="openai_chat",
            base_url=f"{fake.url}/v1",
            concurrency_limit=1000,
            model_list=[{"id": "m", "label": "M", "detail": {}, "is_typed": False}],
        )
        server = ToolServer.objects.create(team=self.team, name="Harbor", address=address)
        self.tool = Tool(
            team=self.team,
            server=server,
            name="level",
            remote_name="level",
            kind=ToolKind.MCP,
            rule=ToolRule.AUTO,
            schema={"type": "object"},
            is_read_only=True,
        )
        self.tool.seen_digest = tool_digest(self.tool)
        self.tool.save()

    def ask(self, count: int, rounds: int) -> None:
        """Queues answers that each call the tool in so many rounds."""
        call = calling(wire_call(0, "c", "level", '{"station": "Bergen"}'))
        self.fake.script(
            msgspec.structs.replace(call, times=count * rounds),
            msgspec.structs.replace(saying("Done."), times=count),
        )
        for number in range(count):
            start_conversation(
                self.user,
                self.team,
                text=f"Question {number}",
                choice=ModelChoice(upstream=self.upstream, model="m"),
                idempotency_key=uuid4(),
                tools=[self.tool],
            )


async def _measure() -> dict[str, Any]:
    # The library is not to be loaded for other benchmarks.
    from tests.tools.mcp.servers import MODERN, OwnServer, serving

    threads = DatabaseThreads("bench", size=1)
    own = OwnServer()
    async with serving(own) as address, FakeUpstream() as fake:
        direct = await _direct(address)
        eras = {era: await _of_client(own, era) for era in (MODERN, "2025-11-25")}
        own.calls.clear()
        site = await threads.call(Site, fake, address)
        runner = Runner()
        await runner.start()
        await threads.call(site.ask, 1, ALONE_ROUNDS)
        await _until_complete(threads, 1)
        alone = await threads.call(_milliseconds, 0)
        began = time.monotonic()
        await threads.call(site.ask, ANSWERS, ROUNDS)
        complete = await _until_complete(threads, 1 + ANSWERS) - 1
        seconds = time.monotonic() - began
        at_once = await threads.call(_milliseconds, ALONE_ROUNDS)
        await runner.drain(0)
    await threads.close()
    return {
        "direct": direct,
        "alone": alone,
        "at_once": at_once,
        "complete": complete,
        "calls": own.calls.count("level") - ALONE_ROUNDS,
        "eras": eras,
        "seconds": seconds,
    }


async def _direct(address: str) -> float:
    """Of the library alone, with a connection for each call, as a runner has."""
    from mcp import Client

    async def call() -> None:
        async with Client(address) as client:
            await client.call_tool("level", {"station": "Bergen"})

    return await _median(call)


async def _of_client(own: OwnServer, era: str) -> dict[str, float]:
    """The cost of our client alone, at a server that speaks this version and tells changes of its list."""
    from tests.tools.mcp.conftest import Caller
    from tests.tools.mcp.servers import serving

    async with serving(own, era) as address, open_client(AddressPolicy.parse("any")) as client:
        caller = Caller(client)

        async def call() -> None:
            await caller.call(address, "level", {"station": "Bergen"})

        direct, listening = await _direct(address), await _median(call)
        with (
            patch("chat.tools.mcp.client.subscribed", lambda *_: nullcontext()),
            patch("chat.tools.mcp.transport.LISTEN_SECONDS", 0),
        ):
            return {"direct": direct, "call": listening, "deaf": await _median(call)}


async def _median(call: Callable[[], Awaitable[None]]) -> float:
    """Milliseconds."""
    took = []
    for _ in range(DIRECT_CALLS):
        began = time.perf_counter()
        await call()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


async def _until_complete(threads: DatabaseThreads, count: int) -> int:
    """How many answers are complete, when all are or time is over."""
    completed = Run.objects.filter(status="completed")
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := await threads.call(completed.count)) < count and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return found


def _milliseconds(after: int) -> float:
    """The median of the calls but the first ``after``, from the claim to the result."""
    rows = ToolCall.objects.order_by("pk").values_list("claimed_at", "finished_at")[after:]
    return statistics.median(1000 * (end - start).total_seconds() for start, end in rows)


def measure() -> dict[str, Any]:
    call_command("migrate", verbosity=0)
    return asyncio.run(_measure())


if __name__ == "__main__":
    print(json.dumps(measure()))
