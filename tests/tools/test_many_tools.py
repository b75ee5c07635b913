"""Conversations with many tools: the model gets their names, finds the rest, and calls them by one function."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module

import pytest
from django.apps import apps
from pytest_django import Settings

from chat import events as canonical
from chat.conversations.actions import messages
from chat.conversations.actions.messages import definitions_of
from chat.core.errors import ActionRefused
from chat.dialects import DIALECTS
from chat.dialects.base import Prompt, ToolDefinition, UserTurn
from chat.models import (
    Conversation,
    Question,
    Run,
    Team,
    Tool,
    ToolKind,
    ToolRule,
    ToolServer,
    Upstream,
    User,
)
from chat.result import deferred_tools
from chat.result.deferred_tools import called, first_sentence, shown_call
from chat.runs import offered_tools
from chat.runs import runner as runners
from chat.runs.offered_tools import in_request
from chat.runs.segments import read_events
from chat.tools import actions, outcome, tool_search
from chat.tools.definitions import call_digest, tool_digest
from chat.tools.runner import RUN_CALLS
from chat.tools.tool_search import RESULT_BYTES, ToolIndex
from tests.exports.check import markdown_of
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import FUNCTION, asking, call, calling, ended, result_of, saying, wire_call
from tests.support.remote_host import RemoteHost
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import calls_of, follow_up_of, make_tool, statuses


def deferred(*names: str, description: str = "Reads it.") -> list[ToolDefinition]:
    return [ToolDefinition(name=n, description=description, is_deferred=True) for n in names]


def switch_on(conversation: Conversation, *tools: Tool) -> None:
    conversation.tools.set(tools)


def many_run(user: User, conversation: Conversation, upstream: Upstream, *items: object) -> Run:
    """A run that was offered the names of the conversation's tools, and ended with these calls."""
    run = asking(user, conversation, upstream)
    assert deferred_tools.has_deferred(run.tools)
    return ended(run, result_of(*items))


def wrapped(call_id: str, name: str, **arguments: object) -> canonical.ToolCallItem:
    return call(call_id, "call_tool", name=name, arguments=arguments)


@pytest.fixture(autouse=True)
def _two_definitions(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TOOLS_IN_REQUEST = 2
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))


# --- what the model gets ----------------------------------------------------------------------------


def test_few_definitions_are_sent_whole() -> None:
    tools = [ToolDefinition(name="b", schema={"type": "object"}), ToolDefinition(name="a")]

    assert in_request(tools) == tuple(tools)


def test_many_become_two_functions_with_a_bounded_list() -> None:
    find, every = "search_tools", [f"tool_{number:03}" for number in range(400)]

    short, long = in_request(deferred("a", "b")), in_request(deferred(*every))
    wide = in_request(deferred(*every, description="x" * 160))
    endless = in_request(deferred(*(f"{'n' * 60}{number}" for number in range(5000))))

    assert [tool.name for tool in short] == ["call_tool", find]
    assert "- a: Reads it.\n- b: Reads it." in short[0].description
    assert "- tool_399: Reads it." in long[0].description
    assert "- tool_399\n" in wide[0].description + "\n"
    assert "more, which search_tools finds" in endless[0].description
    for made in (short, long, wide, endless):
        assert len(made[0].description.encode()) < offered_tools.LIST_BYTES + 500
    assert in_request(deferred("a", "b")) == short


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ""),
        ("Reads a level. Then more.", "Reads a level."),
        ("Reads\n a  level", "Reads a level"),
        ("v1.2 of it. More", "v1.2 of it."),
        ("x" * 500, "x" * 159 + "…"),
    ],
)
def test_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_dialect_sends_the_two_functions(name: str) -> None:
    dialect = DIALECTS[name]
    prompt = Prompt(model="m", turns=(UserTurn.of("Hello"),), tools=in_request(deferred("gauge")))

    body = json.dumps(dialect.request(prompt).body, default=str)

    plain = json.dumps(dialect.request(replace(prompt, tools=())).body, default=str)
    assert ("call_tool" in body) == ("search_tools" in body) == (body != plain)
    assert "- gauge: Reads it." in body or body == plain


def test_definitions_are_deferred_by_number_and_by_size(
    team: Team, conversation: Conversation, settings: Settings
) -> None:
    tools = [make_tool(team, name, description="First. Second.") for name in ("c", "a", "b")]
    switch_on(conversation, *tools)

    names = [(each["name"], each["description"]) for each in definitions_of(conversation)]
    assert names == [("a", "First."), ("b", "First."), ("c", "First.")]
    settings.TOOLS_IN_REQUEST = 3
    assert not any(each.get("is_deferred") for each in definitions_of(conversation))
    large = {"type": "object", "properties": {"x": {"description": "y" * 60_000}}}
    Tool.objects.update(schema=large)
    assert all(each.get("is_deferred") for each in definitions_of(conversation))
    assert len(json.dumps(definitions_of(conversation))) < 1000
    with pytest.raises(ActionRefused, match="too large"):
        definitions_of(conversation, for_client=True)


@pytest.mark.parametrize(
    ("tool", "arguments", "found"),
    [
        ("call_tool", {"name": "a", "arguments": {"x": 1}}, ("a", {"x": 1})),
        ("call_tool", {"name": "a", "arguments": '{"x": 1}'}, ("a", {"x": 1})),
        ("call_tool", {"name": "a"}, ("a", {})),
        ("call_tool", {"name": "a", "arguments": ""}, ("a", {})),
        ("call_tool", {"name": "a", "arguments": [1]}, None),
        ("call_tool", {"name": "a", "arguments": "{"}, None),
        (
            "call_tool",
            {"name": "a", "arguments": r'{"x\u0000": "q\u0000"}'},
            ("a", {"x\u2400": "q\u2400"}),
        ),
        ("call_tool", {"name": "a", "arguments": r'{"x": "\ud800"}'}, ("a", {"x": "\ufffd"})),
        ("call_tool", {"name": "a", "arguments": '{"x":' * 950 + "1" + "}" * 950}, None),
        ("call_tool", {"name": 5, "arguments": {}}, None),
        ("call_tool", {"name": "", "arguments": {}}, None),
        ("call_tool", [], None),
        ("a", {"name": "b", "arguments": {}}, None),
    ],
)
def test_call_names_its_tool(tool: str, arguments: object, found: object) -> None:
    assert called(tool, arguments) == found


def test_call_of_another_server_is_shown_as_it_is() -> None:
    given = {"name": "a", "arguments": {"x": 1}}

    assert shown_call("call_tool", given, FUNCTION) == ("a", {"x": 1})
    elsewhere = canonical.ProviderInfo(type="mcp", server_label="x")
    assert shown_call("call_tool", given, elsewhere) == ("call_tool", given)


@pytest.mark.parametrize("are_deferred", [True, False])
def test_export_names_the_tool_only_of_an_answer_with_deferred_ones(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream, are_deferred: bool
) -> None:
    count = 3 if are_deferred else 1
    switch_on(conversation, *(make_tool(team, name) for name in ("level", "gate", "tide")[:count]))
    item = wrapped("c1", "level", city="Oslo")
    ended(asking(alice, conversation, upstream), result_of(item))

    text = markdown_of(alice, conversation)

    assert ("Tool call: level" in text) == are_deferred
    assert ("Tool call: call\\_tool" in text or "Tool call: call_tool" in text) != are_deferred


# --- calls ------------------------------------------------------------------------------------------


def test_call_is_that_of_the_named_tool(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    names = ("ask_me", "runs", "off", "not_enabled", "other")
    rules = (ToolRule.ASK, ToolRule.AUTO, ToolRule.ASK, ToolRule.AUTO, ToolRule.ASK)
    tools = {n: make_tool(team, n, rule=rule) for n, rule in zip(names, rules, strict=True)}
    switch_on(conversation, *(tools[name] for name in names if name != "not_enabled"))
    run = asking(alice, conversation, upstream)
    Tool.objects.filter(name="off").update(rule=ToolRule.OFF)

    run = ended(
        run,
        result_of(
            wrapped("c1", "ask_me", city="Oslo"),
            wrapped("c2", "runs", city="Oslo"),
            wrapped("c3", "off"),
            wrapped("c4", "not_enabled"),
            wrapped("c5", "unknown"),
            call("c6", "call_tool", name=["x"]),
            # Some models call a tool by its own name.
            call("c7", "other", city="Oslo"),
        ),
    )

    assert statuses(run) == [
        ("open", "approval"),
        ("running", "queued"),
        *[("declined", "refused")] * 4,
        ("open", "approval"),
    ]
    first, second, *_ = calls_of(run)
    assert first.tool == tools["ask_me"]
    assert first.definition_digest == call_digest(tools["ask_me"])
    assert first.arguments == second.arguments == {"city": "Oslo"}
    assert first.question.body["tool"] == "ask_me"
    assert first.question.body["arguments"] == {"city": "Oslo"}


def test_search_answers_itself_and_the_answer_goes_on(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    tools = [make_tool(team, name) for name in ("level", "gate", "tide")]
    switch_on(conversation, *tools)

    run = many_run(alice, conversation, upstream, call("c1", "search_tools", query="level"))

    assert statuses(run) == [("answered", "done")]
    follow_up = follow_up_of(run)
    assert follow_up is not None
    assert deferred_tools.has_deferred(follow_up.tools)
    (given,) = follow_up.inputs
    assert [each["name"] for each in json.loads(given["output"])["tools"]] == ["level"]


def test_search_beside_a_call_waits_for_it(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(conversation, *(make_tool(team, name) for name in ("level", "gate", "tide")))
    items = (call("c1", "search_tools", query="x"), wrapped("c2", "gate", city="Oslo"))

    run = many_run(alice, conversation, upstream, *items)

    assert statuses(run) == [("answered", "done"), ("open", "approval")]
    assert follow_up_of(run) is None


def test_endless_searches_end(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream, settings: Settings
) -> None:
    settings.TOOL_ROUNDS = 2
    switch_on(conversation, *(make_tool(team, name) for name in ("level", "gate", "tide")))
    run = many_run(alice, conversation, upstream, call("c1", "search_tools", query="x"))
    second = follow_up_of(run)
    assert second is not None

    second = ended(second, result_of(call("c2", "search_tools", query="x")))

    assert follow_up_of(second) is None
    assert "too often" in Run.objects.get(pk=second.pk).notes[-1]


def test_searches_of_one_response_read_names_once_and_few_schemas(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ToolServer.objects.create(team=team, name="Harbor", address="http://h.test")
    tools = [
        Tool(team=team, server=server, name=f"tool_{n:02}", kind=ToolKind.MCP, rule=ToolRule.AUTO)
        for n in range(40)
    ]
    for tool in tools:
        tool.seen_digest = tool_digest(tool)
    tools[1].seen_digest = "another"
    Tool.objects.bulk_create(tools)
    switch_on(conversation, *tools)
    digested: list[str] = []

    def counting(tool: Tool) -> str:
        digested.append(tool.name)
        return tool_digest(tool)

    monkeypatch.setattr(tool_search, "tool_digest", counting)
    searches = [call(f"c{n}", "search_tools", query="tool") for n in range(30)]

    run = many_run(alice, conversation, upstream, *searches)

    made = outcome.MOST_SEARCHES
    assert statuses(run) == [("answered", "done")] * made + [("declined", "refused")] * (30 - made)
    follow_up = follow_up_of(run)
    assert follow_up is not None
    first, last = follow_up.inputs[0]["output"], follow_up.inputs[-1]["output"]
    assert [each["name"] for each in json.loads(first)["tools"]] == [
        f"tool_{n:02}" for n in range(10) if n != 1
    ]
    assert outcome.TOO_MANY_SEARCHES in last
    assert sorted(digested) == [f"tool_{n:02}" for n in range(10)]


def test_search_of_a_run_with_definitions_is_an_unknown_name(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    switch_on(conversation, make_tool(team, "level"))
    run = asking(alice, conversation, upstream)

    run = ended(run, result_of(call("c1", "search_tools"), wrapped("c2", "level")))

    assert statuses(run) == [("declined", "refused")] * 2
    assert Question.objects.filter(body__tool="level").count() == 0


def found(conversation: Conversation, query: object, *offered: str) -> list[str]:
    answer = json.loads(ToolIndex(conversation, offered).search({"query": query}))
    return [each["name"] for each in answer["tools"]]


def test_search_tells_only_what_is_switched_on(team: Team, conversation: Conversation) -> None:
    level = make_tool(team, "river_level", description="How high the water is")
    gate = make_tool(team, "gate", description="Opens the gate of a river")
    off = make_tool(team, "river_secret", rule=ToolRule.OFF)
    make_tool(team, "river_elsewhere")
    switch_on(conversation, level, gate, off)
    every = ("river_level", "gate", "river_secret", "river_elsewhere")

    assert found(conversation, "River!", *every) == ["river_level", "gate"]
    assert found(conversation, "WATER", *every) == ["river_level"]
    assert found(conversation, "", *every) == ["gate", "river_level"]
    assert found(conversation, None, *every) == ["gate", "river_level"]
    assert found(conversation, "river", "gate") == ["gate"]
    assert found(conversation, "nothing", *every) == []


def test_result_of_a_search_is_bounded(team: Team, conversation: Conversation) -> None:
    large = {"type": "object", "properties": {"x": {"description": "y" * 60_000}}}
    tools = [make_tool(team, f"tool_{number:02}") for number in range(30)]
    Tool.objects.filter(pk=tools[0].pk).update(schema=large)
    switch_on(conversation, *tools)
    names = [tool.name for tool in tools]

    whole = ToolIndex(conversation, names).search({"query": ""})
    others = json.loads(ToolIndex(conversation, names[1:]).search({"query": "tool"}))

    assert len(whole) < RESULT_BYTES + 2000
    assert (len(others["tools"]), others["more"]) == (10, 19)
    assert json.loads(ToolIndex(conversation, names).search(None))["tools"][0]["schema"] == {}


def test_names_of_the_two_functions_are_taken(alice: User, team: Team) -> None:
    for name in ("search_tools", "call_tool"):
        with pytest.raises(ActionRefused, match="another name"):
            actions.create_tool(alice, team, name=name, description="", schema="")
    assert messages.DEFINITIONS_BYTES > 0


def test_existing_tools_of_these_names_are_renamed(team: Team) -> None:
    names = ("search_tools", "search_tools_2", "call_tool", "level")
    tools = [make_tool(team, name) for name in names]
    migration = import_module("chat.migrations.0042_web_search_and_server_groups")

    migration.rename_reserved(apps, None)

    assert list(Tool.objects.order_by("pk").values_list("name", flat=True)) == [
        *("search_tools_3", "search_tools_2", "call_tool_2", "level")
    ]
    assert len(tools) == 4


# --- over a runner ----------------------------------------------------------------------------------


async def test_answer_finds_a_tool_calls_it_and_goes_on(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, team: Team
) -> None:
    with RemoteHost() as host:
        host.serve("/level/Oslo", b"2.31 m", **{"Content-Type": "text/plain"})

        def make_tools() -> list[Tool]:
            address = f"{host.url}/level/{{city}}"
            others = [make_tool(team, name) for name in ("gate", "tide")]
            return [make_tool(team, "level", rule=ToolRule.AUTO, address=address), *others]

        tools = await threads.call(make_tools)
        search = wire_call(0, "c1", "search_tools", '{"query": "level"}')
        given = '{"name": "level", "arguments": {"city": "Oslo"}}'
        use = wire_call(0, "c2", "call_tool", given)
        fake.script(calling(search), calling(use), saying("It is 2.31 m."))
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=tools
        )
        await start_runner()
        await until(lambda: follow_up_of(run) is not None)
        second = await threads.call(follow_up_of, run)
        await until(lambda: follow_up_of(second) is not None)
        last = await until_ended(await threads.call(follow_up_of, second))

    assert text_of(last) == "It is 2.31 m."
    logs = [await threads.call(read_events, each) for each in (run, second, last)]
    starts = [event for log in logs for event in log if isinstance(event, canonical.ChatStart)]
    assert [start.defers_tools for start in starts] == [True] * 3
    assert host.paths == ["/level/Oslo"]
    bodies = [request.body for request in fake.requests if request.method == "POST"]
    for body in bodies:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["call_tool", "search_tools"]
        assert body["tools"] == bodies[0]["tools"]
    # The server gets back the calls as its model made them.
    said = bodies[2]["messages"][-2]["tool_calls"][0]["function"]
    assert (said["name"], json.loads(said["arguments"])) == ("call_tool", json.loads(given))
    assert bodies[2]["messages"][-1]["content"] == "2.31 m"
