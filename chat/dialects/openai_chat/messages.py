"""A conversation as the ``messages`` of a chat-completions request."""

import hashlib
import re

import msgspec

from chat.dialects.base import (
    AssistantTurn,
    Document,
    Image,
    Prompt,
    UserTurn,
    data_url,
    recordings,
)
from chat.dialects.history import NO_ANSWER, answered_calls, exchanges, replies_text
from chat.dialects.parameters import Values
from chat.dialects.stream import object_of, objects_of, text_of
from chat.events import Json, JsonObject, OutputItem, ReasoningItem, Result, ToolCallItem

REASONING_MEMBERS = ("reasoning_content", "reasoning")
_REPLAYED_MEMBERS = (*REASONING_MEMBERS, "reasoning_details")


_NINE_LETTERS = re.compile(r"[A-Za-z0-9]{9}\Z")


def build_messages(prompt: Prompt, options: Values) -> list[JsonObject]:
    """The whole conversation. For an answer that is continued, the last messages are the results of
    its calls, or its text so far."""
    messages: list[JsonObject] = []
    for turn in prompt.turns:
        if isinstance(turn, UserTurn):
            messages.append({"role": "user", "content": _content(turn)})
        else:
            messages += _answer(turn, options)
    messages = _with_system(_joined(messages), prompt.system, str(options["system_role"]))
    if options["tool_call_ids"] == "nine_letters":
        for message in messages:
            _shorten_ids(message)
    return messages


def _with_system(messages: list[JsonObject], system: str, role: str) -> list[JsonObject]:
    if not system:
        return messages
    first: JsonObject = {"role": role, "content": system}
    return _joined([first, *messages]) if role == "user" else [first, *messages]


def _joined(messages: list[JsonObject]) -> list[JsonObject]:
    """Two adjacent messages of one role become one, because many templates refuse them."""
    joined: list[JsonObject] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and _is_continued(last, message):
            joined[-1] = {**last, **message, "content": _both(last["content"], message["content"])}
        else:
            joined.append(message)
    return joined


def _is_continued(message: JsonObject, following: JsonObject) -> bool:
    if message["role"] != following["role"] or message["role"] == "tool":
        return False
    return not (message.get("tool_calls") or message.get("function_call"))


def _both(first: Json, second: Json) -> Json:
    if isinstance(first, list) or isinstance(second, list):
        return [*_parts(first), *_parts(second)]
    texts = [text for text in (first, second) if text and text != NO_ANSWER]
    return "\n\n".join(texts) or first or second


def _parts(content: Json) -> list[Json]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _shorten_ids(message: JsonObject) -> None:
    if message.get("tool_call_id"):
        message["tool_call_id"] = _nine_letters(message["tool_call_id"])
    for call in objects_of(message, "tool_calls"):
        call["id"] = _nine_letters(call["id"])


def _nine_letters(identity: Json) -> str:
    """The same id for the same call in every request, in the nine characters that Mistral
    requires."""
    text = str(identity)
    return text if _NINE_LETTERS.match(text) else hashlib.sha256(text.encode()).hexdigest()[:9]


def _content(turn: UserTurn) -> Json:
    attached: list[Json] = [
        *(
            {"type": "image_url", "image_url": {"url": data_url(image)}}
            for image in turn.parts_of(Image)
        ),
        *(
            {"type": "file", "file": {"filename": file.name, "file_data": data_url(file)}}
            for file in turn.parts_of(Document)
        ),
        *(
            {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
            for kind, data in recordings(turn)
        ),
    ]
    if not attached:
        return turn.text
    return [{"type": "text", "text": turn.text}, *attached] if turn.text else attached


def _answer(turn: AssistantTurn, options: Values) -> list[JsonObject]:
    """An earlier answer. Only calls with a result are sent back, each followed by it, because an
    unanswered call would be refused."""
    native = turn.result.ext.native
    if turn.is_native and isinstance(native, dict) and _is_turn(native):
        messages = _native_messages(native, turn.result, options)
    else:
        messages = _rebuilt_messages(turn, options)
    if options["legacy_functions"]:
        messages = _legacy(messages)
    if turn.replies:
        messages.append({"role": "user", "content": replies_text(turn)})
    return messages


def _is_turn(native: JsonObject) -> bool:
    """Returns whether this turn is one of chat completions, not of another API of the server."""
    content = native.get("content")
    is_text = content is None or isinstance(content, str | list)
    return native.get("role") == "assistant" and is_text


def _native_messages(native: JsonObject, result: Result, options: Values) -> list[JsonObject]:
    """The turn in the upstream's own form."""
    answered = {call.call_id: call for call in answered_calls(result)}
    message = {name: value for name, value in native.items() if name != "tool_calls"}
    calls = [
        {name: value for name, value in call.items() if name != "legacy"}
        for call in objects_of(native, "tool_calls")
        if text_of(call, "id") in answered
    ]
    if calls:
        message["tool_calls"] = calls
    if not _wants_reasoning(options, has_calls=bool(calls)):
        message = {k: v for k, v in message.items() if k not in _REPLAYED_MEMBERS}
    if not calls and options["replay_reasoning"] != "always":
        # A turn with calls keeps them: the API refuses it without its signed reasoning.
        message.pop("thinking_blocks", None)
    member = str(options["reasoning_member"])
    if member != "as_received":
        message = {(member if k in REASONING_MEMBERS else k): v for k, v in message.items()}
    return [_filled(message), *(_tool_message(answered[call["id"]]) for call in calls)]


def _rebuilt_messages(turn: AssistantTurn, options: Values) -> list[JsonObject]:
    """The turn from its items, without data for its own upstream."""
    messages: list[JsonObject] = []
    for texts, calls in exchanges(turn.result):
        known = [_with_id(call, len(messages) + n) for n, call in enumerate(calls)]
        messages += _exchange(texts, known)
    if turn.is_native and _wants_reasoning(options, has_calls="tool_calls" in messages[0]):
        _add_reasoning(messages[0], turn.result.output, options)
    return messages


def _exchange(texts: list[str], calls: list[ToolCallItem]) -> list[JsonObject]:
    message: JsonObject = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if calls:
        message["tool_calls"] = [_wire_call(call) for call in calls]
    return [_filled(message), *(_tool_message(call) for call in calls)]


def _filled(message: JsonObject) -> JsonObject:
    """An answer of reasoning alone, or of nothing, would be refused as empty."""
    has_more = message.get("tool_calls") or message.get("function_call")
    return message if message.get("content") or has_more else {**message, "content": NO_ANSWER}


def _add_reasoning(message: JsonObject, output: list[OutputItem], options: Values) -> None:
    text = "\n\n".join(item.content for item in output if isinstance(item, ReasoningItem))
    member = str(options["reasoning_member"])
    if text:
        message["reasoning_content" if member == "as_received" else member] = text


def _wants_reasoning(options: Values, *, has_calls: bool) -> bool:
    wish = options["replay_reasoning"]
    return wish == "always" or (wish == "tool_turns" and has_calls)


def _with_id(call: ToolCallItem, number: int) -> ToolCallItem:
    if call.call_id:
        return call
    return msgspec.structs.replace(call, call_id=f"call_{number}")


def _wire_call(call: ToolCallItem) -> JsonObject:
    """The arguments are sent back as they were written."""
    arguments = call.arguments_raw or msgspec.json.encode(call.arguments).decode()
    function = {"name": call.tool, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _tool_message(call: ToolCallItem) -> JsonObject:
    return {"role": "tool", "tool_call_id": call.call_id, "name": call.tool, "content": call.output}


def _legacy(messages: list[JsonObject]) -> list[JsonObject]:
    """The older form: one ``function_call`` in a turn, answered by the role ``function``."""
    results = {each["tool_call_id"]: each for each in messages if each["role"] == "tool"}
    legacy: list[JsonObject] = []
    for message in messages:
        if message["role"] == "tool":
            continue
        turn = {name: value for name, value in message.items() if name != "tool_calls"}
        calls = objects_of(message, "tool_calls")
        if not calls:
            legacy.append(turn)
        for call in calls:
            result = results[call["id"]]
            legacy.append({**turn, "function_call": object_of(call, "function")})
            legacy.append(
                {"role": "function", "name": result["name"], "content": result["content"]}
            )
            turn = {"role": "assistant", "content": None}
    return legacy
