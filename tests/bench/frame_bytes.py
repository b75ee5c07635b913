"""Bytes that a viewer is sent for the bytes that the LLM server sent, and what the difference costs.

``make bench BENCH=bytes``: answers of six kinds at 50 deltas a second, with frames every 50 ms, as an OpenAI
stream and as the live connection's frames. No sockets: the same code makes the frames.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from statistics import median
from uuid import UUID

import msgspec

from chat.live.frames import Envelope, OpenBlocks, ShortPatch
from chat.rendering.patches import Answer
from tests.rendering.stories import cut, told

CHARACTERS = 12_000
SIZES = (24, 5)
# The first frame has the beginning and two deltas; then, at 50 deltas a second and a frame every 50 ms,
# each has two or three.
FIRST_DUE = 4
MS_PER_DELTA = 20
HEAD = {
    "id": "chatcmpl-9f3ab27e",
    "object": "chat.completion.chunk",
    "created": 1767225600,
    "model": "acme/river-8b",
}
ROUNDS = 1
RUN = UUID("018f0000000070008000000000000001")

PROSE = "The river is high today and the mill stands still while the water rises at the old weir. "
MARKED = "The **river** is high and `mill` stands *still* while **the water** rises at `weir_2`. "
CODE = "def level(gauge: int) -> float:\n    return gauge * 7.5  # metres above the weir\n\n"
ITEMS = "- The **river** at the weir is high today, the mill stands\n"
ROWS = "| the weir | `7.5` m | rising since the morning |\n"
KINDS: dict[str, tuple[str, str, int]] = {
    # Head, unit, units in a block.
    "plain": ("", PROSE, 20),
    "bold and code": ("", MARKED, 20),
    "list": ("", ITEMS, 30),
    "table": ("| where | level | trend |\n|---|---|---|\n", ROWS, 40),
    "code": ("```python\n", CODE, 30),
    "mixed": ("", "", 1),
}
BAR = 0.8
BARS = {"table": 1.5}


def text_of(kind: str) -> str:
    if kind == "mixed":
        parts = [_block(other, units=4) for other in KINDS if other != "mixed"]
        block = "## A heading\n\n" + "".join(parts)
    else:
        block = _block(kind, units=KINDS[kind][2])
    return (block * (CHARACTERS // len(block) + 1))[:CHARACTERS]


def _block(kind: str, *, units: int) -> str:
    head, unit, _ = KINDS[kind]
    ends = {"code": "```\n\n", "list": "\nThat is the list.\n\n"}
    return head + unit * units + ends.get(kind, "\n\n")


def report() -> str:
    lines = [
        "Bytes to the browser for the bytes of the LLM server, and CPU of making the frames",
        "",
    ]
    lines.append(
        f"{'kind':<16}{'characters':>10}{'whole':>9}{'kept':>9}{'bar':>7}{'CPU kept / whole':>20}"
    )
    for kind in KINDS:
        for size in SIZES:
            lines.append(_row(kind, size))
    return "\n".join(lines)


def _row(kind: str, size: int) -> str:
    text = text_of(kind)
    upstream = sum(len(_chunk(part)) for part in cut(text, size))
    whole, kept = _sent(text, size, _whole_frames), _sent(text, size, _kept_frames)
    spent: dict[Callable[[str, int], Iterator[str]], list[float]] = {
        _whole_frames: [],
        _kept_frames: [],
    }
    for _ in range(ROUNDS):
        for make, seconds in spent.items():
            started = time.process_time()
            _sent(text, size, make)
            seconds.append(time.process_time() - started)
    ratio = median(spent[_kept_frames]) / median(spent[_whole_frames])
    bar = BARS.get(kind, BAR)
    verdict = "" if kept / upstream <= bar else "  MISSED"
    return f"{kind:<16}{size:>10}{whole / upstream:>9.2f}{kept / upstream:>9.2f}{bar:>7}{ratio:>20.2f}{verdict}"


def _sent(text: str, size: int, make: Callable[[str, int], Iterator[str]]) -> int:
    return sum(len(frame.encode()) for frame in make(text, size))


def _whole_frames(text: str, size: int) -> Iterator[str]:
    for answer, after in _steps(text, size):
        yield _framed(answer, after, answer.patches_since(after))


def _kept_frames(text: str, size: int) -> Iterator[str]:
    held = OpenBlocks(RUN)
    for answer, after in _steps(text, size):
        short, _ = held.shorten(answer.changes_since(after), after)
        held.confirm()
        yield _framed(answer, after, short)


def _steps(text: str, size: int) -> Iterator[tuple[Answer, int]]:
    """The answer at each frame, and where the frame before ended."""
    answer, after, due = Answer(RUN.hex), 0, FIRST_DUE
    for event in (story := told(text, size=size)):
        answer.apply(msgspec.structs.replace(event, t=MS_PER_DELTA * (event.seq or 0)))
        if event.seq >= due or event is story[-1]:
            yield answer, after
            after = answer.seq
            due += 2 + (due % 5 == 0)


def _framed(answer: Answer, after: int, content: str | list[ShortPatch]) -> str:
    frame = Envelope(
        run=RUN.hex,
        after=after,
        seq=answer.seq,
        check="0" * 8,
        content=content,
        live=answer.state == "live",
    )
    return frame.encoded()


def _chunk(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return (
        b"data: %b\n\n" % json.dumps({**HEAD, "choices": [choice]}, separators=(",", ":")).encode()
    )
