"""The cost of decoding grows linearly with the number of deltas."""

import pytest

from chat import dialects
from chat.dialects.items import Item
from chat.dialects.received_text import ReceivedText
from chat.events.text_buffer import LONG_PIECE
from chat.result import Fold
from tests.dialects.cost import MOST, Stream, assert_linear, calls_of
from tests.dialects.decoding import data_frame, frames_in
from tests.dialects.decoding import named_frame as lmstudio_line


def openai_line(delta: dict[str, object]) -> bytes:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]}
    return data_frame(chunk)


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
    """The first 256 blanks are held back, in case a tag follows; those after them are text."""
    return openai_line({"content": " "}) * (256 + count)


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
    return data_frame(chunk) + completions_more(count)


def completions_more(count: int) -> bytes:
    """Chunks that none of the quick ways takes."""
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "text": "word ", "token": 7}]}
    return data_frame(chunk) * count


def openai_tool_statuses(count: int) -> bytes:
    members = {"tool_call_id": "a", "name": "t", "status": "UPDATING", "message": "on"}
    return (b"event: tool_status\n" + data_frame(members)) * count


STREAMS: list[tuple[str, Stream]] = [
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


def test_cost_is_linear(subtests: pytest.Subtests) -> None:
    for dialect, stream in STREAMS:
        with subtests.test(stream.__name__):
            assert_linear(dialect, stream)


@pytest.mark.slow
def test_cost_of_a_long_answer_is_linear(subtests: pytest.Subtests) -> None:
    for dialect, stream in STREAMS[:2]:
        with subtests.test(stream.__name__):
            assert calls_of(dialect, stream(20_000)) <= MOST * calls_of(dialect, stream(5_000))


def openai_message_beside_deltas(count: int) -> bytes:
    """Some servers repeat the piece, others send the whole text so far once in a while."""
    entry = {"index": 0, "delta": {"content": "word "}, "message": {"content": "word "}}
    whole = {"index": 0, "delta": {}, "message": {"content": "word " * (count // 2)}}
    lines = [data_frame({"id": "c", "model": "m", "choices": [entry]})] * count
    lines[count // 2 :: count // 4] = [
        data_frame({"id": "c", "model": "m", "choices": [whole]})
        for _ in lines[count // 2 :: count // 4]
    ]
    return b"".join(lines)


def openai_thinking_twice(count: int) -> bytes:
    """Reasoning between marks goes on when the separate member begins."""
    begin = openai_line({"content": "<think>so "}) + openai_line({"reasoning_content": "aside"})
    return begin + openai_line({"content": "so "}) * count


def responses_thinking(count: int) -> bytes:
    item = {"type": "message", "id": "m1", "role": "assistant", "content": []}
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    event = "response.output_text.delta"
    return (
        data_frame({"type": "response.output_item.added", "output_index": 0, "item": item})
        + data_frame({"type": event, "delta": "<think>so ", **place})
        + data_frame({"type": event, "delta": "so ", **place}) * count
    )


JOINING: list[tuple[str, Stream, dict[str, object]]] = [
    ("openai_chat", openai_message_beside_deltas, {}),
    ("openai_chat", openai_text, {"cumulative_text": True}),
    ("openai_chat", openai_alternating, {"cumulative_text": True}),
    ("openai_chat", openai_thinking_twice, {}),
    ("openai_responses", responses_thinking, {}),
]


def test_received_text_is_joined_in_linear_time(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Characters of all texts that are put together, which are neither calls nor lines."""
    characters = 0

    def count_joined(owner: type[ReceivedText | Item]) -> None:
        joined = owner.joined

        def call(self: ReceivedText | Item) -> str:
            nonlocal characters
            text = joined(self)  # type: ignore[arg-type]
            characters += len(text)
            return text

        monkeypatch.setattr(owner, "joined", call)

    def joined_in(dialect: str, data: bytes, options: dict[str, object]) -> int:
        nonlocal characters
        characters = 0
        parser = dialects.get(dialect).parser(model="m", options=options)
        for frame in frames_in(data):
            parser.feed(frame)
        return characters

    count_joined(ReceivedText)
    count_joined(Item)
    for dialect, stream, options in JOINING:
        with subtests.test(stream.__name__, options=options):
            few, many = (joined_in(dialect, stream(count), options) for count in (1_000, 4_000))

            assert many <= MOST * few + 1_000


def test_fold_joins_text_only_on_demand() -> None:
    parser = dialects.get("lmstudio").parser(model="m", options={})
    state = Fold()
    for frame in frames_in(lmstudio_text(10_000)):
        state.extend(parser.feed(frame))

    (part,) = state._parts.values()

    # Short ones became longer ones; the whole was never put together.
    assert max(map(len, part.pieces)) < 2 * LONG_PIECE
    assert len("".join(part.pieces)) == 10_000 * len("word ")
