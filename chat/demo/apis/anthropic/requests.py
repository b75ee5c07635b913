"""Requests of the Messages API, checked as strictly as the real servers check them."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from chat.demo.apis.base import DemoState
from chat.demo.http import Request
from chat.demo.models import server_of
from chat.demo.requests import (
    BadRequest,
    DemoRequest,
    JsonObject,
    OfferedTool,
    described,
    estimate,
    is_count,
    object_in,
    parameters_in,
    parsed,
)

SERVER = server_of("anthropic_messages")
REQUEST_ID = "req_demo"
REDACTED = base64.b64encode(b"a thought that nobody may read").decode()
# A search that pauses does so this often before it comes to an end.
PAUSES = 2
LEAST_THINKING_TOKENS = 1024
_THINKING = ("thinking", "redacted_thinking")
_SERVER_CALLS = ("server_tool_use",)
_RESULT = "_tool_result"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_NAMED = ("temperature", "top_p", "top_k")
_PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def refused(message: str, *, status: int = 400, kind: str = "invalid_request_error") -> BadRequest:
    error = {"type": kind, "message": message}
    return BadRequest({"type": "error", "error": error, "request_id": REQUEST_ID}, status=status)


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


def read(request: Request, state: DemoState) -> DemoRequest:
    """Raises ``BadRequest``."""
    body = _body(request)
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise refused("model: Field required")
    model = SERVER.find(name)
    if model is None:
        raise refused(f"model: {name}", status=404, kind="not_found_error")
    limit = _positive(body, "max_tokens")
    reading = _read_messages(body.get("messages"))
    tools = _tools(body, reading)
    thinks = _thinking(body, limit)
    _check_loop(body)
    paused = _paused(body["messages"])
    return DemoRequest(
        dialect=SERVER.dialect,
        model=name,
        body=body,
        text=reading.questions[-1],
        turn=len(reading.questions),
        previous_question=reading.questions[-2] if len(reading.questions) > 1 else "",
        received=_received(body, reading),
        thinks=model.thinks if thinks is None else (thinks or None),
        tool_results=tuple(reading.tool_results),
        tools=tools,
        limit=limit,
        stops=_stop_sequences(body),
        input_tokens=estimate(reading.characters, len(reading.pictures)),
        scene=_continuation(paused),
        values={
            "redacted": REDACTED,
            "paused_id": str(paused[-1].get("id")) if paused else "",
        },
    )


def _body(request: Request) -> JsonObject:
    if not request.header("anthropic-version"):
        raise refused("anthropic-version: header is required")
    try:
        body = parsed(request.body)
    except ValueError as error:
        raise refused("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise refused("The body must be a JSON object")
    return body


def _received(body: JsonObject, reading: _Reading) -> tuple[str, ...]:
    system = body.get("system")
    is_text = isinstance(system, str) and bool(system)
    said = (f"a system prompt of {len(str(system))} characters",) if is_text else ()
    return (*described(reading.pictures), *said, *parameters_in(body, _NAMED))


def _continuation(paused: Sequence[JsonObject]) -> str:
    """The scene that goes on where the answer paused."""
    if not paused:
        return ""
    searches = sum(block["type"] == "server_tool_use" for block in paused)
    return "anthropic/pause-again" if searches < PAUSES else "anthropic/pause-end"


def _positive(body: JsonObject, name: str) -> int:
    value = body.get(name)
    if value is None:
        raise refused(f"{name}: Field required")
    if not is_count(value):
        raise refused(f"{name}: Input should be greater than or equal to 1")
    return int(value)


def _stop_sequences(body: JsonObject) -> tuple[str, ...]:
    found = body.get("stop_sequences") or []
    if not isinstance(found, list) or not all(isinstance(s, str) and s.strip() for s in found):
        raise refused("stop_sequences: each stop sequence must contain non-whitespace")
    return tuple(found)


def _thinking(body: JsonObject, limit: int) -> bool | None:
    """Whether the model is told to think, or not to; ``None`` where nothing is said."""
    thinking = object_in(body, "thinking")
    kind = thinking.get("type")
    if kind == "enabled":
        budget = _positive(thinking, "budget_tokens")
        if budget < LEAST_THINKING_TOKENS:
            text = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            raise refused(text)
        if budget >= limit:
            raise refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    if kind in ("enabled", "adaptive") and body.get("temperature") not in (None, 1):
        raise refused("`temperature` may only be set to 1 when thinking is enabled")
    return {"disabled": False, "enabled": True, "adaptive": True}.get(str(kind))


def _check_loop(body: JsonObject) -> None:
    """Results that are due to an answer without thinking do not go with thinking."""
    if object_in(body, "thinking").get("type") != "enabled" or len(body["messages"]) < 2:
        return
    first, due = (message["content"][0] for message in body["messages"][-2:])
    is_result = isinstance(due, dict) and due["type"] == "tool_result"
    if is_result and first["type"] not in _THINKING:
        raise refused(
            f"messages.{len(body['messages']) - 2}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{first['type']}`. When `thinking` is enabled, a "
            "final `assistant` message must start with a thinking block."
        )


def _tools(body: JsonObject, reading: _Reading) -> tuple[OfferedTool, ...]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise refused("tools: Input should be a valid list")
    found = []
    for number, tool in enumerate(tools):
        if isinstance(tool, dict) and "type" in tool and tool["type"] != "custom":
            continue  # A tool of the server: the demo has its own search.
        found.append(_tool(tool, number))
    if reading.used_ids and not tools:
        raise refused("Requests which include `tool_use` or `tool_result` blocks must define tools")
    return () if object_in(body, "tool_choice").get("type") == "none" else tuple(found)


def _tool(tool: object, number: int) -> OfferedTool:
    name = tool.get("name") if isinstance(tool, dict) else None
    schema = tool.get("input_schema") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not _ID.match(name):
        raise refused(f"tools.{number}.custom.name: String should match '^[a-zA-Z0-9_-]+$'")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise refused(f"tools.{number}.custom.input_schema.type: Input should be 'object'")
    return OfferedTool(name=name, schema=schema)


# --- messages -----------------------------------------------------------------------------


def _read_messages(messages: object) -> _Reading:
    if not isinstance(messages, list) or not messages:
        raise refused("messages: at least one message is required")
    reading = _Reading()
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            raise refused(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        content = _content(message.get("content"), f"messages.{number}.content")
        reading.characters += sum(len(str(block)) for block in content)
        if role == "user":
            _read_user(content, number, reading)
        else:
            _read_assistant(content, number, reading, is_last=message is messages[-1])
    if reading.open_calls:
        raise refused(_unanswered(len(messages) - 1, reading.open_calls))
    if not reading.questions:
        raise refused("messages: first message must use the user role")
    return reading


def _content(content: object, place: str) -> list[JsonObject]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise refused(f"{place}: all messages must have non-empty content")
    for number, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise refused(f"{place}.{number}: Input should be an object with a type")
        if block["type"] == "text" and not str(block.get("text", "")).strip():
            raise refused(f"{place}.{number}: text content blocks must contain non-whitespace text")
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
        raise refused(f"messages.{number}: `tool_result` blocks must come first")
    answered = [str(block.get("tool_use_id")) for block in results]
    for identity in answered:
        if identity not in reading.open_calls:
            raise refused(
                f"messages.{number}.content: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {identity}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
    missing = [identity for identity in reading.open_calls if identity not in answered]
    if missing:
        raise refused(_unanswered(number - 1, missing))
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
    source = object_in(block, "source")
    if source.get("type") != "base64":
        return "by address"
    if source.get("media_type") not in _PICTURES:
        raise refused(f"messages.{number}.content.image.source.media_type: not supported")
    return str(source["media_type"])


def _read_assistant(
    content: list[JsonObject], number: int, reading: _Reading, *, is_last: bool
) -> None:
    reading.tool_results = []
    if content[-1]["type"] in _THINKING and not is_last:
        raise refused(
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
        raise refused(
            f"messages.{number}: `web_search` tool use with id `{open_server_calls[0]}` was found "
            "without a corresponding `web_search_tool_result` block"
        )


def _check_thought(block: JsonObject, place: str) -> None:
    if block["type"] == "thinking":
        expected = signature_of(str(block.get("thinking", "")))
        if block.get("signature") != expected:
            raise refused(f"{place}: Invalid `signature` in `thinking` block")
    elif not str(block.get("data", "")).startswith(REDACTED):
        raise refused(f"{place}: Invalid `data` in `redacted_thinking` block")


def _check_call(block: JsonObject, place: str, reading: _Reading) -> None:
    identity = str(block.get("id", ""))
    if not _ID.match(identity):
        raise refused(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if identity in reading.used_ids:
        raise refused(f"{place}: `tool_use` ids must be unique")
    if not isinstance(block.get("input"), dict):
        raise refused(f"{place}.tool_use.input: Input should be a valid dictionary")
    reading.used_ids.add(identity)
    reading.open_calls.append(identity)


def _close_server_call(block: JsonObject, place: str, open_calls: list[str]) -> None:
    identity = str(block.get("tool_use_id"))
    if identity not in open_calls:
        raise refused(
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
        raise refused(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )
    return tuple(content)
