"""Prompts, earlier answers and request bodies for the request tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chat.dialects.base import (
    AssistantTurn,
    Dialect,
    Image,
    Prompt,
    Reply,
    Turn,
    UpstreamRequest,
    UserTurn,
)
from chat.events import (
    Extension,
    JsonObject,
    MessageItem,
    OutputItem,
    ProviderInfo,
    Result,
    Stats,
    Status,
    Stop,
    StopReason,
    ToolCallItem,
)

PICTURE = Image(media_type="image/png", data="aGk=")
CLIENT = ProviderInfo(type="function")
HELLO = UserTurn.of("Hello")
MORE = UserTurn.of("More?")
SAID = MessageItem(content="Hi.")


def make_prompt(*turns: Turn, **members: object) -> Prompt:
    return Prompt(model="m", turns=turns or (HELLO,), **members)


def body_of(request: UpstreamRequest) -> JsonObject:
    body = json.loads(request.body)
    assert isinstance(body, dict)
    return body


def body_and_notes(
    dialect: Dialect, *turns: Turn, **members: object
) -> tuple[JsonObject, tuple[str, ...]]:
    """What is sent for a prompt, and what the person is told about it."""
    request = dialect.request(make_prompt(*turns, **members))
    return body_of(request), request.notes


def make_answer(
    *items: OutputItem,
    native: object = None,
    is_native: bool = True,
    replies: tuple[Reply, ...] = (),
    asks: Sequence[JsonObject] = (),
    status: Status = "completed",
    reason: StopReason = "stop",
    raw: str | None = None,
    meta: JsonObject | None = None,
) -> AssistantTurn:
    """An earlier answer with these items, of this upstream unless ``is_native`` is false."""
    ext = Extension(
        status=status,
        stop=Stop(reason=reason, raw=raw),
        native=native,
        asks=list(asks),
        meta=meta or {},
    )
    result = Result(model_instance_id="m", output=list(items), stats=Stats(), ext=ext)
    return AssistantTurn(result=result, is_native=is_native, replies=replies)


def make_call(output: str | None = None, **members: object) -> ToolCallItem:
    """A call of the tool ``tide``, answered where there is an output."""
    defaults: dict[str, object] = {
        "tool": "tide",
        "call_id": "c1",
        "provider_info": CLIENT,
        "arguments": {"n": 1},
        "arguments_raw": '{"n": 1}',
    }
    return ToolCallItem(output=output, **{**defaults, **members})
