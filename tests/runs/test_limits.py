"""Every wait and every size of a run is limited, and a stop closes the upstream in each phase."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pytest_django import Settings

from chat import events as canonical
from chat.conversations.actions import conversation
from chat.dialects import items
from chat.models import Attempt, Run, RunSegment, User
from chat.runs import answer_memory
from chat.runs.event_buffer import LogEntry
from chat.runs.reader import LARGE_READ_BYTES, TURN_BYTES
from chat.wire.sse import Decoder, Frame
from tests.runs.helpers import (
    HALF,
    HALF_AN_ANSWER,
    REST,
    has_logged,
    text_of,
    threads,
    until,
    until_ended,
)
from tests.runs.plain_answers import ANSWERS, words
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
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
    lmstudio_event,
    lmstudio_events,
    lmstudio_run,
    never,
    openai_chunks,
    stream,
)

COMMENT = b": still here\n\n"
WITHOUT_A_BEGINNING = {"no head": never(), "no body": stream(Head(), Hang())}
PHASES = {
    "before the head": never(),
    "after the head": stream(Head(), Hang()),
    "before the first event": stream(COMMENT, Hang()),
    "in the stream": stream(HALF, Gate(name="never")),
}


def comments(times: int, *, every_seconds: float) -> list[bytes | AnyStep]:
    return [COMMENT, Pause(seconds=every_seconds)] * times


async def until_disconnected(fake: FakeUpstream) -> None:
    await fake.until(lambda fake: fake.disconnects == 1)


# --- waits ------------------------------------------------------------------------------


async def test_server_that_never_begins_times_out(
    fake: FakeUpstream, execute: Execute, settings: Settings, subtests: pytest.Subtests
) -> None:
    settings.UPSTREAM_HEAD_SECONDS = 0.1

    for label, script in WITHOUT_A_BEGINNING.items():
        with subtests.test(msg=label):
            fake.clear()

            ended = await execute(script)

            assert (ended.status, ended.error_kind) == ("failed", "timeout")
            assert fake.posts == 1
            await until_disconnected(fake)


async def test_many_events_at_once_are_parsed_in_turns(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 0
    parsed: list[tuple[int, int]] = []
    feed = Decoder.feed

    def observed(decoder: Decoder, data: bytes) -> list[Frame]:
        parsed.append((turn, len(data)))
        return feed(decoder, data)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Decoder, "feed", observed)
    letters = [
        {"type": "message.start"},
        {"type": "message.delta", "content": "a"},
        {"type": "message.end"},
    ]
    counting = asyncio.create_task(count_turns())

    ended = await execute(stream(lmstudio_events([*letters * 900, *lmstudio_run("The end.")])))

    counting.cancel()
    assert text_of(ended).endswith("The end.")
    assert sum(size for _, size in parsed) > 4 * TURN_BYTES
    # Neither is more parsed at once, nor is there a second large read without a turn for others.
    by_turn: Counter[int] = Counter()
    for number, size in parsed:
        by_turn[number] += size
    assert max(by_turn.values()) <= TURN_BYTES + LARGE_READ_BYTES


async def test_silence_in_mid_stream_fails_and_keeps_the_text(
    fake: FakeUpstream, execute: Execute, settings: Settings
) -> None:
    settings.UPSTREAM_IDLE_SECONDS = 0.2

    ended = await execute(stream(HALF, Hang()))

    assert (ended.status, ended.error_kind) == ("failed", "idle_timeout")
    assert text_of(ended) == "Hello from"
    await until_disconnected(fake)


async def test_comments_are_signs_of_life(execute: Execute, settings: Settings) -> None:
    settings.UPSTREAM_IDLE_SECONDS = 0.5

    ended = await execute(stream(HALF, *comments(8, every_seconds=0.1), REST))

    assert ended.status == "completed"


async def test_comments_are_no_progress(
    fake: FakeUpstream, execute: Execute, settings: Settings
) -> None:
    settings.UPSTREAM_QUIET_SECONDS = 0.2

    ended = await execute(stream(HALF, *comments(2000, every_seconds=0.03), REST))

    assert (ended.status, ended.error_kind) == ("failed", "idle_timeout")
    assert text_of(ended) == "Hello from"
    await until_disconnected(fake)


async def test_run_has_a_time_limit(execute: Execute, settings: Settings) -> None:
    settings.RUN_SECONDS = 0.3

    ended = await execute(stream(HALF, Hang()))

    assert (ended.status, ended.error_kind) == ("failed", "timeout")
    assert text_of(ended) == "Hello from"


# --- sizes ------------------------------------------------------------------------------


async def test_endless_event_is_cut_off(fake: FakeUpstream, execute: Execute) -> None:
    ended = await execute(endless_line())

    assert (ended.status, ended.error_kind) == ("failed", "answer_limit")
    await until_disconnected(fake)


WORDS = 20


def cut_answer(dialect: str) -> tuple[bytes, bytes]:
    """An answer in the bytes of this dialect, and its beginning with some of its words."""
    frames = ANSWERS[dialect](WORDS)
    first = next(at for at, frame in enumerate(frames) if b'"The "' in frame)
    return b"".join(frames), b"".join(frames[: first + WORDS // 2])


@pytest.mark.parametrize("dialect", ANSWERS)
async def test_answer_is_cut_at_the_last_byte_and_kept_so_far(
    execute: Execute, settings: Settings, subtests: pytest.Subtests, *, dialect: str
) -> None:
    whole, beginning = cut_answer(dialect)
    half = WORDS // 2
    # Limit -> words that are kept.
    limits = {len(beginning): half, len(beginning) - 1: half - 1, len(whole): WORDS}

    for limit, kept in limits.items():
        with subtests.test(msg=f"{kept} words"):
            settings.RUN_BYTES = limit

            ended = await execute(stream(whole), dialect=dialect)

            is_whole = kept == WORDS
            assert ended.status == ("completed" if is_whole else "failed")
            assert ended.error_kind == ("" if is_whole else "answer_limit")
            assert text_of(ended) == "".join(words(kept)).strip()


async def test_answer_without_end_is_cut_off(
    fake: FakeUpstream, execute: Execute, settings: Settings
) -> None:
    settings.RUN_BYTES = 2 * 1024 * 1024

    ended = await execute(stream(HALF, Flood(base64=ANSWERS["lmstudio"](1)[2])))

    assert ended.error_message == ("The answer was stopped because it reached the limit of 2 MB.")
    assert text_of(ended).startswith("Hello from The The ")
    await until_disconnected(fake)


async def test_an_answer_ends_at_its_share_and_a_short_one_does_not(
    fake: FakeUpstream, begin: Execute, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ANSWERS_BYTES = 200_000
    monkeypatch.setattr(answer_memory, "LEAST_SHARE_BYTES", 50_000)
    monkeypatch.setattr(answer_memory, "LARGE_TEXT_BYTES", 1000)
    short = await begin(HALF_AN_ANSWER)
    await until(lambda: has_logged(short, b"from"))
    delta = lmstudio_event({"type": "message.delta", "content": "water " * 1000})

    ended = [await begin(stream(HALF, Flood(base64=delta))) for _ in range(3)]
    ended = [await until_ended(run) for run in ended]
    fake.release("more")

    assert {run.error_kind for run in ended} == {"answer_limit"}
    # The share counts the items of an answer beside its text, so eight deltas can reach it; what
    # arrived with the read that passed it is kept, too.
    assert all(8 * 6000 <= len(text_of(run)) < 2_000_000 for run in ended)
    assert (await until_ended(short)).status == "completed"


@pytest.mark.parametrize(("piece", "size"), [("water ", 6), ("écrit ", 6), ("вода ", 10)])
def test_text_counts_as_it_is_when_its_pieces_are_joined(piece: str, size: int) -> None:
    deltas = [canonical.MessageDelta(item=0, content=piece)] * 1000
    entries = [LogEntry(seq=1, body=b"{}")] * 1000

    held = answer_memory.held_bytes(deltas, entries)

    assert held == pytest.approx(1000 * size, rel=0.2)


async def test_endless_arguments_fail_only_their_call(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
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

    ended = await execute(stream(openai_chunks(chunks)), dialect="openai_chat")

    call, message = canonical.decode_result(ended.result).output
    assert isinstance(call, canonical.InvalidToolCallItem)
    assert (call.metadata.type, call.reason) == ("invalid_arguments", items.TOO_LONG)
    assert call.arguments_raw is not None
    assert len(call.arguments_raw) <= 100
    assert message.content == "Done."
    assert ended.status == "completed"


# --- stop -------------------------------------------------------------------------------


def has_read(run: Run, script: Script) -> bool:
    """Returns whether what the script sends has been read: text shows in the log."""
    has_text = any(isinstance(step, Gate) for step in script.steps)
    return not has_text or RunSegment.objects.filter(run=run).exists()


async def test_a_stop_closes_the_upstream_in_every_phase(
    fake: FakeUpstream, begin: Execute, alice: User, subtests: pytest.Subtests
) -> None:
    for label, script in PHASES.items():
        with subtests.test(msg=label):
            fake.clear()
            run = await begin(script)
            await fake.until(lambda fake: fake.posts == 1)
            await until(lambda run=run, script=script: has_read(run, script))

            await threads.call(conversation.stop_run, alice, run)
            ended = await until_ended(run)
            await until_disconnected(fake)

            assert ended.status == "stopped"
            assert fake.posts == 1


async def test_stop_between_attempts_sends_no_second(
    fake: FakeUpstream, begin: Execute, alice: User
) -> None:
    error = {"error": {"message": "So."}}
    run = await begin(answer(error, status=503, headers={"Retry-After": "25"}))
    await until(lambda: Attempt.objects.filter(run=run, outcome="refused").exists())

    await threads.call(conversation.stop_run, alice, run)
    ended = await until_ended(run)

    assert ended.status == "stopped"
    assert fake.posts == 1
