"""What an answer costs grows with its length, and no faster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from uuid import uuid4

import pytest

from chat import events as canonical
from chat.dialects import DIALECTS
from chat.events import Ending
from chat.models import Run, RunSegment
from chat.runs import segments
from chat.runs.ending import end_log
from chat.runs.event_buffer import LogEntry, MemoryEventBuffer
from chat.runs.log import RunLog
from chat.runs.segments import SegmentWrite, read_events
from chat.runs.writer import SegmentWriter
from chat.wire.sse import Decoder
from tests.runs.helpers import threads
from tests.support.run_fixtures import Claim
from tests.support.selection import EXHAUSTIVE, sample

SHORT, LONG = (5_000, 20_000) if EXHAUSTIVE else (2_000, 8_000)
# Four times the length may cost four times the work, and a tenth of that for luck.
RATIO = 4.4

SHAPES: dict[str, Callable[[int], str]] = {
    "paragraphs": lambda index: "water \n\n" if index % 20 == 19 else "water ",
    "one paragraph": lambda index: "water ",
    "one list": lambda index: "- water\n",
    "one table": lambda index: "| a | b |\n|---|---|\n" if index == 0 else "| 1 | 2 |\n",
    "one fence": lambda index: "```\n" if index == 0 else "water()\n",
}


def stream_of(deltas: int, shape: str) -> bytes:
    def frame(data: dict[str, object]) -> bytes:
        return b"data: %b\n\n" % json.dumps(data).encode()

    chunks = [
        frame({"choices": [{"index": 0, "delta": {"content": SHAPES[shape](index)}}]})
        for index in range(deltas)
    ]
    end = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join([*chunks, end, b"data: [DONE]\n\n"])


class Counter:
    """Counts every call, of Python and of C, on this thread."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Counter:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1


def log_of(writer: SegmentWriter, run: Run) -> RunLog:
    return RunLog(run, runner=run.runner_id, writer=writer, buffer=MemoryEventBuffer())


async def work(writer: SegmentWriter, run: Run, deltas: int, shape: str) -> tuple[int, int]:
    """Calls made, and bytes in the log, for one answer from its bytes to its result."""
    log = log_of(writer, run)
    parser = DIALECTS["openai_chat"].parser(model="m", options={})
    decoder = Decoder()
    body = stream_of(deltas, shape)
    with Counter() as counter:
        for start in range(0, len(body), 700):
            for frame in decoder.feed(body[start : start + 700]):
                log.add(parser.feed(frame), raw=frame.raw)
        closing = parser.close("eof")
        ending = parser.ending
        assert isinstance(ending, Ending)
        ended = await end_log(log, closing, ending, t=0, threads=threads)
    assert len(ended.result.output) == 1
    bodies = await threads.call(
        lambda: list(RunSegment.objects.filter(run=run).values_list("body", flat=True))
    )
    return counter.calls, sum(len(bytes(body)) for body in bodies)


@pytest.mark.parametrize("shape", sample(list(SHAPES), 2))
async def test_cost_grows_with_the_length(writer: SegmentWriter, claim: Claim, shape: str) -> None:
    short = await work(writer, await threads.call(claim), SHORT, shape)
    long = await work(writer, await threads.call(claim), LONG, shape)

    assert long[0] <= RATIO * short[0]
    assert long[1] <= RATIO * short[1]


async def test_adjacent_deltas_merge_and_keep_every_letter(
    writer: SegmentWriter, claim: Claim
) -> None:
    run = await threads.call(claim)

    await work(writer, run, SHORT, "one list")

    texts = [
        event.content
        for event in await threads.call(read_events, run)
        if isinstance(event, canonical.MessageDelta)
    ]
    assert "".join(texts) == "- water\n" * SHORT
    assert len(texts) < SHORT


def test_few_texts_write_any_number_of_runs_on_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: set[str] = set()

    def noted(text: str, values: list[int]) -> list[tuple[int]]:
        texts.add(text)
        return [(run_pk,) for run_pk in values[::6]]

    monkeypatch.setattr(segments, "fetch", noted)
    entries = [LogEntry(1, b"{}")]
    writes = [SegmentWrite(run_pk=pk, runner=uuid4(), entries=entries) for pk in range(300)]

    for count in range(1, 301):
        assert segments._insert_segments(writes[:count]) == set(range(count))

    assert len(texts) == 8
