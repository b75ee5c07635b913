"""A search within an answer: what it finds becomes the sources of the text that follows."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import events as canonical
from chat.models import Conversation, Team, ToolRule, Upstream, User
from chat.runs import runner as runners
from chat.runs.resume import read_inputs, sources_of
from chat.tools.runner import RUN_CALLS
from chat.tools.web.actions import WebSearchValues, set_web_search, web_tools
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import call, calling, ended, result_of, saying, whole, wire_call
from tests.support.remote_host import RemoteHost
from tests.support.run_fixtures import MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import follow_up_of, give_result, make_tool, waiting_run

PAGES = ["https://a.example/elbe", "https://b.example/elbe"]


@pytest.fixture(autouse=True)
def _frequent_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runners._periodic_tasks, "tool_calls", replace(RUN_CALLS, seconds=0.05))


def turn_on(user: User, team: Team, address: str) -> list[object]:
    values = WebSearchValues(service="searxng", address=address, page_rule=ToolRule.OFF)
    set_web_search(user, team, values)
    return list(web_tools(team).values())


async def test_results_are_the_sources_of_the_text_that_follows(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User, team: Team
) -> None:
    with RemoteHost() as searxng:
        found = [{"title": f"Elbe {n}", "url": url, "content": "x"} for n, url in enumerate(PAGES)]
        for query in ("elbe", "more"):
            searxng.serve(f"/search?q={query}&format=json", json.dumps({"results": found}).encode())
        tools = await threads.call(turn_on, alice, team, searxng.url)
        search = wire_call(0, "c1", "web_search", '{"query": "elbe"}')
        again = wire_call(0, "c2", "web_search", '{"query": "more"}')
        # The second round has no text, so what was found before it is not cited there.
        fake.script(calling(search), calling(again), saying("It is ", "long."))
        run = await threads.call(
            make_run, "Hello", dialect="openai_chat", base_url=f"{fake.url}/v1", tools=tools
        )
        await start_runner()
        await until(lambda: follow_up_of(run) is not None)
        second = await threads.call(follow_up_of, run)
        await until(lambda: follow_up_of(second) is not None)
        last = await until_ended(await threads.call(follow_up_of, second))

    assert searxng.paths == ["/search?q=elbe&format=json", "/search?q=more&format=json"]
    assert text_of(last) == "It is long."
    result = await threads.call(whole, run)
    (message,) = (item for item in result.output if isinstance(item, canonical.MessageItem))
    assert [(each.title, each.url) for each in message.citations] == [
        ("Elbe 0", PAGES[0]),
        ("Elbe 1", PAGES[1]),
    ]
    assert [each.kind for each in message.citations] == ["web", "web"]


def test_sources_are_read_back_to_the_last_text_only(
    alice: User, team: Team, conversation: Conversation, upstream: Upstream
) -> None:
    conversation.tools.add(make_tool(team, rule=ToolRule.AUTO))
    runs = [waiting_run(alice, conversation, upstream, "weather")]
    for number, text in enumerate(("", "I know more.", "", "")):
        follow_up = give_result(runs[-1])
        (settled,) = read_inputs(follow_up)
        source = canonical.Citation(kind="web", title="x", url=f"https://a.example/{number}")
        settled = msgspec.structs.replace(settled, sources=(source,))
        follow_up.inputs = msgspec.to_builtins([settled])
        follow_up.save(update_fields=["inputs"])
        said = [canonical.MessageItem(content=text)] if text else []
        runs.append(ended(follow_up, result_of(*said, call("c1", "weather", city="Oslo"))))

    with CaptureQueriesContext(connection) as queries:
        found = sources_of(runs[-1])

    assert [each.url for each in found] == ["https://a.example/2", "https://a.example/3"]
    assert len(queries) == 2
    assert [each.url for each in sources_of(runs[2])] == [
        "https://a.example/0",
        "https://a.example/1",
    ]
    assert sources_of(runs[0]) == ()
