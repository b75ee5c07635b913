"""A Tributary as another one's server: two real processes, and a fake server behind the first."""

import json
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from chat import dialects
from chat.demo.script import Gate, lmstudio_events, lmstudio_run, stream
from chat.events import Result, decode_result
from chat.result import fold
from chat.upstreams.configured import configured_client, configured_policy
from chat.upstreams.probe import Target, probe
from tests.fixtures import core_of
from tests.programs.conftest import SERVERS, Chain
from tests.programs.site import Leaver, Listener, ProgramSite
from tests.support.processes.site import soon

LMSTUDIO = "tributary/demo-reasoner"


def told(result: Result) -> dict[str, Any]:
    """What must be the same at both ends: all that LM Studio publishes but the id, which is each
    site's own, and how it ended."""
    core = core_of(result)
    assert core.pop("response_id").startswith("resp_")
    return {**core, "status": result.ext.status, "stop": result.ext.stop}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("model", [model for *_, model in SERVERS])
def test_the_result_at_the_far_end_is_that_of_the_first(
    chain: Chain, model: str, streams: bool
) -> None:
    question = "think, then a tool, please"

    if streams:
        listener = Listener(chain.last, model=model, input=question)
        listener.until_ended()
        result = listener.result
    else:
        result = decode_result(json.dumps(chain.last.ask(model=model, input=question)))

    stored = chain.first.last_result()
    stored.response_id = "resp_theirs"
    if result.model_instance_id != stored.model_instance_id:
        # It stood in the first one's line for a moment: which model writes was told afterwards.
        assert (result.model_instance_id, result.ext.meta["model"]) == (
            model,
            stored.model_instance_id,
        )
        result.model_instance_id = stored.model_instance_id
    assert result.stats is not None
    assert stored.stats is not None
    if stored.stats.tokens_per_second is None:
        # All within one millisecond there; here it took two, and so there is a speed.
        result.stats.tokens_per_second = None
    assert told(result) == told(stored)
    assert result.output


def test_a_conversation_goes_on_at_both_ends(chain: Chain) -> None:
    before = _conversations(chain.first), _conversations(chain.last)
    one = chain.last.ask(model=LMSTUDIO, input="hello")

    two = chain.last.ask(model=LMSTUDIO, input="table", previous_response_id=one["response_id"])
    branch = chain.last.ask(
        model=LMSTUDIO, input="unicode", previous_response_id=one["response_id"]
    )

    assert (_conversations(chain.first), _conversations(chain.last)) == (
        before[0] + 1,
        before[1] + 1,
    )
    assert len({each["response_id"] for each in (one, two, branch)}) == 3
    (row,) = chain.first.rows(
        "SELECT count(*) AS siblings FROM chat_message WHERE parent_id ="
        " (SELECT m.parent_id FROM chat_message m WHERE m.text = 'unicode')"
    )
    assert row["siblings"] == 2


def _conversations(site: ProgramSite) -> int:
    (row,) = site.rows("SELECT count(*) AS number FROM chat_conversation")
    return int(row["number"])


def test_stop_at_the_far_end_reaches_the_first_server(chain: Chain) -> None:
    chain.fake.script(
        stream(lmstudio_events(lmstudio_run("The river ", "runs on")[:5]), Gate(name="never"))
    )
    left = chain.fake.disconnects
    listener = Listener(chain.last, model=LMSTUDIO, input="Where does it run?")
    listener.until(lambda one: "message.delta" in one.names or "message.start" in one.names)

    with chain.last.client() as client:
        answer = client.post(f"/api/v1/runs/{listener.run}/stop")

    assert answer.status_code == 200
    listener.until_ended()
    assert listener.result.ext.status == "stopped"
    chain.fake.wait_until(lambda fake: fake.disconnects > left, timeout=60)
    soon(lambda: chain.first.rows("SELECT 1 FROM chat_run WHERE status = 'stopped'"))
    chain.fake.release("never")


def test_the_far_end_sees_the_line_of_the_first(chain: Chain) -> None:
    chain.fake.script(stream(Gate(name="busy"), lmstudio_events(lmstudio_run("At last"))))
    holding = Listener(chain.first, model=LMSTUDIO, input="I take the only place")
    chain.fake.wait_until(lambda fake: "busy" in fake.waiting, timeout=60)

    waiting = Listener(chain.last, model=LMSTUDIO, input="I wait")
    waiting.until(lambda one: "activity.step" in one.names)
    place = Listener(chain.first, model=LMSTUDIO, input="And so do I")
    place.until(lambda one: "queue.update" in one.names)
    chain.fake.release("busy")

    for listener in (holding, waiting, place):
        listener.until_ended()
        assert listener.result.ext.status == "completed"
    (step,) = [step for step in waiting.result.ext.activity if step["family"] == "queue"]
    assert (step["phase"], step["label"]) == ("done", "Waited in line there")
    update = json.loads(next(f.data for f in place.frames if f.event == "queue.update"))
    assert update["place"] >= 1
    assert waiting.result.ext.vendor == []


async def test_the_connection_test_is_green_against_a_tributary(chain: Chain) -> None:
    target = Target(
        base_url=chain.first.url, dialect=dialects.get("lmstudio"), key=chain.first.token
    )
    async with (
        configured_client() as client,
        aclosing(probe(client, configured_policy(), target)) as found,
    ):
        steps = {step.name: step async for step in found}

    assert {name: step.state for name, step in steps.items()} == {
        "address": "ok",
        "tls": "ok",
        "key": "ok",
        "models": "ok",
        "answer": "ok",
        "tools": "skipped",
    }
    assert [seen.name for seen in steps["answer"].seen if not seen.is_known] == []


@pytest.mark.parametrize(
    ("headers", "ending"),
    [({}, "completed"), ({"Tributary-On-Disconnect": "stop"}, "stopped")],
    ids=["goes on", "stops"],
)
def test_a_program_that_leaves_lets_the_run_go_on_unless_it_says_otherwise(
    chain: Chain, headers: dict[str, str], ending: str
) -> None:
    chain.fake.script(
        stream(
            lmstudio_events(lmstudio_run("one", "two")[:5]),
            Gate(name=ending),
            lmstudio_events(lmstudio_run("one", "two")[5:]),
        )
    )
    leaver = Leaver(chain.first, headers, model=LMSTUDIO, input="And then?")
    leaver.until("message.delta")

    leaver.leave()
    if ending == "completed":
        chain.fake.release(ending)

    soon(lambda: _status(chain.first, leaver.run) not in ("queued", "running"))
    chain.fake.release(ending)
    assert _status(chain.first, leaver.run) == ending


def _status(site: ProgramSite, run: str) -> str:
    (row,) = site.rows("SELECT status FROM chat_run WHERE public_id = ?", run)
    return str(row["status"])


def test_the_list_of_models_is_lm_studios(chain: Chain) -> None:
    keys = [entry["key"] for entry in chain.first.get("/api/v1/models")["models"]]

    body = httpx.get(
        f"{chain.first.url}/api/v1/models",
        headers={"Authorization": f"Bearer {chain.first.token}"},
        trust_env=False,
    ).content

    assert sorted(keys) == sorted(model for *_, model in SERVERS)
    assert [model.id for model in dialects.get("lmstudio").read_models(body)] == keys


def test_an_answer_that_pauses_is_one_answer(chain: Chain) -> None:
    asked = {"model": "tributary/demo-thinker", "input": "search with a pause"}
    streamed = Listener(chain.first, **asked)
    streamed.until_ended()
    whole = decode_result(json.dumps(chain.first.ask(**asked)))
    far = Listener(chain.last, **asked)
    far.until_ended()

    assert len({json.loads(frame.data)["run"] for frame in streamed.frames}) > 1
    assert (streamed.names.count("chat.start"), streamed.names.count("chat.end")) == (1, 1)
    assert output_of(streamed.result) == output_of(whole) == output_of(far.result)
    assert {whole.ext.status, streamed.result.ext.status, far.result.ext.status} == {"completed"}
    # What streams is what the result says, item by item.
    parser = dialects.get("lmstudio").parser(model="m", options={})
    events = [event for frame in streamed.frames for event in parser.feed(frame)]
    assert output_of(fold([*events, *parser.close()])) == output_of(whole)


def output_of(result: Result) -> list[dict[str, Any]]:
    """Ids of calls are made anew for each answer."""
    return list(core_of(result)["output"])
