"""The scriptable fake upstream: scripts, gates, disconnects, records."""

import asyncio
import threading

import httpx
import pytest

from chat.demo import script
from chat.demo.control import secret_hash
from chat.demo.fake import FakeUpstream
from chat.demo.script import Close, Flood, Gate, Hang, Head, Pause, Raw, Reset, Send
from tests.demo.answers import connect
from tests.demo.conftest import Ask
from tests.demo.streams import named_events_in, read_until_broken, text_of

RUN = script.lmstudio_events(script.lmstudio_run("Hello, ", "world"))


async def test_script_replaces_one_answer(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.stream(RUN))

    scripted = await ask_native("code")
    scene = await ask_native("code")

    assert scripted.content == RUN
    assert text_of(named_events_in(scene.content)).startswith("Here is one small job")
    assert [record.is_scripted for record in fake.requests] == [True, False]


async def test_scripts_are_used_in_order_and_number(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.busy(times=2, status=503, retry_after="7"), script.stream(RUN))

    answers = [await ask_native("x") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert fake.posts == 3


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


async def test_gate_before_the_head_holds_everything(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.stream(Gate(name="head"), RUN))
    asking = asyncio.ensure_future(ask_native("x"))

    await fake.until(lambda fake: "head" in fake.waiting)
    written_before = fake.requests[0].bytes_written
    fake.release("head")

    assert (await asking).content == RUN
    assert written_before == 0


async def test_release_before_the_gate_is_kept(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.release("early")
    fake.script(script.stream(Gate(name="early"), RUN))

    assert (await ask_native("x")).content == RUN


async def test_bytes_can_be_sent_in_pieces(
    fake: FakeUpstream, ask_native: Ask, subtests: pytest.Subtests
) -> None:
    for label, step in {
        "every three bytes": Send(text="abcdefg", split_bytes=3),
        "at points": Send(base64=b"abcdefg", split_at=(3, 6)),
    }.items():
        with subtests.test(label):
            fake.script(script.stream(step, Raw(text="3\r\nend\r\n")))

            assert (await ask_native("x")).content == b"abcdefgend"
            assert step.pieces == [b"abc", b"def", b"g"]


async def test_pause_sleeps(
    fake: FakeUpstream, ask_native: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr("chat.demo.control.asyncio.sleep", note)
    fake.script(script.stream(Pause(seconds=12.5), RUN))

    assert (await ask_native("x")).content == RUN
    assert 12.5 in slept


BROKEN = {
    "cut": (script.cut("data: 1\n\n"), "closed", httpx.RemoteProtocolError),
    "reset": (script.reset("data: 1\n\n"), "reset", httpx.ReadError),
    "cut at once": (script.stream(Close()), "closed", httpx.RemoteProtocolError),
    "reset at once": (script.stream(Reset()), "reset", httpx.ReadError),
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


async def test_bytes_before_a_cut_arrive(fake: FakeUpstream, client: httpx.AsyncClient) -> None:
    fake.script(script.cut("data: 1\n\n"))

    assert await read_until_broken(client, "/api/v1/chat", {}) == b"data: 1\n\n"


async def test_unframed_body_ends_with_the_connection(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.stream(Head(framing="close"), RUN, Close()))

    assert (await ask_native("x")).content == RUN


async def test_body_can_be_shorter_than_its_length(
    fake: FakeUpstream, client: httpx.AsyncClient
) -> None:
    fake.script(script.stream(Head(framing="length", length=100), "short", Close()))

    assert await read_until_broken(client, "/api/v1/chat", {}) == b"short"


async def test_socket_can_stay_open_after_the_end(
    fake: FakeUpstream, client: httpx.AsyncClient
) -> None:
    fake.script(script.held_open(RUN))

    async with client.stream("POST", "/api/v1/chat", json={}) as response:
        assert await anext(response.aiter_raw()) == RUN
        assert fake.requests[0].outcome == "open"
    await fake.until(lambda fake: fake.requests[0].outcome == "left")


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

            record = fake.requests[0]
            assert record.outcome == "left"
            assert record.ended_seconds is not None
            assert record.ended_seconds >= record.started_seconds
            assert fake.waiting == []


async def test_disconnect_ends_a_scene(fake: FakeUpstream, client: httpx.AsyncClient) -> None:
    body = {"model": "tributary/demo-writer", "input": "very long", "stream": True}
    async with client.stream("POST", "/api/v1/chat", json=body) as response:
        await anext(response.aiter_raw())

    await fake.until(lambda fake: fake.disconnects == 1)
    assert 0 < fake.requests[0].bytes_written < 1_000_000


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


async def test_flood_ends_after_its_times(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.stream(Flood(text="data: x\n\n", times=1000)))

    assert (await ask_native("x")).content == b"data: x\n\n" * 1000


async def test_bytes_are_counted_with_framing(fake: FakeUpstream, ask_native: Ask) -> None:
    fake.script(script.stream("12345"))
    await ask_native("x")

    head, framed = fake.requests[0].bytes_written, len(b"5\r\n12345\r\n0\r\n\r\n")
    assert head > framed
    assert fake.requests[0].body == {"model": "tributary/demo-writer", "input": "x", "stream": True}


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
    assert b"canary" not in (await client.get("/control/state")).content


async def test_required_key_is_checked(subtests: pytest.Subtests) -> None:
    for path in ["/api/v1/models", "/v1/models"]:
        with subtests.test(path):
            async with FakeUpstream(required_key="right-key-123") as fake, connect(fake) as client:
                without = await client.get(path)
                wrong = await client.get(path, headers={"Authorization": "Bearer wrong-key-123"})
                right = await client.get(path, headers={"Authorization": "Bearer right-key-123"})

            assert [answer.status_code for answer in (without, wrong, right)] == [401, 401, 200]
            assert wrong.json()["error"]["code"] == "invalid_api_key"
            assert "wrong-ke…" in wrong.json()["error"]["message"]
            assert "right-ke" not in wrong.text


async def test_until_times_out(fake: FakeUpstream) -> None:
    with pytest.raises(TimeoutError):
        await fake.until(lambda fake: fake.posts == 1, timeout=0.01)


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


async def test_closing_the_fake_ends_its_answers(client: httpx.AsyncClient) -> None:
    async with FakeUpstream() as other:
        other.script(script.never())
        asking = asyncio.ensure_future(client.post(f"{other.url}/api/v1/chat", json={}))
        await other.until(lambda fake: fake.posts == 1)

    with pytest.raises(httpx.TransportError):
        await asking
    assert other.requests[0].outcome == "closed"
    assert other.disconnects == 0


async def test_answers_run_concurrently(fake: FakeUpstream, client: httpx.AsyncClient) -> None:
    fake.script(script.stream(Gate(name="all"), RUN, times=50))
    asking = [asyncio.ensure_future(client.post("/api/v1/chat", json={})) for _ in range(50)]

    await fake.until(lambda fake: len(fake.waiting) == 50)
    fake.release("all")

    assert {answer.content for answer in await asyncio.gather(*asking)} == {RUN}


def test_fake_in_a_thread_serves_synchronous_code() -> None:
    fake = FakeUpstream.start_in_thread()
    answers: list[httpx.Response] = []
    fake.script(script.stream(Gate(name="go"), RUN))

    def ask() -> None:
        answers.append(httpx.post(f"{fake.url}/api/v1/chat", json={}, trust_env=False))

    asking = threading.Thread(target=ask)
    asking.start()
    fake.wait_until(lambda fake: fake.waiting == ["go"])
    fake.release("go")
    asking.join()
    fake.stop()

    assert answers[0].content == RUN
    with pytest.raises(httpx.ConnectError):
        httpx.get(fake.url, trust_env=False)


def test_fake_in_a_thread_sees_a_disconnect() -> None:
    fake = FakeUpstream.start_in_thread()
    fake.script(script.stream("data: 1\n\n", Hang()))

    with httpx.stream("POST", f"{fake.url}/api/v1/chat", json={}, trust_env=False) as response:
        next(response.iter_raw())
    fake.wait_until(lambda fake: fake.disconnects == 1)
    fake.stop()

    assert fake.requests[0].outcome == "left"


def test_wait_until_times_out() -> None:
    fake = FakeUpstream.start_in_thread()

    with pytest.raises(TimeoutError):
        fake.wait_until(lambda fake: fake.posts == 1, timeout=0.01)
    fake.stop()
