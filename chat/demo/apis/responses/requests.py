"""Requests of the Responses API, checked as strictly as OpenAI checks them."""

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
    StoredAnswer,
    described,
    estimate,
    is_count,
    object_in,
    parameters_in,
    parsed,
    tool_choice_in,
    tools_in,
)

SERVER = server_of("openai_responses")
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


def refused(message: str, *, param: str | None = None, code: str | None = None) -> BadRequest:
    kind = "invalid_request_error"
    return BadRequest({"error": {"message": message, "type": kind, "param": param, "code": code}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person said to a request, and what had been asked for."""

    request: JsonObject
    is_given: bool


def seal(thought: str) -> str:
    """What stands for an encrypted thought. Not a secret: it only shows that nothing changed."""
    return base64.b64encode(hashlib.sha256(thought.encode()).digest()).decode()


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


def read(request: Request, state: DemoState) -> DemoRequest:
    """Raises ``BadRequest``."""
    body = _body(request)
    previous = _previous(body, state)
    reading = _Reading()
    if previous is not None:
        reading.open_calls = list(previous.calls)
        reading.requests = dict(previous.approvals)
    _read_input(body.get("input"), reading)
    questions = [*([previous.question] if previous else []), *reading.questions]
    if not questions:
        raise refused("Missing required parameter: 'input'.", param="input")
    effort = object_in(body, "reasoning").get("effort")
    tokens = estimate(reading.characters, len(reading.pictures))
    return DemoRequest(
        dialect=SERVER.dialect,
        model=_model(body),
        body=body,
        text=questions[-1],
        turn=(previous.turn if previous else 0) + len(reading.questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=_received(body, reading),
        thinks=None if effort in ("none", "minimal") else True,
        tool_results=tuple(reading.tool_results),
        tools=_tools(body),
        tool_choice=_choice(body),
        is_parallel=body.get("parallel_tool_calls", True) is not False,
        limit=_limit(body),
        input_tokens=(previous.tokens if previous else 0) + tokens,
        **_continuation(reading.approvals),
    )


def _body(request: Request) -> JsonObject:
    try:
        body = parsed(request.body)
    except ValueError as error:
        raise refused("We could not parse the JSON body of your request.") from error
    if not isinstance(body, dict):
        raise refused("The body must be a JSON object")
    for name in body:
        if name not in _KNOWN:
            raise refused(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    return body


def _continuation(approvals: list[Approval]) -> JsonObject:
    """The scene after what a person said to a request for approval, and its placeholders."""
    if not approvals:
        return {}
    given = next((approval.request for approval in approvals if approval.is_given), None)
    if given is None:
        return {"scene": "responses/declined"}
    values = {
        "approved_tool": str(given.get("name")),
        "approved_arguments": str(given.get("arguments") or "{}"),
        "approval_id": str(given.get("id")),
    }
    return {"scene": "responses/approved", "values": values}


def _model(body: JsonObject) -> str:
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise refused("Missing required parameter: 'model'.", param="model")
    if SERVER.find(name) is None:
        message = f"The requested model '{name}' does not exist."
        raise refused(message, param="model", code="model_not_found")
    return name


def _limit(body: JsonObject) -> int | None:
    limit = body.get("max_output_tokens")
    if limit is not None and not is_count(limit):
        raise refused("Invalid 'max_output_tokens'.", param="max_output_tokens")
    return limit


def _previous(body: JsonObject, state: DemoState) -> StoredAnswer | None:
    name = "previous_response_id"
    response_id = body.get(name)
    if response_id is None:
        return None
    found = state.answers.get(str(response_id))
    if found is None:
        message = f"Previous response with id '{response_id}' not found."
        raise refused(message, param=name, code="previous_response_not_found")
    return found


def _tools(body: JsonObject) -> tuple[OfferedTool, ...]:
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise refused("Invalid type for 'tools'.", param="tools")
    for number, tool in enumerate(tools):
        if not tool.get("type"):
            raise refused("Missing 'type'.", param=f"tools[{number}].type")
    return tools_in({"tools": [tool for tool in tools if tool["type"] == "function"]})


def _choice(body: JsonObject) -> str:
    choice = body.get("tool_choice")
    return str(choice.get("name")) if isinstance(choice, dict) else tool_choice_in(body)


def _received(body: JsonObject, reading: _Reading) -> tuple[str, ...]:
    found = list(parameters_in(body, _NAMED))
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        found.insert(0, f"instructions of {len(instructions)} characters")
    return (*described(reading.pictures), *found)


# --- the input ---------------------------------------------------------------------------------


def _read_input(given: object, reading: _Reading) -> None:
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        raise refused("Missing required parameter: 'input'.", param="input")
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise refused("Invalid type for 'input'.", param=f"input[{position}]")
        reading.characters += len(str(item))
        kind = item.get("type") or "message"
        handler = _READERS.get(str(kind))
        if handler is not None:
            handler(item, position, reading)
        if kind == "reasoning":
            _check_reasoning(item, items[position + 1 :])
    if reading.open_calls:
        message = f"No tool output found for function call {reading.open_calls[0]}."
        raise refused(message, param="input")


def _read_message(item: JsonObject, position: int, reading: _Reading) -> None:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise refused("Invalid value for 'role'.", param=f"input[{position}].role")
    if role != "user":
        return
    # Only what came with the newest question counts.
    reading.pictures, reading.tool_results, reading.approvals = [], [], []
    reading.questions.append(_text(item.get("content"), position, reading))


def _text(content: object, position: int, reading: _Reading) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refused("Invalid 'content'.", param=f"input[{position}].content")
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
            raise refused(message, param=f"input[{position}].content")
    return "\n\n".join(texts)


def _read_call(item: JsonObject, position: int, reading: _Reading) -> None:
    reading.open_calls.append(str(item.get("call_id")))


def _read_output(item: JsonObject, position: int, reading: _Reading) -> None:
    call_id = str(item.get("call_id"))
    if call_id not in reading.open_calls:
        message = f"No tool call found for function call output with call_id {call_id}."
        raise refused(message, param="input")
    reading.open_calls.remove(call_id)
    reading.tool_results.append(str(item.get("output", "")))


def _read_request(item: JsonObject, position: int, reading: _Reading) -> None:
    reading.requests[str(item.get("id"))] = item


def _read_response(item: JsonObject, position: int, reading: _Reading) -> None:
    request_id = str(item.get("approval_request_id"))
    request = reading.requests.get(request_id)
    if request is None:
        message = f"No approval request found with id {request_id}."
        raise refused(message, param="input")
    reading.approvals.append(Approval(request=request, is_given=item.get("approve") is True))


def _check_reasoning(item: JsonObject, following: Sequence[object]) -> None:
    """A thought goes with what it led to, and comes back as it was."""
    identity = item.get("id")
    after = following[0] if following else None
    if not isinstance(after, dict) or after.get("role") == "user":
        raise refused(
            f"Item '{identity}' of type 'reasoning' was provided without its required following "
            "item.",
            param="input",
        )
    texts = [str(part.get("text")) for part in item.get("summary") or []]
    encrypted = item.get("encrypted_content")
    if encrypted is not None and encrypted != seal("\n\n".join(texts)):
        raise refused(f"The encrypted content for item {identity} could not be verified.")


_READERS = {
    "message": _read_message,
    "function_call": _read_call,
    "function_call_output": _read_output,
    "mcp_approval_request": _read_request,
    "mcp_approval_response": _read_response,
}
