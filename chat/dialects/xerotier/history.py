"""Answers that ended with a question, as turns that a chat-completions request can contain.

A question is a call of the model whose result is the user's reply. The state that the upstream
wants back came as ``x_ask_user.pending_state`` and is stored in the native turn under
``pending_state``: ``{"assistantContent", "toolCalls"}``. That member itself is never sent back.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from chat.dialects.base import AssistantTurn, Reply, Turn
from chat.dialects.stream import object_of, objects_of, text_of
from chat.dialects.xerotier.activity import bare_name
from chat.dialects.xerotier.fields import PENDING_STATE
from chat.events import (
    Json,
    JsonObject,
    MessageItem,
    ProviderInfo,
    Result,
    ToolCallItem,
)

# Every call needs an answer, or the request is refused.
NOT_RUN = "This call was not run."
NOT_ANSWERED = "Nobody answered this question."
DECLINED = "The person declined to answer this question."
ASK_TOOL = "x_ask_user"


def with_replies(turns: Sequence[Turn], *, as_calls: bool) -> tuple[Turn, ...]:
    """The turns with every question and its reply in a form that can be sent as messages.

    ``as_calls``: as a call and its result, if this upstream had asked. If not, the reply stays in
    ``replies``, which become a normal message of the user.
    """
    return tuple(
        _turn(turn, as_calls=as_calls) if isinstance(turn, AssistantTurn) else turn
        for turn in turns
    )


def _turn(turn: AssistantTurn, *, as_calls: bool) -> AssistantTurn:
    native = turn.result.ext.native
    native = native if isinstance(native, dict) else {}
    state = object_of(native, PENDING_STATE)
    native = {name: value for name, value in native.items() if name != PENDING_STATE}
    if not turn.result.ext.asks:
        return _with(turn, native=native or None) if state else turn
    if turn.replies and turn.is_native and as_calls:
        return _answered(turn, native, state)
    return _as_text(turn, native, state)


def _with(turn: AssistantTurn, *, native: Json) -> AssistantTurn:
    ext = msgspec.structs.replace(turn.result.ext, native=native)
    return replace(turn, result=msgspec.structs.replace(turn.result, ext=ext))


# --- as text -------------------------------------------------------------------------


def _as_text(turn: AssistantTurn, native: JsonObject, state: JsonObject) -> AssistantTurn:
    """The text and the questions as the assistant's own text, without the calls."""
    questions = [text_of(ask, "question") for ask in turn.result.ext.asks]
    said = text_of(native, "content") or text_of(state, "assistantContent")
    texts = [text for text in (said.strip(), *questions) if text]
    output = [*turn.result.output, MessageItem(content="\n\n".join(filter(None, questions)))]
    result = msgspec.structs.replace(turn.result, output=output)
    content = {**native, "role": "assistant", "content": "\n\n".join(texts)}
    return _with(replace(turn, result=result), native=content)


# --- as calls with results ------------------------------------------------------------


def _answered(turn: AssistantTurn, native: JsonObject, state: JsonObject) -> AssistantTurn:
    """The turn as the upstream left it, every call with its result."""
    calls = _with_ids([*objects_of(state, "toolCalls"), *objects_of(native, "tool_calls")])
    outputs = _known_outputs(turn.result)
    replies = {reply.ask_id: reply for reply in turn.replies}
    for ask in turn.result.ext.asks:
        call = _call_of(ask, calls, outputs)
        outputs[call["id"]] = _content(ask, replies.get(text_of(ask, "ask_id")))
    content = text_of(state, "assistantContent") or text_of(native, "content")
    message = {**native, "role": "assistant", "content": content or None, "tool_calls": calls}
    result = msgspec.structs.replace(
        turn.result,
        output=[_item(call, outputs.get(call["id"], NOT_RUN)) for call in calls],
        ext=msgspec.structs.replace(turn.result.ext, native=message, asks=[]),
    )
    return AssistantTurn(result=result, is_native=True)


def _with_ids(calls: list[JsonObject]) -> list[JsonObject]:
    """Each call once, however often it was reported; a call without an id gets one."""
    by_id: dict[str, JsonObject] = {}
    for number, call in enumerate(calls):
        identity = text_of(call, "id") or f"call_{number}"
        by_id.setdefault(identity, {**call, "id": identity})
    return list(by_id.values())


def _known_outputs(result: Result) -> dict[str, str]:
    return {
        item.call_id: item.output
        for item in result.output
        if isinstance(item, ToolCallItem) and item.call_id and item.output is not None
    }


def _call_of(ask: JsonObject, calls: list[JsonObject], outputs: dict[str, str]) -> JsonObject:
    """The call that asked: the one that the question names, else one whose tool asks and that has
    no result yet, else a new one at the end of ``calls``."""
    named = text_of(ask, "call_id")
    for call in calls:
        if named and call["id"] == named:
            return call
    for call in calls:
        is_free = call["id"] not in outputs and not named
        if is_free and bare_name(text_of(object_of(call, "function"), "name")) == "ask_user":
            return call
    arguments = msgspec.json.encode({"question": text_of(ask, "question")}).decode()
    function = {"name": ASK_TOOL, "arguments": arguments}
    made = {"id": named or text_of(ask, "ask_id"), "type": "function", "function": function}
    calls.append(made)
    return made


def _content(ask: JsonObject, reply: Reply | None) -> str:
    """The text for the model, as JSON."""
    answer: JsonObject = {"askUserId": text_of(ask, "ask_id"), "answer": NOT_ANSWERED}
    if reply is not None:
        answer["answer"] = reply.text or ", ".join(reply.selected)
        answer["selected"] = list(reply.selected)
        answer["fields"] = dict(reply.fields)
    if reply is not None and reply.is_declined:
        answer |= {"answer": DECLINED, "declined": True}
    return msgspec.json.encode(answer).decode()


def _item(call: JsonObject, output: str) -> ToolCallItem:
    function = object_of(call, "function")
    return ToolCallItem(
        tool=text_of(function, "name"),
        arguments={},
        arguments_raw=text_of(function, "arguments"),
        output=output,
        provider_info=ProviderInfo(type="function"),
        call_id=call["id"],
    )
