"""The cost of decoding, counted in calls and lines because clocks depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable

from chat import dialects
from chat.result import Fold, finish
from chat.wire.sse import Decoder
from tests.support.selection import EXHAUSTIVE

FEW, MANY = (600, 2_400) if EXHAUSTIVE else (100, 400)
# What does not depend on the number of deltas may be saved, never added.
MOST = 4.4

Stream = Callable[[int], bytes]


def assert_linear(dialect: str, stream: Stream, few: int = FEW) -> None:
    """Four times the deltas cost at most four times the calls and four times the lines."""
    few_calls, few_lines = calls_and_lines(dialect, stream(few))
    many_calls, many_lines = calls_and_lines(dialect, stream(few * MANY // FEW))

    assert many_calls <= MOST * few_calls
    assert many_lines <= MOST * few_lines


def calls_and_lines(dialect: str, data: bytes) -> tuple[int, int]:
    """Calls include functions written in C. A loop over all that came before is no call, but it
    is lines."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        calls = calls_of(dialect, data)
    finally:
        sys.settrace(None)
    return calls, lines


def calls_of(dialect: str, data: bytes) -> int:
    calls = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        _decode(dialect, data)
    finally:
        sys.setprofile(None)
    return calls


def _decode(dialect: str, data: bytes) -> None:
    decoder, state = Decoder(), Fold()
    parser = dialects.get(dialect).parser(model="m", options={})
    for start in range(0, len(data), 4096):
        for frame in decoder.feed(data[start : start + 4096]):
            state.extend(parser.feed(frame))
    finish(parser, state)
