"""The member run_tools: the response follows the calls that Tributary runs, or the client gets them."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.public_api.conftest import Chain
from tests.public_api.site import CHAT, ProgramSite, StreamClient
from tests.runs.waiting import calling, saying, wire_call
from tests.support.processes.site import soon
from tests.support.remote_host import RemoteHost
from tests.support.upstream.fake import FakeUpstream

MODEL = "tributary/demo-writer"
LEVEL = wire_call(0, "c1", "level", '{"city": "Oslo"}')
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = (
    "INSERT INTO chat_tool (public_id, team_id, name, description, schema, kind, rule, created_at)"
    " SELECT ?, id, ?, '', ?, ?, ?, CURRENT_TIMESTAMP FROM chat_team WHERE name = 'River'"
)
REQUEST = (
    "INSERT INTO chat_toolrequest (tool_id, method, address, sealed_headers)"
    " SELECT id, 'GET', ?, '' FROM chat_tool WHERE name = ?"
)


@pytest.fixture
def fake(chain: Chain) -> Iterator[FakeUpstream]:
    yield chain.fake
    chain.fake.clear()


@pytest.fixture
def host(site: ProgramSite) -> Iterator[RemoteHost]:
    """A service with a level; its tool is there in three forms."""
    with RemoteHost() as host:
        host.serve("/Oslo", b"2.31 m", **{"Content-Type": "text/plain"})
        for name, kind, rule in (
            ("level", "http", "auto"),
            ("slow_level", "http", "ask"),
            ("colleague", "person", "ask"),
        ):
            site.rows(TOOL, uuid.uuid4().hex, name, json.dumps(SCHEMA), kind, rule)
            if kind == "http":
                site.rows(REQUEST, f"{host.url}/{{city}}", name)
        yield host
        site.rows("DELETE FROM chat_conversation_tools")
        site.rows("DELETE FROM chat_toolrequest")
        site.rows("UPDATE chat_toolcall SET tool_id = NULL")
        site.rows("DELETE FROM chat_toolchoice")
        site.rows("DELETE FROM chat_tool")


def body(*tools: str, **fields: object) -> dict[str, Any]:
    names = [f"tool/{tool}" for tool in tools]
    return {"model": MODEL, "input": "How high?", "integrations": names, **fields}


def of_type(output: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [item for item in output if item["type"] == name]


def approve(site: ProgramSite) -> None:
    """Alice approves the newest call on the page."""
    question = site.value("SELECT public_id FROM chat_question ORDER BY id DESC LIMIT 1")
    secret = "x" * 32
    cookies = {"sessionid": site.session, "csrftoken": secret}
    with httpx.Client(base_url=site.url, cookies=cookies, trust_env=False) as browser:
        answer = browser.post(
            f"/q/{uuid.UUID(question)}/approve/",
            data={"csrfmiddlewaretoken": secret, "arguments": '{"city": "Oslo"}'},
            headers={"Origin": site.url},
        )
        assert answer.status_code in (200, 204, 302), answer.text


def waiting_calls(site: ProgramSite) -> Any:
    return site.value("SELECT COUNT(*) AS n FROM chat_toolcall WHERE status = 'approval'")


def test_stream_follows_the_answer_over_its_calls(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    second = wire_call(0, "c2", "level", '{"city": "Oslo"}')
    fake.script(calling(LEVEL, text="I look."), calling(second), saying("It is ", "2.31 m."))

    client = StreamClient(site, **body("level", run_tools=True)).until_ended()

    names = [name for name in client.names if name != "queue.update"]
    assert names[0] == "chat.start"
    assert (names.count("chat.start"), names.count("chat.end")) == (1, 1)
    assert names[-1] == "chat.end"
    assert names.count("tool_call.success") == 2
    events = [json.loads(frame.data) for frame in client.frames]
    calls = [each["item"] for each in events if each["type"] == "tool_call.arguments"]
    outcomes = [each["item"] for each in events if each["type"] == "tool_call.success"]
    assert outcomes == calls == [1, 2]
    end = events[-1]["result"]
    assert [item["type"] for item in end["output"]] == [
        "message",
        "tool_call",
        "tool_call",
        "message",
    ]
    assert [item["output"] for item in of_type(end["output"], "tool_call")] == ["2.31 m"] * 2
    assert end["output"][-1]["content"] == "It is 2.31 m."
    assert (end["ext"]["status"], end["ext"]["run"]) == (
        "completed",
        str(uuid.UUID(events[-1]["run"])),
    )
    assert len({each["run"] for each in events if "run" in each}) == 3
    assert host.paths == ["/Oslo", "/Oslo"]


def test_whole_response_comes_after_the_calls(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(calling(LEVEL), saying("It is 2.31 m."))

    result = site.ask(**body("level", run_tools=True, top_a=1))

    assert [item["type"] for item in result["output"]] == ["tool_call", "message"]
    assert result["output"][0]["execution"]["executor"] == "http"
    assert result["ext"]["status"] == "completed"
    # The first run has the note about the request.
    assert any("top_a" in note for note in result["ext"]["notes"])
    assert result["stats"]["input_tokens"] > 10


def test_people_approve_while_the_stream_waits(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(
        calling(wire_call(0, "c1", "slow_level", '{"city": "Oslo"}')), saying("It is 2.31 m.")
    )
    client = StreamClient(site, **body("slow_level", run_tools=True))
    soon(lambda: waiting_calls(site) == 1)
    assert "chat.end" not in client.names

    approve(site)

    client.until_ended()
    assert client.result.ext.status == "completed"
    assert "tool_call.success" in client.names


# It waits for a whole poll.
@pytest.mark.slow
def test_stream_ends_if_nothing_continues_the_answer(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(calling(wire_call(0, "c1", "slow_level", '{"city": "Oslo"}')))
    client = StreamClient(site, **body("slow_level", run_tools=True))
    soon(lambda: waiting_calls(site) == 1)
    [row] = site.rows("SELECT conversation_id FROM chat_run ORDER BY id DESC LIMIT 1")

    # As a person who answers the question otherwise: nothing continues it.
    site.rows(
        "UPDATE chat_question SET status = 'expired' WHERE conversation_id = ?",
        row["conversation_id"],
    )
    site.rows("UPDATE chat_toolcall SET status = 'refused' WHERE status = 'approval'")

    client.until_ended()
    assert client.result.ext.status == "waiting"
    assert client.names[-1] == "chat.end"
    assert client.names.count("chat.end") == 1


def test_stop_ends_a_call_that_runs_and_the_stream(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    # Nothing answers at this port.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/{{city}}"
        site.rows("UPDATE chat_toolrequest SET address = ?", address)
        fake.script(calling(LEVEL))
        client = StreamClient(site, **body("level", run_tools=True))
        soon(
            lambda: site.rows(
                "SELECT 1 FROM chat_toolcall WHERE sent_at IS NOT NULL AND status = 'running'"
            )
        )

        stopped = site.request("POST", f"/api/v1/runs/{client.run}/stop")

        client.until_ended()
    assert stopped.status_code == 200
    assert client.result.ext.status == "waiting"
    assert client.names.count("chat.end") == 1


def test_repeated_key_is_the_same_request_only_with_the_same_member(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(calling(LEVEL), saying("It is 2.31 m."))
    key = {"Idempotency-Key": uuid.uuid4().hex}

    def ask(**fields: object) -> httpx.Response:
        with site.client() as client:
            return client.post(CHAT, json=body("level", **fields), headers=key)

    first, second, other = ask(run_tools=True), ask(run_tools=True), ask(run_tools=False)

    assert first.json()["output"] == second.json()["output"]
    assert len(first.json()["output"]) == 2
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")
    assert host.paths == ["/Oslo"]


def test_response_ends_where_somebody_else_has_to_answer(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(calling(wire_call(0, "c1", "colleague", '{"city": "Oslo"}')), saying("Thanks."))
    waiting = site.ask(**body("colleague", run_tools=True))
    assert waiting["ext"]["status"] == "waiting"

    given = {"type": "tool_result", "call_id": "c1", "content": "2 m"}
    result = site.ask(
        model=MODEL,
        previous_response_id=waiting["response_id"],
        input=[given],
        run_tools=True,
    )

    assert result["output"][-1]["content"] == "Thanks."


def test_client_gets_the_calls_and_nothing_runs_here(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    again = wire_call(0, "c2", "level", '{"city": "Bergen"}')
    fake.script(calling(LEVEL), calling(again), saying("Between 2 and 3 m."))

    first = site.ask(**body("level", run_tools=False))
    second = site.ask(
        model=MODEL,
        previous_response_id=first["response_id"],
        input=[{"type": "tool_result", "call_id": "c1", "content": "2 m"}],
        run_tools=True,
    )
    last = site.ask(
        model=MODEL,
        previous_response_id=second["response_id"],
        input=[{"type": "tool_result", "call_id": "c2", "content": "3 m"}],
    )

    assert [each["ext"]["status"] for each in (first, second, last)] == [
        "waiting",
        "waiting",
        "completed",
    ]
    assert of_type(first["output"], "tool_call")[0]["status"] == "pending"
    assert last["output"][-1]["content"] == "Between 2 and 3 m."
    assert host.paths == []
    sent = [request.body for request in fake.requests if request.method == "POST"]
    assert [tool["function"]["name"] for tool in sent[-1]["tools"]] == ["level"]


def test_without_the_member_the_response_ends_at_the_call_that_runs(
    site: ProgramSite, fake: FakeUpstream, host: RemoteHost
) -> None:
    fake.script(calling(LEVEL), saying("It is 2.31 m."))

    result = site.ask(**body("level"))

    assert result["ext"]["status"] == "waiting"
    run = result["ext"]["run"]
    soon(lambda: site.get(f"/api/v1/runs/{run}").json()["follow_up"])
    follow_up = site.get(f"/api/v1/runs/{run}").json()["follow_up"]
    soon(lambda: site.get(f"/api/v1/runs/{follow_up}").json()["status"] == "completed")
    assert host.paths == ["/Oslo"]


@pytest.mark.parametrize("value", ["yes", 1, []])
def test_other_values_are_refused(site: ProgramSite, value: object) -> None:
    answer = site.request("POST", CHAT, json=body(run_tools=value))

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "run_tools")
