"""Every byte that was read is kept: in frames, in comments, or as what belonged to no event."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.conversations.actions import conversation
from chat.dialects import bitseek
from chat.events import Event, UsageUpdate
from chat.runs.log import RunLog, nothing
from chat.runs.reader import LARGE_READ_BYTES, AnswerReader, Outcome
from chat.runs.segments import read_raw
from chat.upstreams.client import UpstreamAnswer
from chat.wire.sse import MAX_EVENT_BYTES
from tests.fixtures import ROOT, STREAMS, parser_of
from tests.runs.helpers import threads, until, until_ended
from tests.support.run_fixtures import Execute
from tests.support.selection import examples
from tests.support.upstream.script import Gate, lmstudio_events, lmstudio_run, stream


class Source:
    """An answer that arrives in these portions, and then hangs if ``hangs``."""

    is_event_stream = True

    def __init__(self, portions: Sequence[bytes], *, hangs: bool = False) -> None:
        self.portions = portions
        self.hangs = hangs
        self.read = b""
        self._left = deque(portions)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while self._left:
            yield self.arrived()
        if self.hangs:
            await asyncio.Event().wait()

    def arrived(self) -> bytes:
        """The next portion: while the last one waits for a commit, or when it is asked for."""
        portion = self._left.popleft() if self._left else b""
        self.read += portion
        return portion


class MemoryLog:
    """A log that only remembers the bytes."""

    has_room = True
    limit_reached = 0

    def __init__(self) -> None:
        self.raw = b""
        self.drain_source = nothing

    def add(self, events: Iterable[Event], *, raw: bytes = b"") -> None:
        self.raw += raw

    @property
    def has_begun(self) -> bool:
        return bool(self.raw)

    def request_commit(self) -> None:
        """There is always a commit to come."""

    async def flushed(self, seconds: float) -> None:
        """Commits at once, with what has come until then."""
        self.drain_source()


async def read(recording: Path, source: Source) -> tuple[bytes, Outcome | None]:
    """What was kept, and how reading ended (``None``: it was cancelled)."""
    kept = MemoryLog()
    reader = AnswerReader(parser_of(recording), cast(RunLog, kept), elapsed=lambda: 0)
    reading = asyncio.create_task(reader.read(cast(UpstreamAnswer, source)))
    if not source.hangs:
        outcome = await reading
        return kept.raw, outcome
    while len(source.read) < sum(map(len, source.portions)):
        await asyncio.sleep(0)
        if reading.done():
            return kept.raw, reading.result()
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    return kept.raw, None


def portions(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    recording=st.sampled_from(STREAMS),
    cuts=st.lists(st.integers(0, 20_000), max_size=6),
    length=st.integers(0, 20_000),
    after=st.sampled_from([b"", b"\n\n", b": still here\n", b"data: {", b"\xff\xfe"]),
    hangs=st.booleans(),
)
@examples(150)
def test_all_that_was_read_is_kept(
    recording: Path, cuts: list[int], length: int, after: bytes, *, hangs: bool
) -> None:
    # Whole or broken off, ended by itself, by the terminator or by a person.
    data = recording.read_bytes()
    data = data[: length % (len(data) + 1)] + after
    source = Source(portions(data, cuts), hangs=hangs)

    kept, _ = asyncio.run(read(recording, source))

    assert kept == source.read


class StuckLog(MemoryLog):
    """A log whose commit does not end."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0

    async def flushed(self, seconds: float) -> None:
        self.pauses += 1
        await asyncio.Event().wait()


class LateSource(Source):
    """Its last portion has arrived and is not read yet."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for portion in self.portions[:-1]:
            yield portion

    def arrived(self) -> bytes:
        return self.portions[-1]


PLAIN = next(path for path in STREAMS if path.parent.name == "openai_chat")


async def test_stop_keeps_what_arrived_after_the_last_read() -> None:
    data = PLAIN.read_bytes()
    source, kept = LateSource([data[:300], data[300:900]]), StuckLog()
    reader = AnswerReader(parser_of(PLAIN), cast(RunLog, kept), elapsed=lambda: 0)
    reading = asyncio.create_task(reader.read(cast(UpstreamAnswer, source)))
    while not kept.pauses:
        await asyncio.sleep(0)

    reading.cancel()
    await asyncio.wait({reading})

    assert reading.cancelled()
    assert kept.raw == data[:900]


@pytest.mark.parametrize("name", ["usage_after_the_reason", "usage_before_and_after_the_reason"])
async def test_token_counts_may_come_in_a_read_after_the_finish_reason(name: str) -> None:
    recording = ROOT / "bitseek" / f"{name}.sse"
    frames = recording.read_bytes().split(b"\n\n")
    source = Source([frame + b"\n\n" for frame in frames if frame])
    parser = parser_of(recording)
    reader = AnswerReader(parser, cast(RunLog, MemoryLog()), elapsed=lambda: 0)

    outcome = await reader.read(cast(UpstreamAnswer, source))

    usage = [event.usage for event in parser.close(outcome.cause) if isinstance(event, UsageUpdate)]
    assert [each.total_tokens for each in usage] == [24]


async def test_nobody_waits_long_for_token_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitseek, "LATE_USAGE_SECONDS", 0.01)
    recording = ROOT / "bitseek" / "plain.sse"
    source = Source([recording.read_bytes()], hangs=True)
    reader = AnswerReader(parser_of(recording), cast(RunLog, MemoryLog()), elapsed=lambda: 0)

    outcome = await reader.read(cast(UpstreamAnswer, source))

    assert outcome.cause == "eof"


async def test_large_reads_do_not_wait_for_a_commit() -> None:
    comment = b": " + b"x" * LARGE_READ_BYTES + b"\n\n"
    source, kept = Source([comment] * 3), StuckLog()
    reader = AnswerReader(parser_of(PLAIN), cast(RunLog, kept), elapsed=lambda: 0)

    await reader.read(cast(UpstreamAnswer, source))

    assert kept.raw == comment * 3
    assert kept.pauses == 0


def test_oversized_event_is_kept_as_far_as_it_was_read() -> None:
    begin = b'event: chat.start\ndata: {"type":"chat.start","model_instance_id":"m"}\n\n'
    # It may repeat what came before it.
    too_much = b"x" * (MAX_EVENT_BYTES + 2 * len(begin))
    source = Source([begin + b"data: ", too_much, b"never read\n\n"])
    recording = next(path for path in STREAMS if path.parent.name == "lmstudio")

    kept, outcome = asyncio.run(read(recording, source))

    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.kind == "answer_limit"
    assert kept == source.read
    assert b"never read" not in kept


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "ended"])
async def test_bytes_of_no_event_are_stored(begin: Execute, *, is_stopped: bool) -> None:
    whole = lmstudio_events(lmstudio_run("Hello."))
    half = whole[: whole.index(b"Hello") + 2]
    ends = stream(whole, b": the end")
    run = await begin(stream(half, Gate(name="more")) if is_stopped else ends)

    if is_stopped:
        await until(lambda: read_raw(run))
        await threads.call(conversation.stop_run, run.requested_by, run)
    ended = await until_ended(run)

    kept = await threads.call(read_raw, ended)
    assert kept == half if is_stopped else kept.startswith(whole)
