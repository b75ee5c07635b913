"""Requests of the Messages API: read and checked as strictly as the real servers check them."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chat.demo.lmstudio import described, estimate
from chat.demo.scenes import Turn

JsonObject = dict[str, Any]

THINKER = "tributary/demo-thinker"
SEARCHER = "tributary/demo-searcher"
MODELS: Mapping[str, str] = {THINKER: "Demo Thinker", SEARCHER: "Demo Searcher"}

LEAST_THINKING_TOKENS = 1024
_THINKING = ("thinking", "redacted_thinking")
_SERVER_CALLS = ("server_tool_use",)
_RESULT = "_tool_result"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_NAMED = ("temperature", "top_p", "top_k", "max_tokens")
_PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class BadRequest(Exception):
    """The request is refused; the arguments are those of the API's error envelope."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    schema: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRequest:
    """``paused`` is the content of the answer that is to go on, empty where none is."""

    model: str
    turn: Turn
    streams: bool
    limit: int
    input_tokens: int
    tools: tuple[Tool, ...] = ()
    is_thinking_shown: bool = True
    stop_sequences: tuple[str, ...] = ()
    paused: tuple[JsonObject, ...] = ()


def signature_of(thinking: str) -> str:
    """What the demo signs a thought with. Not a secret: it only shows that nothing was changed."""
    digest = hashlib.sha256(f"tributary demo: {thinking}".encode("utf-8", "surrogatepass"))
    return base64.b64encode(digest.digest()).decode()


@dataclass(slots=True)
class _Reading:
    """What the messages held, as far as they are read."""

    questions: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    tool_results: list[str] = field(default_factory=list)
    # Calls of the answer just read, which the next message must answer.
    open_calls: list[str] = field(default_factory=list)
    used_ids: set[str] = field(default_factory=set)
    characters: int = 0


def read(body: object) -> MessagesRequest:
    """Check a request. Raises ``BadRequest``."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: Field required")
    if model not in MODELS:
        raise BadRequest(f"model: {model}", status=404, kind="not_found_error")
    limit = _positive(body, "max_tokens")
    reading = _read_messages(body.get("messages"))
    tools = _tools(body, reading)
    thinks = _thinking(body, model, limit)
    _check_loop(body)
    return MessagesRequest(
        model=model,
        turn=_turn(body, reading, thinks),
        streams=body.get("stream") is True,
        limit=limit,
        input_tokens=estimate(reading.characters) + 256 * len(reading.pictures),
        tools=tools,
        is_thinking_shown=_object(body, "thinking").get("display") != "omitted",
        stop_sequences=_stop_sequences(body),
        paused=_paused(body["messages"]),
    )


def _turn(body: JsonObject, reading: _Reading, thinks: bool | None) -> Turn:
    found = [f"`{name}` {body[name]}" for name in _NAMED[:3] if body.get(name) is not None]
    system = body.get("system")
    if isinstance(system, str) and system:
        found.insert(0, f"a system prompt of {len(system)} characters")
    return Turn(
        text=reading.questions[-1],
        number=len(reading.questions),
        previous_question=reading.questions[-2] if len(reading.questions) > 1 else "",
        received=(*described(reading.pictures), *found),
        thinks=thinks,
        tool_results=tuple(reading.tool_results),
        runs_tools=False,
    )


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _positive(body: JsonObject, name: str) -> int:
    value = body.get(name)
    if value is None:
        raise BadRequest(f"{name}: Field required")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"{name}: Input should be greater than or equal to 1")
    return value


def _stop_sequences(body: JsonObject) -> tuple[str, ...]:
    found = body.get("stop_sequences") or []
    if not isinstance(found, list) or not all(isinstance(s, str) and s.strip() for s in found):
        raise BadRequest("stop_sequences: each stop sequence must contain non-whitespace")
    return tuple(found)


def _thinking(body: JsonObject, model: str, limit: int) -> bool | None:
    """Whether the model thinks; ``None`` where it was told not to."""
    thinking = _object(body, "thinking")
    kind = thinking.get("type")
    if kind == "enabled":
        budget = _positive(thinking, "budget_tokens")
        if budget < LEAST_THINKING_TOKENS:
            text = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            raise BadRequest(text)
        if budget >= limit:
            raise BadRequest("`max_tokens` must be greater than `thinking.budget_tokens`")
    if kind in ("enabled", "adaptive") and body.get("temperature") not in (None, 1):
        raise BadRequest("`temperature` may only be set to 1 when thinking is enabled")
    if kind == "disabled":
        return None
    return kind in ("enabled", "adaptive") or model == THINKER


def _check_loop(body: JsonObject) -> None:
    """Results that are due to an answer without thinking do not go with thinking."""
    if _object(body, "thinking").get("type") != "enabled" or len(body["messages"]) < 2:
        return
    first, due = (message["content"][0] for message in body["messages"][-2:])
    is_result = isinstance(due, dict) and due["type"] == "tool_result"
    if is_result and first["type"] not in _THINKING:
        raise BadRequest(
            f"messages.{len(body['messages']) - 2}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{first['type']}`. When `thinking` is enabled, a "
            "final `assistant` message must start with a thinking block."
        )


def _tools(body: JsonObject, reading: _Reading) -> tuple[Tool, ...]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise BadRequest("tools: Input should be a valid list")
    found = []
    for number, tool in enumerate(tools):
        if isinstance(tool, dict) and "type" in tool and tool["type"] != "custom":
            continue  # A tool of the server: the demo has its own search.
        found.append(_tool(tool, number))
    if reading.used_ids and not tools:
        raise BadRequest(
            "Requests which include `tool_use` or `tool_result` blocks must define tools"
        )
    return () if _object(body, "tool_choice").get("type") == "none" else tuple(found)


def _tool(tool: object, number: int) -> Tool:
    name = tool.get("name") if isinstance(tool, dict) else None
    schema = tool.get("input_schema") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not _ID.match(name):
        raise BadRequest(f"tools.{number}.custom.name: String should match '^[a-zA-Z0-9_-]+$'")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadRequest(f"tools.{number}.custom.input_schema.type: Input should be 'object'")
    return Tool(name=name, schema=schema)


# --- messages -----------------------------------------------------------------------------


def _read_messages(messages: object) -> _Reading:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: at least one message is required")
    reading = _Reading()
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise BadRequest(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        content = _content(message.get("content"), f"messages.{number}.content")
        reading.characters += sum(len(str(block)) for block in content)
        if role == "user":
            _read_user(content, number, reading)
        else:
            _read_assistant(content, number, reading, is_last=message is messages[-1])
    if reading.open_calls:
        raise BadRequest(_unanswered(len(messages) - 1, reading.open_calls))
    if not reading.questions:
        raise BadRequest("messages: first message must use the user role")
    return reading


def _content(content: object, place: str) -> list[JsonObject]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise BadRequest(f"{place}: all messages must have non-empty content")
    for number, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise BadRequest(f"{place}.{number}: Input should be an object with a type")
        if block["type"] == "text" and not str(block.get("text", "")).strip():
            raise BadRequest(
                f"{place}.{number}: text content blocks must contain non-whitespace text"
            )
    return content


def _unanswered(number: int, calls: Sequence[str]) -> str:
    return (
        f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(calls)}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )


def _read_user(content: list[JsonObject], number: int, reading: _Reading) -> None:
    results = [block for block in content if block["type"] == "tool_result"]
    if content[: len(results)] != results:
        raise BadRequest(f"messages.{number}: `tool_result` blocks must come first")
    answered = [str(block.get("tool_use_id")) for block in results]
    for identity in answered:
        if identity not in reading.open_calls:
            raise BadRequest(
                f"messages.{number}.content: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {identity}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
    missing = [identity for identity in reading.open_calls if identity not in answered]
    if missing:
        raise BadRequest(_unanswered(number - 1, missing))
    reading.open_calls = []
    reading.tool_results = [_result_text(block) for block in results]
    texts = [str(block["text"]) for block in content if block["type"] == "text"]
    if texts or not results:
        # Results count only while nobody has spoken after them; so do pictures.
        reading.tool_results = []
        reading.questions.append("\n\n".join(texts))
        reading.pictures = [
            _picture(block, number) for block in content if block["type"] == "image"
        ]


def _result_text(block: JsonObject) -> str:
    content = block.get("content", "")
    text = content if isinstance(content, str) else str(content)
    return f"(failed) {text}" if block.get("is_error") else text


def _picture(block: JsonObject, number: int) -> str:
    source = _object(block, "source")
    if source.get("type") != "base64":
        return "by address"
    if source.get("media_type") not in _PICTURES:
        raise BadRequest(f"messages.{number}.content.image.source.media_type: not supported")
    return str(source["media_type"])


def _read_assistant(
    content: list[JsonObject], number: int, reading: _Reading, *, is_last: bool
) -> None:
    reading.tool_results = []
    if content[-1]["type"] in _THINKING and not is_last:
        raise BadRequest(
            f"messages.{number}: The final block in an assistant message cannot be `thinking`."
        )
    open_server_calls: list[str] = []
    for position, block in enumerate(content):
        place = f"messages.{number}.content.{position}"
        kind = block["type"]
        if kind in _THINKING:
            _check_thought(block, place)
        elif kind == "tool_use":
            _check_call(block, place, reading)
        elif kind in _SERVER_CALLS:
            open_server_calls.append(str(block.get("id")))
        elif kind.endswith(_RESULT):
            _close_server_call(block, place, open_server_calls)
    if open_server_calls and not is_last:
        raise BadRequest(
            f"messages.{number}: `web_search` tool use with id `{open_server_calls[0]}` was found "
            "without a corresponding `web_search_tool_result` block"
        )


def _check_thought(block: JsonObject, place: str) -> None:
    if block["type"] == "thinking":
        expected = signature_of(str(block.get("thinking", "")))
        if block.get("signature") != expected:
            raise BadRequest(f"{place}: Invalid `signature` in `thinking` block")
    elif not str(block.get("data", "")).startswith(REDACTED):
        raise BadRequest(f"{place}: Invalid `data` in `redacted_thinking` block")


REDACTED = base64.b64encode(b"a thought that nobody may read").decode()


def _check_call(block: JsonObject, place: str, reading: _Reading) -> None:
    identity = str(block.get("id", ""))
    if not _ID.match(identity):
        raise BadRequest(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if identity in reading.used_ids:
        raise BadRequest(f"{place}: `tool_use` ids must be unique")
    if not isinstance(block.get("input"), dict):
        raise BadRequest(f"{place}.tool_use.input: Input should be a valid dictionary")
    reading.used_ids.add(identity)
    reading.open_calls.append(identity)


def _close_server_call(block: JsonObject, place: str, open_calls: list[str]) -> None:
    identity = str(block.get("tool_use_id"))
    if identity not in open_calls:
        raise BadRequest(
            f"{place}: unexpected `tool_use_id` found in `{block['type']}` blocks: {identity}"
        )
    open_calls.remove(identity)


def _paused(messages: list[JsonObject]) -> tuple[JsonObject, ...]:
    """The answer that the messages end with. Nothing but a search that waits can be gone on with:
    this model takes no beginning of an answer in its name."""
    last = messages[-1]
    if last["role"] != "assistant":
        return ()
    content = last["content"]
    if isinstance(content, str) or content[-1]["type"] not in _SERVER_CALLS:
        raise BadRequest(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )
    return tuple(content)
