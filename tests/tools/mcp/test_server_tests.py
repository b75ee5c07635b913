"""The test of a tool server by a runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DataError
from django.utils import timezone

from chat.core.threads import DatabaseThreads
from chat.models import Team, Tool, ToolRule, ToolServer, User
from chat.tools import servers
from chat.tools.mcp.listing import ToolListing
from chat.tools.server_page import state_of
from chat.tools.server_tests import TEST_SERVERS, claim_due, end_test, run_test
from tests.support.hostile_server import Peer
from tests.tools.mcp.conftest import KEY, Caller
from tests.tools.mcp.servers import OwnServer, ToldServer, answered, listed, sends, serving, tool_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def threads() -> AsyncIterator[DatabaseThreads]:
    threads = DatabaseThreads("test", size=2)
    yield threads
    await threads.close()


@pytest.fixture
def server(administrator: User, team: Team) -> ToolServer:
    return servers.add_server(
        administrator, team, name="Harbor", address="http://unused.test/", headers={}
    )


async def point_at(server: ToolServer, url: str, **values: Any) -> None:
    await ToolServer.objects.filter(pk=server.pk).aupdate(address=url, **values)


async def round_of(caller: Caller, threads: DatabaseThreads) -> None:
    await TEST_SERVERS.make(caller.client, threads)()


async def test_runner_reads_the_tools(
    caller: Caller, threads: DatabaseThreads, server: ToolServer
) -> None:
    async with serving(OwnServer()) as url:
        await point_at(server, url)
        await round_of(caller, threads)

    await server.arefresh_from_db()
    assert [(step["name"], step["outcome"]) for step in server.test] == [
        ("connect", "ok"),
        ("sign_in", "ok"),
        ("tools", "ok"),
    ]
    assert server.test[2]["text"] == "The server has 5 tools."
    assert (state_of(server), server.protocol) == ("ok", "2026-07-28")
    assert server.tested_at is not None
    rules = [rule async for rule in server.tools.values_list("rule", flat=True)]
    assert rules == [ToolRule.OFF] * 5


async def test_failure_is_a_step_and_keeps_the_tools(
    caller: Caller, threads: DatabaseThreads, server: ToolServer
) -> None:
    async with ToldServer(tools_list=sends(listed(tool_of("a")))) as told:
        await point_at(server, told.url)
        await round_of(caller, threads)
    await sync_to_async(servers.queue_test)(server)
    await round_of(caller, threads)

    await server.arefresh_from_db()
    assert [step["outcome"] for step in server.test] == ["failed"]
    assert "refused" in server.test[0]["text"]
    assert state_of(server) == "failed"
    assert await server.tools.acount() == 1


async def test_steps_are_shown_while_it_runs(
    caller: Caller, threads: DatabaseThreads, server: ToolServer
) -> None:
    go_on = asyncio.Event()

    async def waits(peer: Peer, message: dict[str, Any]) -> None:
        await go_on.wait()
        await sends(listed())(peer, message)

    async with ToldServer(tools_list=waits) as told:
        await point_at(server, told.url)
        working = asyncio.ensure_future(round_of(caller, threads))
        while len(server.test) < 3:
            await asyncio.sleep(0.02)
            await server.arefresh_from_db()
        shown = [(step["name"], step["outcome"]) for step in server.test]
        state = state_of(server)
        go_on.set()
        await working

    assert shown == [("connect", "ok"), ("sign_in", "ok"), ("tools", "running")]
    assert state == "testing"


async def test_stopped_runner_gives_the_test_back(
    caller: Caller, threads: DatabaseThreads, server: ToolServer
) -> None:
    arrived = asyncio.Event()

    async def waits(peer: Peer, message: dict[str, Any]) -> None:
        arrived.set()
        await peer.wait_gone()

    async with ToldServer(tools_list=waits) as told:
        await point_at(server, told.url)
        working = asyncio.ensure_future(round_of(caller, threads))
        await arrived.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    await server.arefresh_from_db()
    assert server.test_claimed_at is None
    assert server.test_queued_at is not None


def test_two_runners_make_one_test(server: ToolServer) -> None:
    first, second = claim_due(), claim_due()

    assert (len(first), len(second)) == (1, 0)
    ToolServer.objects.update(test_claimed_at=timezone.now() - timedelta(minutes=10))
    assert len(claim_due()) == 1


def test_result_of_a_server_that_was_changed_or_removed_is_dropped(
    administrator: User, server: ToolServer
) -> None:
    [test] = claim_due()
    servers.change_server(
        administrator, server, name="Harbor", address="http://new.test/", headers=None
    )
    end_test(test, None)
    server.refresh_from_db()
    assert server.test_queued_at is not None
    [test] = claim_due()

    servers.remove_server(administrator, server)
    end_test(test, None)

    # Nothing revives a server that was removed.
    assert not ToolServer.objects.exists()
    assert claim_due() == []


def test_servers_whose_tools_are_used_are_read_again(server: ToolServer) -> None:
    old = timezone.now() - timedelta(hours=2)
    ToolServer.objects.update(test_queued_at=None, tested_at=old, list_expires_at=None)
    tool = Tool.objects.create(team=server.team, name="a", server=server, rule=ToolRule.ASK)

    [test] = claim_due()
    end_test(test, None)
    assert claim_due() == []
    for unused in ({"is_enabled": False}, {"is_enabled": True, "is_demo": True}):
        ToolServer.objects.update(list_expires_at=old, **unused)
        assert claim_due() == []
    ToolServer.objects.update(is_demo=False)
    [test] = claim_due()
    end_test(test, None)
    Tool.objects.filter(pk=tool.pk).update(rule=ToolRule.OFF)
    ToolServer.objects.update(list_expires_at=old)
    assert claim_due() == []


def test_server_that_fails_is_read_less_and_less_often(server: ToolServer) -> None:
    Tool.objects.create(team=server.team, name="a", server=server, rule=ToolRule.ASK)
    read = timezone.now() - timedelta(hours=2)
    ToolServer.objects.update(
        test_queued_at=None, tested_at=read, list_expires_at=read + timedelta(minutes=5)
    )
    pauses = []
    for _ in range(5):
        [test] = claim_due()
        end_test(test, None)
        server.refresh_from_db()
        pauses.append((server.list_expires_at - server.tested_at).total_seconds() / 60)
        hours = timedelta(hours=2)
        ToolServer.objects.update(
            tested_at=server.tested_at - hours, list_expires_at=server.list_expires_at - hours
        )

    assert pauses == [10, 20, 40, 60, 60]


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(0, 3600), (120_000, 120), (1, 60), (10**12, 24 * 3600)],
)
async def test_list_is_read_again_when_it_is_no_longer_fresh(
    caller: Caller,
    threads: DatabaseThreads,
    server: ToolServer,
    milliseconds: int,
    seconds: int,
) -> None:
    async def lists(peer: Peer, message: dict[str, Any]) -> None:
        is_first = told.methods.count("tools/list") == 1
        tools = [tool_of("a", description="one" if is_first else "two")]
        await sends(listed(*tools, ttlMs=milliseconds))(peer, message)

    async with ToldServer(tools_list=lists) as told:
        await point_at(server, told.url)
        await round_of(caller, threads)
        await server.tools.aupdate(rule=ToolRule.AUTO, seen_digest="seen")
        await round_of(caller, threads)
        await server.arefresh_from_db()
        fresh = server.list_expires_at - server.tested_at
        assert told.methods.count("tools/list") == 1
        await point_at(server, told.url, list_expires_at=timezone.now())
        await round_of(caller, threads)

    assert fresh == timedelta(seconds=seconds)
    assert told.methods.count("tools/list") == 2
    tool = await server.tools.aget()
    assert (tool.rule, tool.description, tool.offered["description"]) == ("off", "one", "two")


async def test_list_of_several_pages_is_fresh_as_long_as_its_first_stale_page(
    caller: Caller,
) -> None:
    async def lists(peer: Peer, message: dict[str, Any]) -> None:
        is_first = "cursor" not in message["params"]
        page = (
            listed(tool_of("a"), ttlMs=300_000, nextCursor="more")
            if is_first
            else listed(tool_of("b"), ttlMs=90_000, cacheScope="private")
        )
        await sends(page)(peer, message)

    async with ToldServer(tools_list=lists) as told:
        listing = await caller.list(told.url)

    assert [tool.name for tool in listing.tools] == ["a", "b"]
    assert (listing.fresh_seconds, listing.is_public) == (90, False)


async def test_error_of_ours_ends_the_test_without_its_text(
    caller: Caller,
    threads: DatabaseThreads,
    server: ToolServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(request: object) -> None:
        raise KeyError(KEY)

    monkeypatch.setattr("chat.tools.server_tests.list_tools", fails)
    [test] = await threads.call(claim_due)
    await run_test(caller.client, threads, test)

    await server.arefresh_from_db()
    assert server.test[-1]["outcome"] == "failed"
    assert KEY not in caplog.text
    assert KEY not in str(server.test)


async def test_report_that_the_database_refuses_stops_no_other_test(
    caller: Caller,
    threads: DatabaseThreads,
    server: ToolServer,
    administrator: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(server: ToolServer, listing: ToolListing) -> None:
        if server.name == "Harbor":
            raise DataError("invalid input syntax")

    monkeypatch.setattr("chat.tools.server_tests.store_listing", refuses)
    other = await sync_to_async(servers.add_server)(
        administrator, server.team, name="Other", address="http://unused.test/", headers={}
    )
    async with ToldServer(tools_list=sends(listed())) as told:
        await point_at(server, told.url)
        await point_at(other, told.url)
        await round_of(caller, threads)

    await server.arefresh_from_db()
    await other.arefresh_from_db()
    assert (state_of(server), state_of(other)) == ("failed", "ok")


async def test_numbers_that_no_database_stores_are_left_out(
    caller: Caller, threads: DatabaseThreads, server: ToolServer
) -> None:
    async def lists(peer: Peer, message: dict[str, Any]) -> None:
        data = answered(
            listed(tool_of("a", inputSchema={"type": "object", "a": ["1", "2", "3"]})), message
        )
        await peer.send(data.replace(b'["1", "2", "3"]', b"[1e400,NaN,  1]"))

    async with ToldServer(tools_list=lists) as told:
        await point_at(server, told.url)
        await round_of(caller, threads)

    tool = await server.tools.aget()
    assert tool.schema == {"type": "object", "a": [None, None, 1]}
