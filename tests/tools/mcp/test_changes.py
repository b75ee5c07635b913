"""Notices of servers that their list of tools has changed, in the middle of a call."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import mcp_types as types
import pytest
from django.utils import timezone
from mcp.server.mcpserver import Context

from chat.models import Team, Tool, ToolRule, ToolServer
from chat.runs import runner as runners
from chat.tools.server_lists import expire_list
from chat.tools.server_tests import TEST_SERVERS, claim_due, end_test
from tests.runs.helpers import threads, until
from tests.support.hostile_server import CHUNKED_HEAD, Peer, chunk
from tests.tools.calling import calls_of, follow_up_of
from tests.tools.mcp.conftest import Caller
from tests.tools.mcp.servers import (
    DISCOVERED,
    ERAS,
    MODERN,
    SESSION,
    OwnServer,
    Reply,
    ToldServer,
    refused,
    sends,
    serving,
    text_result,
)
from tests.tools.mcp.test_rounds import Begin, _frequent_rounds, begin  # noqa: F401


class GrowingServer(OwnServer):
    """Its tool ``grow`` adds another one, tells so in the way of its version until it is heard, and ends when it is
    let."""

    def __init__(self, era: str) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

        @self.library.tool()
        async def grow(ctx: Context) -> str:
            """Adds a tool."""
            self.calls.append("grow")
            self.library.add_tool(lambda: "grown", name="grown", description="New")
            if era != MODERN:
                notice = types.ToolListChangedNotification()
                await ctx.session.send_notification(notice, related_request_id=ctx.request_id)
            while not self.may_end.is_set():
                # Nobody may have subscribed yet: the call doesn’t wait for it.
                if era == MODERN:
                    await ctx.notify_tools_changed()
                await asyncio.sleep(0.02)
            return "grown"


@pytest.mark.parametrize("era", ERAS)
async def test_notice_is_heard_while_the_call_is_open(caller: Caller, era: str) -> None:
    own = GrowingServer(era)
    async with serving(own, era) as url:
        calling = asyncio.ensure_future(caller.call(url, "grow"))
        async with asyncio.timeout(60):
            while not caller.changes:
                await asyncio.sleep(0.02)
        own.may_end.set()
        output = await calling

    assert output.text == "grown"
    assert caller.changes >= 1
    assert own.calls == ["grow"]


async def test_notice_is_heard_in_the_stream_of_a_session(caller: Caller) -> None:
    is_heard = asyncio.Event()

    async def tells(peer: Peer, message: dict[str, Any]) -> None:
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await peer.send(CHUNKED_HEAD + chunk(f"data: {json.dumps(notice)}\n\n".encode()))
        await peer.wait_gone()

    async def answers_when_heard(peer: Peer, message: dict[str, Any]) -> None:
        await is_heard.wait()
        await sends(text_result())(peer, message)

    older = SESSION | {"GET": tells, "tools_call": answers_when_heard}
    async with ToldServer(**older) as told:
        calling = asyncio.ensure_future(caller.call(told.url, "any"))
        async with asyncio.timeout(60):
            while not caller.changes:
                await asyncio.sleep(0.02)
        is_heard.set()
        output = await calling

    assert (output.text, caller.changes) == ("done", 1)


async def refuses(peer: Peer, message: dict[str, Any]) -> None:
    await peer.send(refused(-32601, message))


async def is_silent(peer: Peer, message: dict[str, Any]) -> None:
    await peer.wait_gone()


@pytest.mark.parametrize("listen", [refuses, is_silent, sends({"resultType": "odd"})])
async def test_call_needs_no_subscription(caller: Caller, listen: Reply) -> None:
    has_subscribed = asyncio.Event()

    async def listens(peer: Peer, message: dict[str, Any]) -> None:
        has_subscribed.set()
        await listen(peer, message)

    async def answers(peer: Peer, message: dict[str, Any]) -> None:
        await has_subscribed.wait()
        await sends(text_result())(peer, message)

    discovered = {**DISCOVERED, "capabilities": {"tools": {"listChanged": True}}}
    async with ToldServer(
        server_discover=sends(discovered), subscriptions_listen=listens, tools_call=answers
    ) as told:
        output = await caller.call(told.url, "any")

    assert output.text == "done"
    assert (told.calls, told.methods.count("subscriptions/listen")) == (1, 1)


async def test_server_that_tells_nothing_is_not_asked(caller: Caller) -> None:
    async with ToldServer(tools_call=sends(text_result())) as told:
        await caller.call(told.url, "any")

    assert "subscriptions/listen" not in told.methods


async def test_list_is_read_again_before_the_call_ends(
    begin: Begin,  # noqa: F811
    team: Team,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Runners of tests get no notifications of other threads.
    frequent = replace(TEST_SERVERS, seconds=0.05)
    monkeypatch.setitem(runners._periodic_tasks, TEST_SERVERS.topic, frequent)
    own = GrowingServer(MODERN)
    old = timezone.now() - timedelta(hours=1)
    async with serving(own) as url:
        await ToolServer.objects.acreate(
            team=team,
            name="Harbor",
            address=url,
            tested_at=old,
            list_expires_at=old + timedelta(days=1),
        )
        run = await begin(url, grow={})

        await until(lambda: Tool.objects.filter(name="grown").exists())
        own.may_end.set()
        await until(lambda: follow_up_of(run) is not None)

    tool = await Tool.objects.aget(name="grown")
    assert tool.rule == ToolRule.OFF
    assert own.calls == ["grow"]


async def test_notices_make_one_reading_a_minute(begin: Begin) -> None:  # noqa: F811
    own = OwnServer()
    async with serving(own) as url:
        run = await begin(url, level={"station": "Bergen"})
        await until(lambda: follow_up_of(run) is not None)
    await threads.call(_check_readings, run)


def _check_readings(run: Any) -> None:
    [call] = calls_of(run)
    now = timezone.now()
    day = timedelta(days=1)
    rows = ToolServer.objects.filter(tools__calls=call)
    rows.update(tested_at=now, list_expires_at=now + day, test_queued_at=None)

    expire_list(call.pk)

    assert ToolServer.objects.get().list_expires_at == now + timedelta(seconds=60)
    assert claim_due() == []
    # A notice in the middle of a reading makes another one.
    ToolServer.objects.update(tested_at=now - day, list_expires_at=now - timedelta(seconds=1))
    [test] = claim_due()
    ToolServer.objects.update(list_expires_at=now + day)
    expire_list(call.pk)
    end_test(test, None)
    assert len(claim_due()) == 1
