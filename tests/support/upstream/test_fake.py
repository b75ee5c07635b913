"""The scriptable fake upstream: scripts, gates, disconnects, records."""

import asyncio

import httpx
import pytest

from tests.demo.conftest import Ask
from tests.demo.streams import named_events_in, text_of
from tests.support.upstream import script
from tests.support.upstream.control import secret_hash
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Close, Gate, Head, Pause, Raw, Reset

RUN = script.lmstudio_events(script.lmstudio_run("Hello, ", "world"))


async def test_scripts_are_used_in_order_and_number(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.busy(times=2, status=503, retry_after="7"), script.stream(RUN))

    answers = [await ask_native("code") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [503, 503, 200, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[2].content == RUN
    assert text_of(named_events_in(answers[3].content)).startswith("Here is one small job")
    assert fake.posts == 4


async def test_script_waits_for_its_method_and_path(
    fake: FakeUpstream, client: httpx.AsyncClient, ask_openai: Ask
) -> None:
    fake.script(
        script.answer("<h1>Welcome</h1>", method="GET", path="/v1/models"),
        script.answer({"error": "busy"}, status=409, path="/v1/chat/completions"),
    )

    native = await client.get("/api/v1/models")
    page = await client.get("/v1/models")
    refusal = await ask_openai("x")

    assert "models" in native.json()
    assert page.headers["content-type"].startswith("text/html")
    assert (refusal.status_code, refusal.json()) == (409, {"error": "busy"})


async def test_gate_holds_the_answer(fake: FakeUpstream, client: httpx.AsyncClient) -> None:
    fake.script(script.stream("data: 1\n\n", Gate(name="mid"), "data: 2\n\n"))

    async with client.stream("POST", "/api/v1/chat", json={}) as response:
        chunks = response.aiter_raw()
        first = await anext(chunks)
        await fake.until(lambda fake: fake.waiting == ["mid"])
        fake.release("mid")
        second = await anext(chunks)

    assert (first, second) == (b"data: 1\n\n", b"data: 2\n\n")
    assert fake.waiting == []


async def test_release_before_the_gate_is_kept(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.release("early")
    fake.script(script.stream(Gate(name="early"), RUN))

    assert (await ask_native("x")).content == RUN


BROKEN = {
    "cut": (script.cut("data: 1\n\n"), "closed", httpx.RemoteProtocolError),
    "reset": (script.reset("data: 1\n\n"), "reset", httpx.ReadError),
    "cut at once": (script.stream(Close()), "closed", httpx.RemoteProtocolError),
    "reset at once": (script.stream(Reset()), "reset", httpx.ReadError),
    "short body": (
        *(script.stream(Head(framing="length", length=100), "short", Close()), "closed"),
        httpx.RemoteProtocolError,
    ),
    "bad chunk": (
        *(script.stream("data: 1\n\n", Raw(text="zz\r\n")), "finished"),
        httpx.RemoteProtocolError,
    ),
    "bad head": (
        *(script.stream(Raw(text="hello?\r\n\r\n")), "finished"),
        httpx.RemoteProtocolError,
    ),
}


async def test_connections_break_as_scripted(
    fake: FakeUpstream, ask_native: Ask, subtests: pytest.Subtests
) -> None:
    for label, (told, outcome, error) in BROKEN.items():
        with subtests.test(label):
            fake.clear()
            fake.script(told)

            with pytest.raises(error):
                await ask_native("x")

            assert fake.requests[0].outcome == outcome
            assert (fake.posts, fake.disconnects) == (1, 0)


ENDLESS = {
    "never": script.never(),
    "held open": script.held_open("data: 1\n\n"),
    "flood": script.flood("data: x\n\n"),
    "endless line": script.endless_line(),
    "gate": script.stream("data: 1\n\n", Gate(name="never")),
    "pause": script.stream(Pause(seconds=3600)),
}


async def test_disconnect_ends_the_script(
    fake: FakeUpstream, client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for label, told in ENDLESS.items():
        with subtests.test(label):
            fake.clear()
            fake.script(told)
            asking = asyncio.ensure_future(client.post("/api/v1/chat", json={}))
            await fake.until(lambda fake: fake.posts == 1)

            asking.cancel()
            await fake.until(lambda fake: fake.disconnects == 1)

            assert fake.requests[0].outcome == "left"
            assert fake.waiting == []


async def test_disconnect_after_the_last_event_is_a_finish(
    fake: FakeUpstream, client: httpx.AsyncClient
) -> None:
    body = {"model": "tributary/demo-writer", "input": "hello", "stream": True}
    received = b""
    async with client.stream("POST", "/api/v1/chat", json=body) as response:
        async for data in response.aiter_raw():
            received += data
            if b"event: chat.end" in received:
                break

    await fake.until(lambda fake: fake.requests[0].outcome != "open")
    assert (fake.requests[0].outcome, fake.disconnects) == ("finished", 0)


async def test_credentials_are_recorded_as_hashes(
    fake: FakeUpstream, client: httpx.AsyncClient
) -> None:
    key = "sk-canary-0123456789"
    headers = {"Authorization": f"Bearer {key}", "X-Api-Key": key, "Cookie": f"a={key}"}
    await client.get("/v1/models", headers=headers)

    record = fake.requests[0]
    assert record.headers["authorization"] == secret_hash(f"Bearer {key}")
    assert record.headers["x-api-key"] == secret_hash(key)
    assert "canary" not in repr(record)


async def test_clear_resets_the_fake(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.never())
    fake.release("gate")
    fake.clear()

    answer = await ask_native("hello")

    assert answer.status_code == 200
    assert fake.posts == 1
    assert len(fake.requests) == 1


async def test_disconnect_after_a_clear_is_not_counted(
    fake: FakeUpstream, client: httpx.AsyncClient
) -> None:
    fake.script(script.never())
    asking = asyncio.ensure_future(client.post("/api/v1/chat", json={}))
    await fake.until(lambda fake: fake.posts == 1)
    (record,) = fake.requests
    fake.clear()

    asking.cancel()

    await fake.until(lambda fake: record.outcome == "left")
    assert fake.disconnects == 0
