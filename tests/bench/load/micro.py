"""Two figures without any process: Markdown while it grows, and the decoder of the wire."""

import time
from collections.abc import Callable, Iterator

from httpx_sse._decoders import SSEDecoder, SSELineDecoder

from chat import events
from chat.rendering.markdown import render
from chat.rendering.patches import Answer
from chat.wire.sse import Decoder
from tests.bench.load.arithmetic import median, median_ratio
from tests.bench.load.marks import Chunks, around, mark

ANSWER_BYTES = 50_000
# At 50 deltas a second, a frame each 50 ms holds two or three of them.
DELTAS_PER_FRAME = 2.5
EVENTS = 20_000
ROUNDS = 5
READ_BYTES = 4096


def figures() -> dict[str, float]:
    """Medians of interleaved rounds: seconds, microseconds, and the ratios of rows 17 and 18."""
    deltas = list(_deltas("markdown", ANSWER_BYTES))
    single, merged = _reads()
    # Tables and caches that a first call fills.
    _streamed(deltas)
    works: dict[str, Callable[[], object]] = {
        "streamed": lambda: _streamed(deltas),
        "rendered": lambda: render("".join(deltas)),
        "ours": lambda: _decoded(merged),
        "theirs": lambda: _decoded_by_httpx_sse(merged),
        "ours_single": lambda: _decoded(single),
        "theirs_single": lambda: _decoded_by_httpx_sse(single),
    }
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            spent[name].append(_seconds(work))
    per_event = 1e6 / EVENTS
    return {
        "markdown_streamed_ms": 1000 * median(spent["streamed"]),
        "markdown_render_ms": 1000 * median(spent["rendered"]),
        "markdown_ratio": median_ratio(spent["streamed"], spent["rendered"]),
        "decoder_us": per_event * median(spent["ours"]),
        "httpx_sse_us": per_event * median(spent["theirs"]),
        "decoder_ratio": median_ratio(spent["ours"], spent["theirs"]),
        "decoder_single_us": per_event * median(spent["ours_single"]),
        "httpx_sse_single_us": per_event * median(spent["theirs_single"]),
        "decoder_single_ratio": median_ratio(spent["ours_single"], spent["theirs_single"]),
    }


def _deltas(kind: str, size: int) -> Iterator[str]:
    number = 0
    while size > 0:
        before, behind = around(kind, number)
        text = f"{before}{mark(number, 0).decode()}{behind}"
        yield text
        size -= len(text)
        number += 1


def _streamed(deltas: list[str]) -> None:
    """As the hub does it: events are applied, and each frame is made once."""
    answer = Answer("0" * 32)
    answer.apply(events.ChatStart(model_instance_id="m", seq=1))
    answer.apply(events.MessageStart(item=0, seq=2))
    due, shown = DELTAS_PER_FRAME, 2
    for number, text in enumerate(deltas):
        answer.apply(events.MessageDelta(item=0, content=text, seq=number + 3))
        if number + 1 >= due:
            due += DELTAS_PER_FRAME
            answer.patches_since(shown)
            shown = answer.seq
    answer.apply(events.MessageEnd(item=0, seq=len(deltas) + 3))
    answer.patches_since(shown)


def _reads() -> tuple[list[bytes], list[bytes]]:
    """An OpenAI stream an event at a time, and as it comes from a busy socket."""
    chunks = Chunks("plain", 1000)
    lines = [chunks.at(number % 1000, number).split(b"\r\n", 1)[1][:-2] for number in range(EVENTS)]
    whole = b"".join(lines)
    merged = [whole[start : start + READ_BYTES] for start in range(0, len(whole), READ_BYTES)]
    return lines, merged


def _decoded(reads: list[bytes]) -> None:
    decoder = Decoder()
    count = sum(len(decoder.feed(read)) for read in reads)
    assert count == EVENTS, count


def _decoded_by_httpx_sse(reads: list[bytes]) -> None:
    lines, decoder = SSELineDecoder(), SSEDecoder()
    count = 0
    for read in reads:
        for line in lines.decode(read.decode()):
            count += decoder.decode(line.rstrip("\n")) is not None
    assert count == EVENTS, count


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
