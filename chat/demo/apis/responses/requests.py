"""Requests of the Responses API: read and checked as strictly as OpenAI checks them."""

import base64
import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chat.demo.lmstudio import described, estimate
from chat.demo.offered import Offered, choice_in, offered_in
from chat.demo.scenes import Turn

JsonObject = dict[str, Any]

AGENT = "tributary/demo-agent"
OPEN_AGENT = "tributary/demo-agent-open"
# The first shows summaries of what it thinks, the second its thoughts themselves.
MODELS: Mapping[str, str] = {AGENT: "Demo Agent", OPEN_AGENT: "Demo Agent, open"}

STORED_RESPONSES = 1000
_KNOWN = frozenset(
    (
        *("model", "input", "instructions", "previous_response_id", "store", "stream", "tools"),
        *("stream_options", "tool_choice", "parallel_tool_calls", "reasoning", "text", "include"),
        *("max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs"),
        *("truncation", "metadata", "background", "service_tier", "user"),
    )
)
_NAMED = ("temperature", "top_p", "max_output_tokens", "max_tool_calls", "service_tier")
_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,")


class BadRequest(Exception):
    """The request is refused; the arguments are the members of the API's error."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.body = {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": param,
                "code": code,
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One place in a conversation, to which ``previous_response_id`` may return."""

    number: int
    question: str
    tokens: int
    # What the answer waited for: calls by id, requests for approval by id.
    calls: tuple[str, ...] = ()
    approvals: Mapping[str, JsonObject] = field(default_factory=dict)


class Points:
    """The places that were stored, in this process only."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, Point] = OrderedDict()

    def find(self, response_id: str) -> Point | None:
        return self._points.get(response_id)

    def store(self, response_id: str, point: Point) -> None:
        self._points[response_id] = point
        if len(self._points) > STORED_RESPONSES:
            self._points.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person said to a request, and what had been asked for."""

    request: JsonObject
    is_given: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest:
    model: str
    turn: Turn
    streams: bool
    stores: bool
    limit: int | None
    input_tokens: int
    tools: tuple[Offered, ...]
    tool_choice: str
    is_parallel: bool
    approvals: tuple[Approval, ...]
    wants_encrypted: bool
    is_padded: bool
    effort: str
    echo: JsonObject


def seal(thought: str) -> str:
    """What stands for an encrypted thought. Not a secret: it only shows that nothing changed."""
    return base64.b64encode(hashlib.sha256(thought.encode()).digest()).decode()


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(24)}"


# --- reading ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """What the input held, as far as it is read."""

    questions: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    tool_results: list[str] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    open_calls: list[str] = field(default_factory=list)
    requests: dict[str, JsonObject] = field(default_factory=dict)
    characters: int = 0


def read(body: object, points: Points) -> ResponsesRequest:
    """Check a request. Raises ``BadRequest``."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object")
    for name in body:
        if name not in _KNOWN:
            raise BadRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    previous = _previous(body, points)
    reading = _Reading()
    if previous is not None:
        reading.open_calls = list(previous.calls)
        reading.requests = dict(previous.approvals)
    _read_input(body.get("input"), reading)
    include = body.get("include") or []
    options = _object(body, "stream_options")
    return ResponsesRequest(
        model=_model(body),
        turn=_turn(body, reading, previous),
        streams=body.get("stream") is True,
        stores=body.get("store", True) is not False,
        limit=_limit(body),
        input_tokens=(previous.tokens if previous else 0)
        + estimate(reading.characters)
        + 256 * len(reading.pictures),
        tools=_tools(body),
        tool_choice=_choice(body),
        is_parallel=body.get("parallel_tool_calls", True) is not False,
        approvals=tuple(reading.approvals),
        wants_encrypted="reasoning.encrypted_content" in include,
        is_padded=options.get("include_obfuscation", True) is not False,
        effort=str(_object(body, "reasoning").get("effort") or "medium"),
        echo=_echo(body),
    )


def _object(body: Mapping[str, Any], name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _model(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise BadRequest("Missing required parameter: 'model'.", param="model")
    if name not in MODELS:
        message = f"The requested model '{name}' does not exist."
        raise BadRequest(message, param="model", code="model_not_found")
    return name


def _limit(body: Mapping[str, Any]) -> int | None:
    limit = body.get("max_output_tokens")
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadRequest("Invalid 'max_output_tokens'.", param="max_output_tokens")
    return limit


def _previous(body: Mapping[str, Any], points: Points) -> Point | None:
    name = "previous_response_id"
    response_id = body.get(name)
    if response_id is None:
        return None
    point = points.find(str(response_id))
    if point is None:
        message = f"Previous response with id '{response_id}' not found."
        raise BadRequest(message, param=name, code="previous_response_not_found")
    return point


def _tools(body: Mapping[str, Any]) -> tuple[Offered, ...]:
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise BadRequest("Invalid type for 'tools'.", param="tools")
    for number, tool in enumerate(tools):
        if not tool.get("type"):
            raise BadRequest("Missing 'type'.", param=f"tools[{number}].type")
    return offered_in({"tools": [tool for tool in tools if tool["type"] == "function"]})


def _choice(body: Mapping[str, Any]) -> str:
    choice = body.get("tool_choice")
    return str(choice.get("name")) if isinstance(choice, dict) else choice_in(body)


def _turn(body: Mapping[str, Any], reading: _Reading, previous: Point | None) -> Turn:
    questions = [*([previous.question] if previous else []), *reading.questions]
    if not questions:
        raise BadRequest("Missing required parameter: 'input'.", param="input")
    is_none = _object(body, "reasoning").get("effort") in ("none", "minimal")
    return Turn(
        text=questions[-1],
        number=(previous.number if previous else 0) + len(reading.questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=_received(body, reading),
        thinks=None if is_none else True,
        tool_results=tuple(reading.tool_results),
        runs_tools=False,
    )


def _received(body: Mapping[str, Any], reading: _Reading) -> tuple[str, ...]:
    found = [f"`{name}` {body[name]}" for name in _NAMED if body.get(name) is not None]
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        found.insert(0, f"instructions of {len(instructions)} characters")
    return (*described(reading.pictures), *found)


def _echo(body: Mapping[str, Any]) -> JsonObject:
    """Members of the request that come back in every response object."""
    reasoning = _object(body, "reasoning")
    return {
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {
            "effort": reasoning.get("effort", "medium"),
            "summary": reasoning.get("summary") or "auto",
        },
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
    }


# --- the input ---------------------------------------------------------------------------------


def _read_input(given: object, reading: _Reading) -> None:
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        raise BadRequest("Missing required parameter: 'input'.", param="input")
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise BadRequest("Invalid type for 'input'.", param=f"input[{position}]")
        reading.characters += len(str(item))
        kind = item.get("type") or "message"
        handler = _READERS.get(str(kind))
        if handler is not None:
            handler(item, position, reading)
        if kind == "reasoning":
            _check_reasoning(item, items[position + 1 :])
    if reading.open_calls:
        message = f"No tool output found for function call {reading.open_calls[0]}."
        raise BadRequest(message, param="input")


def _read_message(item: JsonObject, position: int, reading: _Reading) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise BadRequest("Invalid value for 'role'.", param=f"input[{position}].role")
    if role != "user":
        return
    # Only what came with the newest question counts.
    reading.pictures, reading.tool_results, reading.approvals = [], [], []
    reading.questions.append(_text(item.get("content"), position, reading))


def _text(content: object, position: int, reading: _Reading) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequest("Invalid 'content'.", param=f"input[{position}].content")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "input_text":
            texts.append(str(part.get("text", "")))
        elif kind == "input_image":
            found = _PICTURE.match(str(part.get("image_url")))
            reading.pictures.append(found[1] if found else "by address")
        else:
            message = f"Invalid value: '{kind}'. Supported values are: 'input_text', 'input_image'."
            raise BadRequest(message, param=f"input[{position}].content")
    return "\n\n".join(texts)


def _read_call(item: JsonObject, position: int, reading: _Reading) -> None:
    reading.open_calls.append(str(item.get("call_id")))


def _read_output(item: JsonObject, position: int, reading: _Reading) -> None:
    call_id = str(item.get("call_id"))
    if call_id not in reading.open_calls:
        message = f"No tool call found for function call output with call_id {call_id}."
        raise BadRequest(message, param="input")
    reading.open_calls.remove(call_id)
    reading.tool_results.append(str(item.get("output", "")))


def _read_request(item: JsonObject, position: int, reading: _Reading) -> None:
    reading.requests[str(item.get("id"))] = item


def _read_response(item: JsonObject, position: int, reading: _Reading) -> None:
    request_id = str(item.get("approval_request_id"))
    request = reading.requests.get(request_id)
    if request is None:
        message = f"No approval request found with id {request_id}."
        raise BadRequest(message, param="input")
    is_given = item.get("approve") is True
    reading.approvals.append(
        Approval(request=request, is_given=is_given, reason=str(item.get("reason") or ""))
    )


def _check_reasoning(item: JsonObject, following: Sequence[object]) -> None:
    """A thought goes with what it led to, and comes back as it was."""
    identity = item.get("id")
    after = following[0] if following else None
    if not isinstance(after, dict) or after.get("role") == "user":
        raise BadRequest(
            f"Item '{identity}' of type 'reasoning' was provided without its required following "
            "item.",
            param="input",
        )
    texts = [str(part.get("text")) for part in item.get("summary") or []]
    encrypted = item.get("encrypted_content")
    if encrypted is not None and encrypted != seal("\n\n".join(texts)):
        raise BadRequest(f"The encrypted content for item {identity} could not be verified.")


_READERS = {
    "message": _read_message,
    "function_call": _read_call,
    "function_call_output": _read_output,
    "mcp_approval_request": _read_request,
    "mcp_approval_response": _read_response,
}
