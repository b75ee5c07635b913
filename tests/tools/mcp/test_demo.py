"""The demo's MCP server, spoken to by the real client, and its row at set-up."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings

from chat.accounts.actions.setup import set_up
from chat.demo import mcp_tasks
from chat.models import Team, Tool, ToolRule, ToolServer, User
from chat.questions.input_schema import fields_of
from chat.servers.actions.demo import ensure_demo_upstream
from chat.tools import servers
from chat.tools.demo import ensure_demo_tools
from chat.tools.kinds import Continuation, InputReply
from chat.tools.server_lists import store_listing
from tests.support.upstream.fake import FakeUpstream
from tests.tools.mcp.conftest import Caller

URL = "http://127.0.0.1:1"
RULES = {
    "river_level": ToolRule.AUTO,
    "set_gate": ToolRule.ASK,
    "survey_river": ToolRule.AUTO,
    "river_chart": ToolRule.AUTO,
    "book_passage": ToolRule.ASK,
    "dredge_river": ToolRule.ASK,
}


async def test_tools_of_the_demo_are_listed_and_run(caller: Caller) -> None:
    async with FakeUpstream(speed=0) as fake:
        url = f"{fake.url}/mcp"
        listing = await caller.list(url)
        level = await caller.call(url, "river_level", {"station": "Maxau"})
        nowhere = await caller.call(url, "river_level", {"station": "Atlantis"})
        gate = await caller.call(url, "set_gate", {"is_open": True})
        survey = await caller.call(url, "survey_river")
        chart = await caller.call(url, "river_chart")
        unknown = await caller.failure(url, "no_such_tool")

    assert [tool.name for tool in listing.tools] == list(RULES)
    assert level.text == "4.08 m at Maxau"
    assert nowhere.is_error
    assert gate.structured == {"gate": "open"}
    assert [step["message"] for step in caller.progress][-1] == "Measuring at Cologne"
    assert survey.text.count("\n") == 2
    assert [file.media_type for file in chart.files] == ["image/png"]
    assert "Unknown tool" in str(unknown)


async def test_demo_asks_for_a_passage(caller: Caller) -> None:
    content = {"lock": "north", "day": "2026-12-24", "passengers": 3, "extras": ["tug"]}
    arguments = {"ship": "Anna"}
    async with FakeUpstream(speed=0) as fake:
        url = f"{fake.url}/mcp"
        needed = await caller.needs(url, "book_passage", arguments=arguments)
        (asked,) = needed.asked
        texts = []
        for reply in (
            InputReply(action="accept", content=content),
            InputReply(action="decline"),
        ):
            before = Continuation(state=needed.state, replies={asked.key: reply})
            output = await caller.call(url, "book_passage", arguments, continuation=before)
            texts.append(output.text)

    names = [field.name for field in fields_of(asked.schema)]
    assert names == ["lock", "day", "passengers", "extras", "remark"]
    assert texts == [
        "Anna: North lock, 2026-12-24, 3 passengers.",
        "No passage was booked for Anna.",
    ]


async def test_demo_dredges_as_a_task(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    from chat.tools.mcp import tasks

    monkeypatch.setattr(tasks, "LEAST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(mcp_tasks, "POLL_MILLISECONDS", 1)
    async with FakeUpstream(speed=50) as fake:
        output = await caller.call(f"{fake.url}/mcp", "dredge_river")

    assert output.text == "The river bed is clear at all stations."
    assert len(caller.tasks) == 1
    assert "Dredging at Basel" in [step["message"] for step in caller.progress]


@pytest.mark.django_db
def test_first_team_gets_the_demo_tools_with_their_rules() -> None:
    with override_settings(DEMO_UPSTREAM_URL=URL):
        set_up(name="Ada", email="ada@a.test", password="x" * 12, team_name="River")

    server = ToolServer.objects.get()
    assert (server.is_demo, server.address) == (True, f"{URL}/mcp")
    # A test would load the library before the first call.
    assert server.test_queued_at is None
    assert {tool.name: tool.rule for tool in server.tools.all()} == RULES
    for tool in server.tools.all():
        assert tool.seen_digest


@pytest.mark.django_db(transaction=True)
async def test_reading_the_demo_changes_none_of_its_tools(caller: Caller) -> None:
    with override_settings(DEMO_UPSTREAM_URL=URL):
        await sync_to_async(set_up)(
            name="Ada", email="ada@a.test", password="x" * 12, team_name="River"
        )
    server = await ToolServer.objects.aget()

    async with FakeUpstream(speed=0) as fake:
        listing = await caller.list(f"{fake.url}/mcp")
    await sync_to_async(store_listing)(server, listing)

    tools = [tool async for tool in server.tools.all()]
    assert not any(servers.is_changed(tool) for tool in tools)
    assert {tool.name: tool.rule for tool in tools} == RULES


@pytest.mark.django_db
def test_older_installation_with_demo_models_gets_the_tools_once(
    team: Team, administrator: User
) -> None:
    Tool.objects.create(team=team, name="set_gate")
    with override_settings(DEMO_UPSTREAM_URL=URL):
        ensure_demo_tools()
        assert not ToolServer.objects.exists()
        ensure_demo_upstream()
        ensure_demo_tools()

        server = ToolServer.objects.get()
        assert server.team == team
        names = {*RULES, "demo_river_set_gate"} - {"set_gate"}
        assert {tool.name for tool in server.tools.all()} == names
        servers.remove_server(administrator, server)
        ensure_demo_tools()
        assert not ToolServer.objects.exists()


@pytest.mark.django_db
def test_address_follows_the_demo_and_goes_with_it(team: Team) -> None:
    server = ToolServer.objects.create(
        team=team, name="Demo", address="http://old:1/mcp", is_demo=True
    )
    with override_settings(DEMO_UPSTREAM_URL=URL):
        ensure_demo_tools()
        server.refresh_from_db()
        assert server.address == f"{URL}/mcp"
    with override_settings(DEMO_UPSTREAM_URL=""):
        ensure_demo_tools()
        server.refresh_from_db()
        assert (server.address, server.is_enabled) == ("", False)
    with override_settings(DEMO_UPSTREAM_URL=URL):
        ensure_demo_tools()
        server.refresh_from_db()
        assert (server.address, server.is_enabled) == (f"{URL}/mcp", True)
        ToolServer.objects.update(is_enabled=False)
        ensure_demo_tools()
        server.refresh_from_db()
        assert not server.is_enabled
