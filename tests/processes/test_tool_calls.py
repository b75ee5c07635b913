"""The server is killed around each step of a round with three parallel calls, and started again."""

import pytest

from tests.support.processes.runs import assert_ended
from tests.support.processes.site import Site
from tests.support.processes.tools import (
    CALLS,
    PLACES,
    assert_goes_on_once,
    make_tool,
    script_calls,
    times_called,
    until_settled,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]
QUESTION = "How is the weather?"


@pytest.mark.parametrize(("place", "unknown"), PLACES.items())
def test_kill_doubles_no_call_and_loses_no_answer(site: Site, place: str, unknown: int) -> None:
    tool = make_tool(site.records, site.fake)
    script_calls(site.fake, gate="tool")
    site.start(change=place)
    run = site.send(QUESTION, tools=[tool])
    assert_ended(site, run, "waiting")

    if unknown:
        site.fake.wait_until(lambda fake: fake.waiting == ["tool"] * CALLS)
    site.fake.release("tool")
    site.until_stopped_at_place()
    site.restart()

    assert until_settled(site).count("unknown") == unknown
    assert_goes_on_once(site, run)
    assert times_called(site.fake) == {f"City {number}": 1 for number in range(CALLS)}


def test_call_that_was_only_marked_as_sent_is_asked_about(site: Site) -> None:
    tool = make_tool(site.records, site.fake)
    script_calls(site.fake)
    site.start(change="before_tool_request")
    run = site.send(QUESTION, tools=[tool])

    site.until_stopped_at_place()
    site.restart()

    marked = until_settled(site).count("unknown")
    assert marked >= 1
    assert_goes_on_once(site, run)
    called = times_called(site.fake)
    assert sum(called.values()) == CALLS - marked
    assert set(called.values()) <= {1}


@pytest.mark.parametrize("is_read_only", [False, True])
def test_kill_while_the_tools_work(site: Site, is_read_only: bool) -> None:
    tool = make_tool(site.records, site.fake, is_read_only=is_read_only)
    script_calls(site.fake, gate="tool", times=2 * CALLS)
    site.start()
    run = site.send(QUESTION, tools=[tool])

    site.fake.wait_until(lambda fake: fake.waiting == ["tool"] * CALLS)
    site.kill9()
    site.fake.release("tool")
    site.start()

    assert until_settled(site) == ["done" if is_read_only else "unknown"] * CALLS
    assert_goes_on_once(site, run)
    times = 2 if is_read_only else 1
    assert times_called(site.fake) == {f"City {number}": times for number in range(CALLS)}


@pytest.mark.parametrize(
    ("place", "calls"), [("inside_last_commit", 0), ("frozen_after_last_commit", CALLS)]
)
def test_calls_are_committed_with_the_end_of_their_run(site: Site, place: str, calls: int) -> None:
    tool = make_tool(site.records, site.fake)
    script_calls(site.fake, model_gate="model")
    site.start(change=place)
    # A frozen process would leave the request without a response.
    run = site.send(QUESTION, tools=[tool])

    site.fake.release("model")
    site.until_stopped_at_place()
    site.restart()

    if calls:
        assert until_settled(site) == ["done"] * calls
        assert_goes_on_once(site, run)
    else:
        assert_ended(site, run, "interrupted")
    assert sum(times_called(site.fake).values()) == calls
