"""The control interface over HTTP, for tests with real processes."""

import asyncio

import httpx
import msgspec
import pytest

from chat.demo import script
from chat.demo.fake import FakeUpstream
from chat.demo.script import Flood, Gate, Hang, Head, Pause, Raw, Reset, Script, Send
from chat.demo.server import DemoUpstream
from tests.demo.answers import connect
from tests.demo.conftest import Ask


async def test_script_release_and_state_are_json(
    client: httpx.AsyncClient, fake: FakeUpstream, ask_native: Ask
) -> None:
    told = {
        "steps": [
            {"step": "gate", "name": "go"},
            {"step": "head", "status": 201, "headers": {"X-Told": "yes"}},
            {"step": "send", "text": "data: 1\n\n"},
            {"step": "send", "base64": "/wA="},
        ]
    }
    queued = await client.post("/control/script", json=[told])
    asking = asyncio.ensure_future(ask_native("x"))
    await fake.until(lambda fake: bool(fake.waiting))
    state = (await client.get("/control/state")).json()
    await client.post("/control/release", json={"name": "go"})
    answer = await asking

    assert queued.json() == {"queued": 1}
    assert (state["posts"], state["queued_scripts"]) == (1, 0)
    assert state["requests"][0]["outcome"] == "open"
    assert (answer.status_code, answer.headers["x-told"]) == (201, "yes")
    assert answer.content == b"data: 1\n\n\xff\x00"


async def test_clear_resets_counts_and_scripts(
    client: httpx.AsyncClient, fake: FakeUpstream, ask_native: Ask
) -> None:
    await ask_native("hello")
    fake.script(script.never())

    await client.post("/control/clear")

    state = (await client.get("/control/state")).json()
    assert state == {
        "posts": 0,
        "disconnects": 0,
        "queued_scripts": 0,
        "waiting": [],
        "requests": [],
    }


async def test_control_requests_are_not_counted(
    client: httpx.AsyncClient, fake: FakeUpstream
) -> None:
    await client.post("/control/release", json={"name": "x"})

    assert (fake.posts, len(fake.requests)) == (0, 0)


async def test_invalid_script_is_refused_with_a_reason(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for path, content in [
        ("/control/script", b"{"),
        ("/control/script", b'{"steps":[{"step":"dance"}]}'),
        ("/control/script", b'{"steps":[{"step":"send","texts":"typo"}]}'),
        ("/control/release", b"{}"),
    ]:
        with subtests.test(content):
            response = await client.post(path, content=content)

            assert response.status_code == 400
            assert response.json()["error"]


async def test_requests_from_web_pages_are_forbidden(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for headers in [
        {"Origin": "http://127.0.0.1:8000"},
        {"Host": "rebound.example.org:80"},
        {"Host": "example.org"},
    ]:
        with subtests.test(headers=headers):
            response = await client.get("/control/state", headers=headers)

            assert response.status_code == 403


async def test_local_hosts_are_allowed(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for host in ["localhost", "localhost:81", "127.0.0.1", "[::1]:80"]:
        with subtests.test(host):
            response = await client.get("/control/state", headers={"Host": host})

            assert response.status_code == 200


async def test_control_is_off_by_default() -> None:
    async with DemoUpstream(speed=0) as demo, connect(demo) as client:
        await client.get("/v1/models")
        state = await client.get("/control/state")
        unknown = await client.post("/control/script", json={"steps": []})

        assert (state.status_code, unknown.status_code) == (404, 404)
        assert demo.control.state().requests == []


async def test_unknown_control_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get("/control/everything")).status_code == 404


SCRIPTS = [
    script.stream("data: x\n\n", Gate(name="g"), split_bytes=2),
    script.answer({"a": 1}, status=400, method="GET", path="/v1/models"),
    script.busy(times=3),
    script.endless_line(),
    Script(steps=(Head(framing="close"), Raw(base64=b"\xff"), Pause(seconds=1), Reset())),
    Script(steps=(Send(text="ü", split_at=(1,)), Flood(text="x", times=2), Hang())),
]


def test_scripts_survive_json(subtests: pytest.Subtests) -> None:
    for told in SCRIPTS:
        with subtests.test(told=told):
            assert script.read_scripts(msgspec.json.encode(told)) == [told]
