"""Conversations with a third-party server, compared with what OpenAI's own client reads."""

import asyncio
from collections.abc import Callable

import pytest

from chat import dialects
from chat.events import (
    MessageDelta,
    MessageItem,
    ReasoningItem,
    Result,
    ToolCallItem,
    decode_result,
    encode,
)
from chat.models import Run
from chat.result import fold, plain_text
from chat.runs.runner import Runner
from chat.runs.segments import read_events, read_raw
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from chat.upstreams.probe import probe
from chat.upstreams.probe_requests import ProbeTarget
from tests.third_party.conftest import MODEL, Room, Server, threads

pytestmark = [pytest.mark.third_party]

# The first answer waits until the server has loaded its model.
PATIENCE_SECONDS = 120.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await threads.call(holds):
            await asyncio.sleep(0.02)


async def until_ended(run: Run) -> Run:
    await until(lambda: Run.objects.filter(pk=run.pk, finished_at__isnull=False).exists())
    return await threads.call(Run.objects.get, pk=run.pk)


async def ask(room: Room, text: str, **parameters: object) -> tuple[Run, Result]:
    run = await threads.call(room.send, text, **parameters)
    ended = await until_ended(run)
    return ended, decode_result(ended.result)


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def assistant(text: object) -> dict[str, object]:
    return {"role": "assistant", "content": text}


async def test_connection_test_passes_and_finds_the_model(server: Server) -> None:
    policy = AddressPolicy.parse("any")
    target = ProbeTarget(base_url=server.url, dialect=dialects.get("openai_chat"))

    async with open_client(policy) as client:
        steps = [step async for step in probe(client, policy, target)]

    ended = {step.name: step for step in steps if step.state != "running"}
    # A model this small was not made for tools; the server may take them or not.
    tools = ended.pop("tools")
    assert tools.state in ("ok", "skipped")
    assert {step.state for step in ended.values()} == {"ok"}
    assert ended["models"].detail == MODEL


async def test_answer_is_logged_as_the_server_sent_it(
    server: Server, room: Room, runner: Runner
) -> None:
    run, result = await ask(room, "Show me some code")

    events = await threads.call(read_events, run)
    reference = server.ask_openai_client(user("Show me some code"))
    assert run.status == "completed"
    assert plain_text(result) == reference["text"]
    assert (run.input_tokens, run.output_tokens) == (
        reference["input_tokens"],
        reference["output_tokens"],
    )
    assert result.ext.stop.raw == reference["finish_reason"] == "stop"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert encode(fold(events)).decode() == run.result


async def test_answer_arrives_in_pieces(room: Room, runner: Runner) -> None:
    run, _ = await ask(room, "Show me some code")

    raw = await threads.call(read_raw, run)
    assert raw.count(b"data: ") > 20
    assert None not in (run.request_sent_at, run.first_event_at, run.first_token_at)


async def test_finish_reason_without_done_marker_completes_an_answer(
    room: Room, runner: Runner
) -> None:
    run, result = await ask(room, "Hello")

    assert b"[DONE]" not in await threads.call(read_raw, run)
    assert run.status == "completed"
    assert result.ext.meta["no_done"] is True


async def test_follow_up_sends_the_earlier_turns(
    server: Server, room: Room, runner: Runner
) -> None:
    _, greeting = await ask(room, "Hello")
    run, result = await ask(room, "Which five?")

    earlier = [user("Hello"), assistant(plain_text(greeting))]
    reference = server.ask_openai_client(*earlier, user("Which five?"))
    without_earlier = server.ask_openai_client(user("Which five?"))
    assert plain_text(result) == reference["text"]
    assert run.input_tokens == reference["input_tokens"] != without_earlier["input_tokens"]


async def test_reasoning_and_text_are_separated(server: Server, room: Room, runner: Runner) -> None:
    question = "Think: when is the river highest?"

    _, result = await ask(room, question)

    reference = server.ask_openai_client(user(question))
    thought, message = result.output
    assert isinstance(thought, ReasoningItem)
    assert isinstance(message, MessageItem)
    assert (thought.content, message.content) == (reference["reasoning"], reference["text"])
    assert thought.content.strip()


async def test_tool_call_waits_for_its_result(server: Server, room: Room, runner: Runner) -> None:
    run, result = await ask(room, "Measure the water level")

    reference = server.ask_openai_client(user("Measure the water level"))
    (call,) = [item for item in result.output if isinstance(item, ToolCallItem)]
    assert run.status == "waiting"
    assert [{"name": call.tool, "arguments": call.arguments_raw}] == reference["calls"]
    assert call.arguments == {"place": "old bridge", "unit": "cm"}


async def test_answer_at_its_token_limit_is_incomplete(room: Room, runner: Runner) -> None:
    run, result = await ask(room, "Go on without an end", max_tokens=40)

    assert run.status == "incomplete"
    assert result.ext.stop.reason == "length"
    assert run.output_tokens == 40


async def test_stop_keeps_the_text_and_frees_the_server(room: Room, runner: Runner) -> None:
    run = await threads.call(room.send, "Go on without an end", max_tokens=6000)
    await until(lambda: any(isinstance(event, MessageDelta) for event in read_events(run)))

    await threads.call(room.stop)

    stopped = await until_ended(run)
    again = await until_ended(await threads.call(room.try_again, max_tokens=5))
    assert stopped.status == "stopped"
    assert plain_text(decode_result(stopped.result))
    assert again.status == "incomplete"
    assert again.message_id != stopped.message_id


async def test_error_in_the_stream_keeps_the_servers_message(room: Room, runner: Runner) -> None:
    run, result = await ask(room, "Hello", frequency_penalty=-2)

    assert run.status == "failed"
    assert "`penalty` has to be a strictly positive float" in run.error_message
    assert result.ext.error is not None


async def test_unknown_model_fails_with_the_servers_status(room: Room, runner: Runner) -> None:
    room.model = "nobody/nothing"

    run, result = await ask(room, "Hello")

    assert run.status == "failed"
    assert result.ext.error is not None
    assert (result.ext.error.status, result.ext.error.kind) == (500, "server")
