"""How fast a stream becomes events and a result, beside ``json.loads`` alone on the same data.

A whole decode is: bytes to frames, frame to canonical events, events to the fold, the result. The
frames come a few at a time, as they do from a socket. Rounds are interleaved and the median is
taken, so that a noisy machine disturbs both sides alike.
"""

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chat import dialects
from chat.dialects.base import Dialect
from chat.result import Fold, finish
from chat.wire.sse import Decoder
from tests.bench.streams import ANSWERS

DELTAS = 20_000
FRAMES_PER_READ = 8
ROUNDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Seconds of processor time for one whole answer, medians of all rounds."""

    dialect: str
    frames: int
    decode_seconds: float
    loads_seconds: float

    @property
    def ratio(self) -> float:
        return self.decode_seconds / self.loads_seconds

    @property
    def frames_per_second(self) -> float:
        return self.frames / self.decode_seconds


def measure(dialect: Dialect, *, deltas: int = DELTAS, rounds: int = ROUNDS) -> Figure:
    frames = ANSWERS[dialect.name](deltas)
    reads = [
        b"".join(frames[start : start + FRAMES_PER_READ])
        for start in range(0, len(frames), FRAMES_PER_READ)
    ]
    texts = [text for text in _data(reads) if text != "[DONE]"]
    decoding: list[float] = []
    loading: list[float] = []
    for _ in range(rounds):
        decoding.append(_seconds(lambda: decode(dialect, reads)))
        loading.append(_seconds(lambda: load(texts)))
    return Figure(
        dialect=dialect.name,
        frames=len(frames),
        decode_seconds=statistics.median(decoding),
        loads_seconds=statistics.median(loading),
    )


def _data(reads: Sequence[bytes]) -> list[str]:
    decoder = Decoder()
    return [frame.data for read in reads for frame in decoder.feed(read)]


def decode(dialect: Dialect, reads: Sequence[bytes]) -> Fold:
    decoder = Decoder()
    parser = dialect.parser(model="acme/river-8b", options={})
    fold = Fold()
    for read in reads:
        for frame in decoder.feed(read):
            fold.extend(parser.feed(frame))
    finish(parser, fold)
    return fold


def load(texts: Sequence[str]) -> None:
    for text in texts:
        json.loads(text)


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def report() -> str:
    lines = [
        f"Decoding: {DELTAS} text deltas, {FRAMES_PER_READ} frames a read, median of {ROUNDS} rounds",
        "",
        f"{'dialect':<20}{'events/s':>12}{'µs/frame':>10}{'json.loads':>12}{'ratio':>8}",
    ]
    for dialect in dialects.DIALECTS.values():
        figure = measure(dialect)
        per_frame = figure.decode_seconds / figure.frames * 1e6
        loads = figure.loads_seconds / figure.frames * 1e6
        lines.append(
            f"{figure.dialect:<20}{figure.frames_per_second:>12,.0f}{per_frame:>10.2f}"
            f"{loads:>12.2f}{figure.ratio:>8.2f}"
        )
    return "\n".join(lines)
