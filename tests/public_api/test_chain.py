"""One Tributary is the server of another one: two processes, and a fake upstream behind both."""

import json
from contextlib import aclosing
from typing import Any

import pytest

from chat import dialects
from chat.events import RefusalItem, Result, decode_result
from chat.result import fold
from chat.upstreams.configured import configured_client, configured_policy
from chat.upstreams.probe import probe
from chat.upstreams.probe_requests import ProbeTarget
from tests.fixtures import core_of
from tests.public_api.conftest import MODELS, Chain
from tests.public_api.site import ProgramSite, RawClient, StreamClient
from tests.support.processes.site import soon
from tests.support.upstream.script import Gate, lmstudio_events, lmstudio_run, stream

LMSTUDIO = "tributary/demo-reasoner"


def count_conversations(site: ProgramSite) -> int:
    return int(site.value("SELECT count(*) FROM chat_conversation"))


def status_of(site: ProgramSite, run: str) -> str:
    return str(site.value("SELECT status FROM chat_run WHERE public_id = ?", run))


def comparable(result: Result) -> dict[str, Any]:
    """What must be the same at both sites: all that LM Studio publishes but the id, which is each
    site's own, and how it ended."""
    core = core_of(result)
    assert core.pop("response_id").startswith("resp_")
    return {**core, "status": result.ext.status, "stop": result.ext.stop}


def output_of(result: Result) -> list[dict[str, Any]]:
    """Without the ids of calls, which are made anew for each answer."""
    return list(core_of(result)["output"])


# --- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_both_sites_have_the_same_result(
    chain: Chain, model: str, subtests: pytest.Subtests
) -> None:
    body = {"model": model, "input": "think, then a tool, please"}

    with subtests.test("streamed"):
        result = StreamClient(chain.last, **body).until_ended().result

        assert_same_result(result, chain.first.last_result(), model)

    with subtests.test("whole"):
        result = decode_result(json.dumps(chain.last.ask(**body)))

        assert_same_result(result, chain.first.last_result(), model)


def assert_same_result(result: Result, stored: Result, model: str) -> None:
    stored.response_id = "resp_theirs"
    if result.model_instance_id != stored.model_instance_id:
        # It was queued at the first site for a moment: which model writes was told afterwards.
        assert result.model_instance_id == model
        assert result.ext.meta["model"] == stored.model_instance_id
        result.model_instance_id = stored.model_instance_id
    assert result.stats is not None
    assert stored.stats is not None
    if stored.stats.tokens_per_second is None:
        # All within one millisecond there; here it took two, and so there is a speed.
        result.stats.tokens_per_second = None
    assert comparable(result) == comparable(stored)
    assert result.output


def test_conversation_continues_and_branches_at_both_sites(chain: Chain) -> None:
    before = count_conversations(chain.first), count_conversations(chain.last)
    one = chain.last.ask(model=LMSTUDIO, input="hello")
    previous = {"model": LMSTUDIO, "previous_response_id": one["response_id"]}

    two = chain.last.ask(input="table", **previous)
    branch = chain.last.ask(input="unicode", **previous)

    assert count_conversations(chain.first) == before[0] + 1
    assert count_conversations(chain.last) == before[1] + 1
    assert len({each["response_id"] for each in (one, two, branch)}) == 3
    siblings = (
        "SELECT count(*) FROM chat_message WHERE parent_id ="
        " (SELECT m.parent_id FROM chat_message m WHERE m.text = 'unicode')"
    )
    assert chain.first.value(siblings) == 2


def test_paused_answer_is_one_answer(chain: Chain) -> None:
    body = {"model": "tributary/demo-thinker", "input": "search with a pause"}

    streamed = StreamClient(chain.first, **body).until_ended()
    whole = decode_result(json.dumps(chain.first.ask(**body)))
    chained = StreamClient(chain.last, **body).until_ended()

    assert len({json.loads(frame.data)["run"] for frame in streamed.frames}) > 1
    assert (streamed.names.count("chat.start"), streamed.names.count("chat.end")) == (1, 1)
    assert output_of(streamed.result) == output_of(whole) == output_of(chained.result)
    results = (whole, streamed.result, chained.result)
    assert {result.ext.status for result in results} == {"completed"}
    # What streams is what the result says, item by item.
    parser = dialects.get("lmstudio").parser(model="m", options={})
    events = [event for frame in streamed.frames for event in parser.feed(frame)]
    assert output_of(fold([*events, *parser.close()])) == output_of(whole)


def test_refusal_is_a_message_for_clients_alone(chain: Chain) -> None:
    body = {"model": "tributary/demo-thinker", "input": "refuse"}

    client = StreamClient(chain.last, **body).until_ended()
    whole = chain.first.ask(**body)

    refusal = chain.last.last_result().output[-1]
    assert isinstance(refusal, RefusalItem)
    assert chain.first.last_result().output[-1] == refusal
    events = [json.loads(frame.data) for frame in client.frames]
    said = [(event["type"], event.get("content")) for event in events if event.get("refusal")]
    assert said[0] == ("message.start", None)
    assert said[-1] == ("message.end", None)
    assert "".join(content for _, content in said[1:-1]) == refusal.content
    for result in (core_of(client.result), whole):
        assert result["output"][-1]["type"] == "message"
        assert result["output"][-1]["content"] == refusal.content


# --- stop, queue, disconnect -------------------------------------------------------------------


def test_stop_reaches_the_first_site(chain: Chain) -> None:
    chain.fake.script(
        stream(lmstudio_events(lmstudio_run("The river ", "runs on")[:5]), Gate(name="never"))
    )
    disconnects = chain.fake.disconnects
    client = StreamClient(chain.last, model=LMSTUDIO, input="Where does it run?")
    client.until_event("message.delta", "message.start")

    answer = chain.last.request("POST", f"/api/v1/runs/{client.run}/stop")

    assert answer.status_code == 200
    assert client.until_ended().result.ext.status == "stopped"
    chain.fake.wait_until(lambda fake: fake.disconnects > disconnects, timeout=60)
    soon(lambda: chain.first.rows("SELECT 1 FROM chat_run WHERE status = 'stopped'"))
    chain.fake.release("never")


def test_queue_of_the_first_site_is_reported(chain: Chain) -> None:
    chain.fake.script(stream(Gate(name="busy"), lmstudio_events(lmstudio_run("At last"))))
    running = StreamClient(chain.first, model=LMSTUDIO, input="I take the only place")
    chain.fake.wait_until(lambda fake: "busy" in fake.waiting, timeout=60)

    chained = StreamClient(chain.last, model=LMSTUDIO, input="I wait")
    chained.until_event("activity.step")
    queued = StreamClient(chain.first, model=LMSTUDIO, input="And so do I")
    queued.until_event("queue.update")
    chain.fake.release("busy")

    for client in (running, chained, queued):
        assert client.until_ended().result.ext.status == "completed"
    (step,) = [step for step in chained.result.ext.activity if step["family"] == "queue"]
    assert (step["phase"], step["label"]) == ("done", "Queued on the server")
    update = json.loads(next(f.data for f in queued.frames if f.event == "queue.update"))
    assert update["place"] >= 1
    assert chained.result.ext.vendor == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, "completed"), ({"Tributary-On-Disconnect": "stop"}, "stopped")],
    ids=["continues", "stops"],
)
def test_disconnect_stops_the_run_only_on_request(
    chain: Chain, headers: dict[str, str], status: str
) -> None:
    events = lmstudio_run("one", "two")
    chain.fake.script(
        stream(lmstudio_events(events[:5]), Gate(name=status), lmstudio_events(events[5:]))
    )
    client = RawClient(chain.first, headers, model=LMSTUDIO, input="And then?")
    client.until("message.delta")

    client.disconnect()
    if status == "completed":
        chain.fake.release(status)

    soon(lambda: status_of(chain.first, client.run) not in ("queued", "running"))
    chain.fake.release(status)
    assert status_of(chain.first, client.run) == status


# --- models, the connection test ---------------------------------------------------------------


async def test_connection_test_passes_against_a_tributary(chain: Chain) -> None:
    target = ProbeTarget(
        base_url=chain.first.url,
        dialect=dialects.get("lmstudio"),
        key=chain.first.tokens["alice"],
    )
    async with (
        configured_client() as client,
        aclosing(probe(client, configured_policy(), target)) as found,
    ):
        steps = {step.name: step async for step in found}

    passed = dict.fromkeys(("address", "key", "models", "answer"), "ok")
    others = {"tls": "warning", "tools": "skipped"}
    assert {name: step.state for name, step in steps.items()} == passed | others
    assert [seen.name for seen in steps["answer"].seen if not seen.is_known] == []


def test_model_list_has_the_format_of_lm_studio(site: ProgramSite) -> None:
    answer = site.get("/api/v1/models")

    keys = [entry["key"] for entry in answer.json()["models"]]
    assert sorted(keys) == sorted(MODELS)
    assert [model.id for model in dialects.get("lmstudio").read_models(answer.content)] == keys
