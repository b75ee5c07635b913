"""The control interface over HTTP, for tests with real processes."""

import asyncio

import httpx
import msgspec
import pytest

from chat.demo import script
from chat.demo.fake import FakeUpstream
from chat.demo.script import Flood, Gate, Hang, Head, Pause, Raw, Reset, Script, Send
from chat.demo.server import DemoUpstream
from tests.demo.conftest import Ask


async def test_a_script_a_release_and_the_state_travel_as_json(
    client: httpx.AsyncClient, ask_native: Ask
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
    state = await state_when_waiting(client)
    await client.post("/control/release", json={"name": "go"})
    answer = await asking

    assert queued.json() == {"queued": 1}
    assert (state["posts"], state["queued_scripts"]) == (1, 0)
    assert state["requests"][0]["outcome"] == "open"
    assert (answer.status_code, answer.headers["x-told"]) == (201, "yes")
    assert answer.content == b"data: 1\n\n\xff\x00"


async def state_when_waiting(client: httpx.AsyncClient) -> dict[str, object]:
    async with asyncio.timeout(10):
        while True:
            state: dict[str, object] = (await client.get("/control/state")).json()
            if state["waiting"]:
                return state
            await asyncio.sleep(0.01)


async def test_clear_forgets_counts_and_scripts(
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


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/control/script", b"{"),
        ("/control/script", b'{"steps":[{"step":"dance"}]}'),
        ("/control/script", b'{"steps":[{"step":"send","texts":"typo"}]}'),
        ("/control/release", b"{}"),
    ],
)
async def test_what_is_no_script_is_refused_with_a_reason(
    client: httpx.AsyncClient, path: str, content: bytes
) -> None:
    response = await client.post(path, content=content)

    assert response.status_code == 400
    assert response.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8000"},
        {"Host": "rebound.example.org:80"},
        {"Host": "example.org"},
    ],
    ids=["page", "rebound name", "name"],
)
async def test_pages_in_a_browser_are_not_heard(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    response = await client.get("/control/state", headers=headers)

    assert response.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:81", "127.0.0.1", "[::1]:80"])
async def test_programs_on_this_machine_are_heard(client: httpx.AsyncClient, host: str) -> None:
    response = await client.get("/control/state", headers={"Host": host})

    assert response.status_code == 200


async def test_without_control_nothing_is_recorded_and_nobody_is_heard() -> None:
    async with (
        DemoUpstream(speed=0) as demo,
        httpx.AsyncClient(base_url=demo.url, trust_env=False) as client,
    ):
        await client.get("/v1/models")
        state = await client.get("/control/state")
        unknown = await client.post("/control/script", json={"steps": []})

        assert (state.status_code, unknown.status_code) == (404, 404)
        assert demo.control.state().requests == []


async def test_an_unknown_control_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get("/control/everything")).status_code == 404


@pytest.mark.parametrize(
    "told",
    [
        script.stream("data: x\n\n", Gate(name="g"), split_bytes=2),
        script.answer({"a": 1}, status=400, method="GET", path="/v1/models"),
        script.busy(times=3),
        script.endless_line(),
        Script(steps=(Head(framing="close"), Raw(base64=b"\xff"), Pause(seconds=1), Reset())),
        Script(steps=(Send(text="ü", split_at=(1,)), Flood(text="x", times=2), Hang())),
    ],
)
def test_every_script_is_the_same_after_a_journey_as_json(told: Script) -> None:
    assert script.read_scripts(msgspec.json.encode(told)) == [told]
