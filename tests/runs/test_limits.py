"""Every wait and every size of a run has an end, and a stop closes the upstream in each phase."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.demo.fake import FakeUpstream
from chat.demo.script import (
    AnyStep,
    Flood,
    Gate,
    Hang,
    Head,
    Pause,
    Script,
    answer,
    chunk,
    endless_line,
    never,
    openai_chunks,
    stream,
)
from chat.dialects import items
from chat.models import Attempt, Run, RunSegment, User
from chat.result import plain_text
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

BEGUN = TEXT[: TEXT.rindex(b"event: ", 0, TEXT.index(b"river"))]
REST = TEXT[len(BEGUN) :]
COMMENT = b": still here\n\n"


def text_of(run: Run) -> str:
    return plain_text(canonical.decode_result(run.result))


def comments(times: int, *, every_seconds: float) -> list[bytes | AnyStep]:
    steps: list[bytes | AnyStep] = []
    for _ in range(times):
        steps += [COMMENT, Pause(seconds=every_seconds)]
    return steps


async def end_of(
    make_run: MakeRun, start_runner: StartRunner, fake: FakeUpstream, *scripts: Script
) -> Run:
    fake.script(*scripts)
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    return await until_ended(run)


# --- waits ------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [never(), stream(Head(), Hang())], ids=["no head", "no body"])
async def test_a_server_that_never_begins_is_given_up_after_the_time_for_a_head(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    settings: Settings,
    script: Script,
) -> None:
    settings.UPSTREAM_HEAD_SECONDS = 0.2

    ended = await end_of(make_run, start_runner, fake, script)

    assert (ended.status, ended.error_kind) == ("failed", "timeout")
    assert fake.posts == 1
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)


async def test_silence_in_the_middle_ends_the_run_and_keeps_the_text(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, settings: Settings
) -> None:
    settings.UPSTREAM_IDLE_SECONDS = 0.2

    ended = await end_of(make_run, start_runner, fake, stream(BEGUN, Hang()))

    assert (ended.status, ended.error_kind) == ("failed", "idle_timeout")
    assert text_of(ended) == "Hello from"
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)


async def test_comments_are_signs_of_life(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, settings: Settings
) -> None:
    settings.UPSTREAM_IDLE_SECONDS = 0.5

    waiting = comments(8, every_seconds=0.1)
    ended = await end_of(make_run, start_runner, fake, stream(BEGUN, *waiting, REST))

    assert ended.status == "completed"


async def test_comments_are_no_progress(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, settings: Settings
) -> None:
    settings.UPSTREAM_QUIET_SECONDS = 0.3

    waiting = comments(200, every_seconds=0.05)
    ended = await end_of(make_run, start_runner, fake, stream(BEGUN, *waiting, REST))

    assert (ended.status, ended.error_kind) == ("failed", "idle_timeout")
    assert text_of(ended) == "Hello from"
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)


async def test_a_run_may_not_go_on_for_ever(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, settings: Settings
) -> None:
    settings.RUN_SECONDS = 0.3

    ended = await end_of(make_run, start_runner, fake, stream(BEGUN, Hang()))

    assert (ended.status, ended.error_kind) == ("failed", "timeout")
    assert text_of(ended) == "Hello from"


# --- sizes ------------------------------------------------------------------------------


async def test_an_event_without_end_is_cut_off(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    ended = await end_of(make_run, start_runner, fake, endless_line())

    assert (ended.status, ended.error_kind) == ("failed", "too_large")
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)


async def test_an_answer_without_end_is_cut_off_and_kept_so_far(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, settings: Settings
) -> None:
    settings.RUN_BYTES = 50_000
    event = b'event: message.delta\ndata: {"type":"message.delta","content":" la"}\n\n'

    ended = await end_of(make_run, start_runner, fake, stream(BEGUN, Flood(base64=event)))

    assert (ended.status, ended.error_kind) == ("failed", "too_large")
    assert text_of(ended).startswith("Hello from  la la ")
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)


async def test_arguments_without_end_fail_their_call_and_the_run_goes_on(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "MAX_ARGUMENT_CHARACTERS", 100)
    first = {"index": 0, "id": "a", "function": {"name": "write", "arguments": '{"text":"'}}
    more = {"index": 0, "function": {"arguments": "x" * 40}}
    chunks = [
        chunk({"tool_calls": [first]}),
        *[chunk({"tool_calls": [more]})] * 20,
        chunk({"content": "Done."}),
        chunk({}, finish_reason="stop"),
    ]
    fake.script(stream(openai_chunks(chunks)))
    run = await threads.call(make_run, base_url=f"{fake.url}/v1", dialect="openai_chat")

    await start_runner()
    ended = await until_ended(run)

    call, message = canonical.decode_result(ended.result).output
    assert isinstance(call, canonical.InvalidToolCallItem)
    assert (call.metadata.type, call.reason) == ("invalid_arguments", items.TOO_LONG)
    assert call.arguments_raw is not None
    assert len(call.arguments_raw) <= 100
    assert message.content == "Done."
    assert ended.status == "completed"


# --- stop -------------------------------------------------------------------------------


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No doorbell joins these tests to their runner: it looks by itself, more often than once
    a second."""
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.05)


async def stopped(alice: User, run: Run) -> Run:
    await threads.call(verbs.stop_run, alice, run)
    return await until_ended(run)


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(never(), id="before the head"),
        pytest.param(stream(Head(), Hang()), id="after the head"),
        pytest.param(stream(COMMENT, Hang()), id="before the first event"),
        pytest.param(stream(BEGUN, Gate(name="never")), id="in the stream"),
    ],
)
async def test_a_stop_closes_the_upstream_in_every_phase(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    alice: User,
    script: Script,
) -> None:
    fake.script(script)
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await fake.until(lambda fake: fake.posts == 1)
    await until(lambda: has_begun(run, script))

    ended = await stopped(alice, run)
    await fake.until(lambda fake: fake.disconnects == 1, timeout=20)

    assert ended.status == "stopped"
    assert fake.posts == 1


def has_begun(run: Run, script: Script) -> bool:
    """Whether what the script sends has been read: of text it shows in the log."""
    has_text = any(isinstance(step, Gate) for step in script.steps)
    return not has_text or RunSegment.objects.filter(run=run).exists()


@pytest.mark.usefixtures("quick_looks")
async def test_a_stop_between_two_attempts_asks_no_second_time(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    fake.script(answer({"error": {"message": "So."}}, status=503, headers={"Retry-After": "25"}))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await until(lambda: Attempt.objects.filter(run=run, outcome="refused").exists())

    ended = await stopped(alice, run)

    assert ended.status == "stopped"
    assert fake.posts == 1
