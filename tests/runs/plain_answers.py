"""Long answers in every dialect's own bytes: what its servers send for plain text."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

WORDS = (
    "The ",
    "river ",
    "is ",
    "high ",
    "today, ",
    "and ",
    "the ",
    "mill ",
    "stands ",
    "still.\n",
)


def words(count: int) -> Iterator[str]:
    for number in range(count):
        yield WORDS[number % len(WORDS)]


def _named(name: str, **members: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode()


def _data(payload: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


def lmstudio(count: int) -> list[bytes]:
    name = "acme/river-8b"
    result = {"model_instance_id": name, "output": [], "stats": {"total_output_tokens": count}}
    return [
        _named("chat.start", model_instance_id=name),
        _named("message.start"),
        *(_named("message.delta", content=word) for word in words(count)),
        _named("message.end"),
        _named("chat.end", result=result),
    ]


def openai_chat(count: int) -> list[bytes]:
    return _chunks(count, object="chat.completion.chunk")


def _chunks(count: int, **members: Any) -> list[bytes]:
    head = {"id": "chatcmpl-9f3a", "created": 1767225600, "model": "acme/river-8b", **members}

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _data({**head, "choices": [choice]})

    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words(count)),
        chunk({}, "stop"),
        b"data: [DONE]\n\n",
    ]


def bitseek(count: int) -> list[bytes]:
    head = {"id": "stream:chat:1b7c", "object": "chat.completion", "created": 1767225600}

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({**head, "model": "", "choices": [choice]})

    return [*(chunk({"content": word}) for word in words(count)), chunk({}, "stop")]


def xerotier(count: int) -> list[bytes]:
    return _chunks(
        count, object="chat.completion.chunk", service_tier=None, system_fingerprint=None
    )


def openai_completions(count: int) -> list[bytes]:
    head = {"id": "cmpl-77", "object": "text_completion", "created": 1767225600, "model": "acme/r"}

    def chunk(text: str, reason: str | None = None) -> bytes:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return _data({**head, "choices": [choice]})

    return [*(chunk(word) for word in words(count)), chunk("", "stop"), b"data: [DONE]\n\n"]


def anthropic_messages(count: int) -> list[bytes]:
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "acme-river",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 1},
    }
    block = {"type": "text", "text": ""}
    return [
        _named("message_start", message=message),
        _named("content_block_start", index=0, content_block=block),
        *(
            _named("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            for word in words(count)
        ),
        _named("content_block_stop", index=0),
        _named(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": count},
        ),
        _named("message_stop"),
    ]


def openai_responses(count: int) -> list[bytes]:
    frames: list[bytes] = []
    text = "".join(words(count))
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}

    def add(name: str, **members: Any) -> None:
        frames.append(_named(f"response.{name}", sequence_number=len(frames), **members))

    place = {"item_id": "msg_1", "output_index": 0}
    add("created", response={"id": "resp_1", "model": "acme/river", "status": "in_progress"})
    add("output_item.added", output_index=0, item={**item, "content": []})
    add("content_part.added", content_index=0, part={**part, "text": ""}, **place)
    for word in words(count):
        add("output_text.delta", content_index=0, delta=word, logprobs=[], **place)
    add("output_text.done", content_index=0, text=text, **place)
    add("content_part.done", content_index=0, part=part, **place)
    add("output_item.done", output_index=0, item={**item, "content": [part]})
    add("completed", response={"id": "resp_1", "status": "completed", "output": []})
    return frames


ANSWERS: Mapping[str, Callable[[int], list[bytes]]] = {
    "lmstudio": lmstudio,
    "openai_chat": openai_chat,
    "openai_completions": openai_completions,
    "openai_responses": openai_responses,
    "anthropic_messages": anthropic_messages,
    "bitseek": bitseek,
    "xerotier": xerotier,
}
