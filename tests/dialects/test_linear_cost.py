"""Four times the deltas cost four times the work: counted in calls and in characters."""

import json
import sys
from collections.abc import Callable

import pytest

from chat import dialects
from chat.pieces import LONG_PIECE
from chat.result import Fold, finish
from chat.wire.sse import Decoder

FEW, MANY = 600, 2_400
# What does not depend on the number of deltas may be saved, never added.
MOST = 4.4


def openai_line(delta: dict[str, object]) -> bytes:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def lmstudio_line(name: str, **members: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode()


def openai_text(count: int) -> bytes:
    return openai_line({"content": "word "}) * count + b"data: [DONE]\n\n"


def openai_general_way(count: int) -> bytes:
    return openai_line({"content": "word ", "mood": "calm"}) * count + b"data: [DONE]\n\n"


def openai_surrogates(count: int) -> bytes:
    halves = openai_line({"content": "\ud83c"}) + openai_line({"content": "\udf0a"})
    return halves * (count // 2) + b"data: [DONE]\n\n"


def openai_arguments(count: int) -> bytes:
    first = openai_line(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"a":"'}}]}
    )
    piece = openai_line({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]})
    last = openai_line({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]})
    return first + piece * count + last + b"data: [DONE]\n\n"


def openai_arguments_without_index(count: int) -> bytes:
    return openai_line({"tool_calls": [{"function": {"name": "t", "arguments": "}"}}]}) * count


def openai_thinking_inside(count: int) -> bytes:
    return openai_line({"content": "<think>"}) + openai_line({"content": "</thi"}) * count


def openai_blanks(count: int) -> bytes:
    return openai_line({"content": " "}) * count


def openai_alternating(count: int) -> bytes:
    pair = openai_line({"reasoning": "a"}) + openai_line({"content": "b"})
    return pair * (count // 2)


def openai_details(count: int) -> bytes:
    return openai_line({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}) * count


def openai_annotations(count: int) -> bytes:
    return openai_line({"annotations": [{"type": "url_citation"}]}) * count


def openai_many_items(count: int) -> bytes:
    details = openai_line({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]})
    text = openai_line({"content": "b", "annotations": [{"type": "file"}]})
    return (details + text) * (count // 2)


def openai_many_calls(count: int) -> bytes:
    lines = (
        openai_line(
            {"tool_calls": [{"id": f"c{number}", "function": {"name": "t", "arguments": "{}"}}]}
        )
        for number in range(count)
    )
    return b"".join(lines) + b"data: [DONE]\n\n"


def lmstudio_text(count: int) -> bytes:
    end = lmstudio_line(
        "chat.end", result={"output": [{"type": "message", "content": "word " * count}]}
    )
    return lmstudio_line("message.delta", content="word ") * count + end


def lmstudio_calls(count: int) -> bytes:
    call = lmstudio_line("tool_call.start", tool="t") + lmstudio_line(
        "tool_call.success", tool="t", arguments={}, output="o"
    )
    return call * (count // 2)


def lmstudio_unknown(count: int) -> bytes:
    return lmstudio_line("weather", wind=1) * count


def own_text(count: int) -> bytes:
    """Our own stream, read back."""
    relayed = {"run": "r", "seq": 1, "item": 0}
    return (
        lmstudio_line("message.start", **relayed)
        + lmstudio_line("message.delta", content="word ", **relayed) * count
    )


def own_many_items(count: int) -> bytes:
    return b"".join(
        lmstudio_line(name, run="r", seq=1, item=number)
        for number in range(count // 2)
        for name in ("message.start", "message.end")
    )


def completions_text(count: int) -> bytes:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "text": "word "}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n" + completions_more(count)


def completions_more(count: int) -> bytes:
    """Chunks that none of the quick ways takes."""
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "text": "word ", "token": 7}]}
    return (b"data: " + json.dumps(chunk).encode() + b"\n\n") * count


def openai_tool_statuses(count: int) -> bytes:
    members = {"tool_call_id": "a", "name": "t", "status": "UPDATING", "message": "on"}
    return f"event: tool_status\ndata: {json.dumps(members)}\n\n".encode() * count


STREAMS: list[tuple[str, Callable[[int], bytes]]] = [
    ("openai_chat", openai_text),
    ("lmstudio", lmstudio_text),
    ("openai_chat", openai_general_way),
    ("openai_chat", openai_surrogates),
    ("openai_chat", openai_arguments),
    ("openai_chat", openai_arguments_without_index),
    ("openai_chat", openai_thinking_inside),
    ("openai_chat", openai_blanks),
    ("openai_chat", openai_alternating),
    ("openai_chat", openai_details),
    ("openai_chat", openai_annotations),
    ("openai_chat", openai_many_items),
    ("openai_chat", openai_many_calls),
    ("lmstudio", lmstudio_calls),
    ("lmstudio", lmstudio_unknown),
    ("lmstudio", own_text),
    ("lmstudio", own_many_items),
    ("openai_completions", completions_text),
    ("openai_chat", openai_tool_statuses),
]


def run(dialect: str, data: bytes) -> None:
    decoder, state = Decoder(), Fold()
    parser = dialects.get(dialect).parser(model="m", options={})
    for start in range(0, len(data), 4096):
        for frame in decoder.feed(data[start : start + 4096]):
            state.extend(parser.feed(frame))
    finish(parser, state)


def calls_of(dialect: str, data: bytes) -> int:
    """Calls of functions, those written in C included."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        run(dialect, data)
    finally:
        sys.setprofile(None)
    return count


def lines_of(dialect: str, data: bytes) -> int:
    """Lines executed: a loop over all that came before is no call, but it is lines."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        run(dialect, data)
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    ("dialect", "stream"), STREAMS[:2], ids=[s.__name__ for _, s in STREAMS[:2]]
)
def test_long_answer_costs_what_its_deltas_cost(
    dialect: str, stream: Callable[[int], bytes]
) -> None:
    assert calls_of(dialect, stream(20_000)) <= MOST * calls_of(dialect, stream(5_000))


@pytest.mark.parametrize(("dialect", "stream"), STREAMS, ids=[s.__name__ for _, s in STREAMS])
def test_calls_grow_with_the_deltas(dialect: str, stream: Callable[[int], bytes]) -> None:
    assert calls_of(dialect, stream(MANY)) <= MOST * calls_of(dialect, stream(FEW))


@pytest.mark.parametrize(("dialect", "stream"), STREAMS, ids=[s.__name__ for _, s in STREAMS])
def test_lines_grow_with_the_deltas(dialect: str, stream: Callable[[int], bytes]) -> None:
    assert lines_of(dialect, stream(MANY)) <= MOST * lines_of(dialect, stream(FEW))


def test_fold_keeps_pieces_until_it_is_asked() -> None:
    parser = dialects.get("lmstudio").parser(model="m", options={})
    state, decoder = Fold(), Decoder()
    for frame in decoder.feed(lmstudio_text(10_000)):
        state.extend(parser.feed(frame))

    (part,) = state._parts.values()

    # Short ones became longer ones; the whole was never put together.
    assert max(map(len, part.pieces)) < 2 * LONG_PIECE
    assert len("".join(part.pieces)) == 10_000 * len("word ")
