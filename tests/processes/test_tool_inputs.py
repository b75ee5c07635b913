"""The server is killed while a tool asks people, behind the answer, and while a task does the call."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.processes.mcp_server import (
    answer_input,
    assert_one_follow_up,
    in_thread,
    make_remote_tool,
    until_status,
)
from tests.support.processes.runs import assert_ended
from tests.support.processes.site import Site, soon
from tests.tools.mcp.asking import AskingServer, TaskServer, asking, completed, elicitation, working
from tests.tools.mcp.servers import serving

pytestmark = [pytest.mark.process, pytest.mark.slow]
QUESTION = "Is there a berth?"
# The fields of the form in their order: the pier by its position, and nights.
BERTH = {"field-0": "0", "field-1": "2"}
BOOKED = ["Anna: north, 2"]


def begin(site: Site, url: str, name: str, *, change: str = "") -> UUID:
    """An answer that calls the tool of the server, from a site that stops at a place."""
    tool = make_remote_tool(site, url, name)
    site.start(change=change)
    run = site.send(QUESTION, tools=[tool])
    assert_ended(site, run, "waiting")
    return run


def test_kill_while_people_are_asked(site: Site) -> None:
    own = AskingServer()
    with in_thread(serving(own)) as url:
        run = begin(site, url, "book")
        until_status(site, "input")
        site.restart()
        assert until_status(site, "input") == "input"
        answer_input(site, **BERTH)
        assert until_status(site, "done", "unknown", "failed") == "done"
        assert_one_follow_up(site, run)

    assert own.booked == BOOKED


# Where the server is killed behind the answer: what becomes of the call, and how often the tool ran.
PLACES = {
    "before_answered_claim": ("done", 1),
    "before_answered_request": ("unknown", 0),
    "before_answered_result": ("unknown", 1),
}


@pytest.mark.parametrize(("place", "outcome"), PLACES.items())
def test_kill_behind_the_answer(site: Site, place: str, outcome: tuple[str, int]) -> None:
    own = AskingServer()
    with in_thread(serving(own)) as url:
        run = begin(site, url, "book", change=place)
        answer_input(site, **BERTH)
        site.until_stopped_at_place()
        site.restart()

        status, times = outcome
        assert until_status(site, "done", "unknown", "failed") == status
        assert_one_follow_up(site, run)

    assert own.booked == BOOKED * times


def test_kill_while_an_open_call_waits_for_people(site: Site) -> None:
    own = AskingServer()
    with in_thread(serving(own, "2025-06-18")) as url:
        run = begin(site, url, "book")
        until_status(site, "input")
        site.restart()
        assert until_status(site, "done", "unknown", "failed") == "unknown"
        assert_one_follow_up(site, run)

    assert own.booked == []


@pytest.mark.parametrize(
    ("place", "status"), [("before_task_stored", "unknown"), ("after_task_stored", "done")]
)
def test_kill_around_the_storing_of_a_task(site: Site, place: str, status: str) -> None:
    with in_thread(TaskServer(completed("booked"))) as server:
        run = begin(site, server.url, "any", change=place)
        site.until_stopped_at_place()
        site.restart()

        assert until_status(site, "done", "unknown", "failed") == status
        assert_one_follow_up(site, run)

    assert server.calls == 1


def test_kill_while_a_task_works_and_asks(site: Site) -> None:
    berth = elicitation("Which berth?", pier={"type": "string"})
    with in_thread(TaskServer(working("Half way"))) as server:
        run = begin(site, server.url, "any")
        until_status(site, "running")
        soon(lambda: "tasks/get" in server.methods)
        site.kill9()
        server.states = [asking(k1=berth)]
        site.start()
        until_status(site, "input")
        site.restart()
        server.states = [working(), completed("booked")]
        answer_input(site, **{"field-0": "north"})
        assert until_status(site, "done", "unknown", "failed") == "done"
        assert_one_follow_up(site, run)

    assert server.calls == 1
    answer = {"action": "accept", "content": {"pier": "north"}}
    assert server.sent("tasks/update") == [{"taskId": "task-1", "inputResponses": {"k1": answer}}]
