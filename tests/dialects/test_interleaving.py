"""Blocks that arrive interleaved fold to what they give one after another.

Which blocks may interleave is the dialect's business: calls with an index, choices, content blocks,
output items, vendor events between chunks. Within a block the order stands, and blocks begin in
order, because items are numbered as they appear.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.events import JsonObject
from chat.result import Fold, finish
from chat.wire.sse import Frame
from tests.support.selection import examples

# What begins with blanks or a tag may still turn out to be reasoning: its item comes later.
LETTERS = st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="<")
PIECES = st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=4)


@dataclass(frozen=True, kw_only=True)
class Story:
    """One answer: frames before, blocks that may interleave, frames after."""

    head: list[Frame] = field(default_factory=list)
    blocks: list[list[Frame]]
    tail: list[Frame] = field(default_factory=list)
    # Frames of a block that have come before its item is there.
    opening: int = 1


def frame(payload: JsonObject, event: str | None = None) -> Frame:
    return Frame(event, json.dumps(payload))


def arguments_of(pieces: Sequence[str]) -> list[str]:
    """The text of a JSON object, in as many pieces and one more."""
    text = json.dumps({"words": list(pieces)})
    step = max(1, len(text) // (len(pieces) + 1))
    return [text[start : start + step] for start in range(0, len(text), step)]


# --- the dialects -----------------------------------------------------------------------


def chat_calls(texts: list[list[str]]) -> Story:
    def chunk(index: int, call: JsonObject) -> Frame:
        delta = {"tool_calls": [{"index": index, **call}]}
        return frame({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]})

    blocks = []
    for index, pieces in enumerate(texts):
        first = chunk(index, {"id": f"call_{index}", "function": {"name": f"tool_{index}"}})
        rest = [chunk(index, {"function": {"arguments": text}}) for text in arguments_of(pieces)]
        blocks.append([first, *rest])
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return Story(blocks=blocks, tail=[frame(end), Frame(None, "[DONE]")])


def chat_choices(texts: list[list[str]]) -> Story:
    def chunk(index: int, delta: JsonObject, reason: str | None = None) -> Frame:
        choice = {"index": index, "delta": delta, "finish_reason": reason}
        return frame({"id": "c", "model": "m", "choices": [choice]})

    blocks = [
        [
            *(chunk(index, {"reasoning_content": text}) for text in pieces),
            *(chunk(index, {"content": text}) for text in pieces),
            chunk(index, {}, "stop"),
        ]
        for index, pieces in enumerate(texts)
    ]
    return Story(blocks=blocks, tail=[Frame(None, "[DONE]")])


def lmstudio_calls(texts: list[list[str]]) -> Story:
    """Calls have no id there: they are told apart by name, so every name comes once."""

    def event(name: str, **members: object) -> Frame:
        return frame({"type": name, **members}, name)

    provider = {"type": "ephemeral_mcp", "server_label": "river"}
    blocks = []
    for number, pieces in enumerate(texts):
        tool = {"tool": f"tool_{number}", "provider_info": provider}
        arguments = {"words": pieces}
        blocks.append(
            [
                event("tool_call.start", **tool),
                event("tool_call.arguments", arguments=arguments, **tool),
                event("tool_call.success", arguments=arguments, output="".join(pieces), **tool),
            ]
        )
    return Story(
        head=[event("chat.start", model_instance_id="m")],
        blocks=blocks,
        tail=[event("chat.end", result={"model_instance_id": "m", "output": [], "stats": {}})],
    )


def anthropic_blocks(texts: list[list[str]]) -> Story:
    def event(name: str, **members: object) -> Frame:
        return frame({"type": name, **members}, name)

    def block(index: int, pieces: list[str]) -> list[Frame]:
        if index % 3 == 2:
            start = {"type": "tool_use", "id": f"toolu_{index}", "name": "find", "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": t} for t in arguments_of(pieces)]
        elif index % 3 == 1:
            start = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": text} for text in pieces]
        else:
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": text} for text in pieces]
            deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
        return [
            event("content_block_start", index=index, content_block=start),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    return Story(
        head=[event("message_start", message=message)],
        blocks=[block(index, pieces) for index, pieces in enumerate(texts)],
        tail=[
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
            event("message_stop"),
        ],
    )


def responses_items(texts: list[list[str]]) -> Story:
    def event(name: str, **members: object) -> Frame:
        return frame({"type": f"response.{name}", **members}, f"response.{name}")

    def message(index: int, pieces: list[str]) -> list[Frame]:
        place = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
        part = {"type": "output_text", "text": "".join(pieces), "annotations": []}
        item = {"id": f"msg_{index}", "type": "message", "role": "assistant"}
        return [
            event("output_item.added", output_index=index, item={**item, "content": []}),
            event("content_part.added", part={**part, "text": ""}, **place),
            *(event("output_text.delta", delta=text, **place) for text in pieces),
            event("output_text.done", text=part["text"], **place),
            event("content_part.done", part=part, **place),
            event("output_item.done", output_index=index, item={**item, "content": [part]}),
        ]

    def call(index: int, pieces: list[str]) -> list[Frame]:
        place = {"item_id": f"fc_{index}", "output_index": index}
        text = json.dumps({"words": pieces})
        item = {"id": f"fc_{index}", "type": "function_call", "call_id": f"c_{index}", "name": "f"}
        return [
            event("output_item.added", output_index=index, item={**item, "arguments": ""}),
            *(
                event("function_call_arguments.delta", delta=piece, **place)
                for piece in arguments_of(pieces)
            ),
            event("function_call_arguments.done", arguments=text, **place),
            event("output_item.done", output_index=index, item={**item, "arguments": text}),
        ]

    response = {"id": "resp_1", "model": "m"}
    return Story(
        head=[event("created", response={**response, "status": "in_progress"})],
        blocks=[
            (call if index % 2 else message)(index, pieces) for index, pieces in enumerate(texts)
        ],
        tail=[event("completed", response={**response, "status": "completed", "output": []})],
        # A message becomes an item with its first text, not when it is announced.
        opening=3,
    )


def xerotier_families(texts: list[list[str]]) -> Story:
    """Text, and families of vendor events that stand between its chunks."""

    def artifact(number: int, pieces: list[str]) -> list[Frame]:
        name = {"artifact_id": f"art_{number}", "title": "Notes", "content_type": "text/plain"}
        return [
            frame({"type": "x_artifact.created", **name, "content": "first"}),
            *(frame({"type": "x_artifact.updated", **name, "content": text}) for text in pieces),
        ]

    def text(pieces: list[str]) -> list[Frame]:
        return [
            frame({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": piece}}]})
            for piece in pieces
        ]

    blocks = [
        artifact(number, pieces) if number else text(pieces) for number, pieces in enumerate(texts)
    ]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return Story(blocks=blocks, tail=[frame(end), Frame(None, "[DONE]")])


STORIES: Mapping[str, tuple[str, Callable[[list[list[str]]], Story]]] = {
    "chat calls": ("openai_chat", chat_calls),
    "chat choices": ("openai_chat", chat_choices),
    "LM Studio calls": ("lmstudio", lmstudio_calls),
    "Messages blocks": ("anthropic_messages", anthropic_blocks),
    "Responses items": ("openai_responses", responses_items),
    "vendor events": ("xerotier", xerotier_families),
}


# --- the property -----------------------------------------------------------------------


def folded(name: str, frames: Sequence[Frame]) -> JsonObject:
    parser = dialects.get(name).parser(model="asked", options={})
    fold = Fold()
    for one in frames:
        fold.extend(parser.feed(one))
    finish(parser, fold)
    result = fold.result()
    # Where in the log a version was made depends on the order, of course.
    result.ext.artifacts = [
        {**entry, "versions": [{**v, "seq": 0} for v in entry.get("versions", [])]}
        for entry in result.ext.artifacts
    ]
    result.ext.artifacts.sort(key=lambda entry: str(entry["artifact_id"]))
    built: JsonObject = msgspec.to_builtins(result)
    return built


def interleaved(data: st.DataObject, story: Story) -> list[Frame]:
    """A drawn order of all frames: blocks begin in order, and each keeps its own."""
    blocks = story.blocks
    places = [0] * len(blocks)
    mixed: list[Frame] = []
    while any(place < len(block) for place, block in zip(places, blocks, strict=True)):
        begun = sum(place >= story.opening for place in places)
        open_blocks = [
            number
            for number, place in enumerate(places)
            if place < len(blocks[number]) and number <= begun
        ]
        number = data.draw(st.sampled_from(open_blocks))
        mixed.append(blocks[number][places[number]])
        places[number] += 1
    return mixed


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
@given(data=st.data(), texts=st.lists(PIECES, min_size=2, max_size=4))
@examples(75)
def test_any_interleaving_folds_to_the_same_result(
    story: tuple[str, Callable[[list[list[str]]], Story]],
    data: st.DataObject,
    texts: list[list[str]],
) -> None:
    name, build = story
    told = build(texts)
    one_after_another = [one for block in told.blocks for one in block]
    mixed = interleaved(data, told)

    expected = folded(name, [*told.head, *one_after_another, *told.tail])

    assert expected["ext"]["status"] in ("completed", "waiting")
    assert len(expected["output"]) + len(expected["ext"].get("alternatives", [])) > 0
    assert folded(name, [*told.head, *mixed, *told.tail]) == expected
