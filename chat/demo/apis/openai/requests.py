"""Requests of the Chat Completions API, checked as the vendor documents them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chat.demo.http import Request
from chat.demo.models import DemoModel, server_of
from chat.demo.requests import (
    BadRequest,
    DemoRequest,
    JsonObject,
    described,
    estimate,
    is_count,
    object_in,
    parameters_in,
    parsed,
    tool_choice_in,
    tools_in,
)

SERVER = server_of("openai_chat")
# Friendli's tool-assisted chat runs its tools itself.
TOOL_RUNNER = "tributary/demo-friendli"
MOST_ANSWERS = 8
_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_NAMED = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop",
    "frequency_penalty", "presence_penalty", "reasoning_effort", "n", "top_logprobs",
    "service_tier", "top_k", "min_p", "user",
)  # fmt: skip


def refused(
    message: str, *, param: str | None = None, code: str | None = None, status: int = 400
) -> BadRequest:
    return BadRequest({"error": error_of(message, param=param, code=code)}, status=status)


def error_of(
    message: str,
    kind: str = "invalid_request_error",
    *,
    param: str | None = None,
    code: str | None = None,
) -> JsonObject:
    return {"message": message, "type": kind, "param": param, "code": code}


def body_of(request: Request) -> JsonObject:
    """Raises ``BadRequest``."""
    try:
        body = parsed(request.body)
    except ValueError as error:
        raise refused("The request body is not valid JSON", code="json_parse_error") from error
    if not isinstance(body, dict):
        raise refused("The body must be a JSON object", param="body")
    return body


def model_in(body: JsonObject) -> DemoModel:
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise refused("you must provide a model parameter", param="model")
    model = SERVER.find(name)
    if model is None:
        message = f"The model `{name}` does not exist"
        raise refused(message, param="model", code="model_not_found", status=404)
    return model


@dataclass(slots=True)
class Messages:
    """What the messages hold."""

    questions: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    tool_results: list[str] = field(default_factory=list)
    system_characters: int = 0
    characters: int = 0


def read_chat(
    body: JsonObject, dialect: str, model: DemoModel, received: tuple[str, ...] = ()
) -> DemoRequest:
    """A request with messages, of this API or one like it. ``received`` came with the question in members that
    only that API knows. Raises ``BadRequest``."""
    messages = _messages(body.get("messages"))
    questions = messages.questions
    _check_logprobs(body)
    return DemoRequest(
        dialect=dialect,
        model=model.id,
        body={**body, "n": answers_in(body)},
        text=questions[-1],
        turn=len(questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=(*_received(body, messages), *received),
        thinks=None if body.get("reasoning_effort") == "none" else model.thinks,
        tool_results=tuple(messages.tool_results),
        runs_tools=model.id == TOOL_RUNNER,
        tools=tools_in(body),
        tool_choice=tool_choice_in(body),
        is_parallel=body.get("parallel_tool_calls") is not False,
        schema=_schema(body),
        limit=_limit(body),
        input_tokens=estimate(messages.characters, len(messages.pictures)),
    )


def answers_in(body: Mapping[str, Any]) -> int:
    """How many answers are wanted. Raises ``BadRequest``."""
    number = body.get("n", 1)
    if not is_count(number, most=MOST_ANSWERS):
        raise refused(f"'n' must be from 1 to {MOST_ANSWERS}", param="n")
    return int(number)


def _check_logprobs(body: JsonObject) -> None:
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise refused("'top_logprobs' needs 'logprobs'", param="top_logprobs")


def _schema(body: JsonObject) -> JsonObject | None:
    wanted = object_in(body, "response_format")
    if wanted.get("type") == "json_object":
        return {"properties": {"answer": {"type": "string"}}}
    if wanted.get("type") != "json_schema":
        return None
    schema = object_in(wanted, "json_schema").get("schema")
    if not isinstance(schema, dict):
        raise refused("'json_schema.schema' is required", param="response_format")
    return schema


def _limit(body: JsonObject) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        limit = body.get(name)
        if limit is None or limit == -1:
            continue
        if not is_count(limit):
            raise refused(f"'{name}' must be a positive integer", param=name)
        return int(limit)
    return None


def _messages(given: object) -> Messages:
    if not isinstance(given, list) or not given:
        raise refused("'messages' must be a list of messages", param="messages")
    messages = Messages()
    for position, message in enumerate(given):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise refused("Invalid role", param=f"messages[{position}].role")
        # Only pictures of the newest question are described.
        if role == "user":
            messages.pictures = []
        _add(role, _text(message.get("content"), position, messages), messages)
    if not messages.questions:
        raise refused("There is no message of a user", param="messages")
    return messages


def _add(role: str, text: str, messages: Messages) -> None:
    messages.characters += len(text)
    if role == "user":
        messages.questions.append(text)
    if role in ("system", "developer"):
        messages.system_characters += len(text)
    # Results count only while nobody has spoken after them.
    messages.tool_results = [*messages.tool_results, text] if role == "tool" else []


def _text(content: object, position: int, messages: Messages) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise refused("'content' must be text or a list", param=f"messages[{position}].content")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(str(part.get("text", "")))
        elif kind == "image_url" and isinstance(part.get("image_url"), dict):
            found = _PICTURE.match(str(part["image_url"].get("url")))
            messages.pictures.append(found[1] if found else "by address")
        else:
            raise refused("Unknown content part", param=f"messages[{position}].content")
    return "\n\n".join(texts)


def _received(body: JsonObject, messages: Messages) -> tuple[str, ...]:
    system = messages.system_characters
    said = (f"a system prompt of {system} characters",) if system else ()
    return (*described(messages.pictures), *said, *parameters_in(body, _NAMED))
