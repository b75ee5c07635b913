"""Requests of the Chat Completions API: parsed and validated as the vendor documents."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chat.demo import scenes
from chat.demo.catalogue import CHAT_MODELS, TOOL_RUNNER, VENDOR_MODELS, Model
from chat.demo.lmstudio import described, estimate
from chat.demo.offered import Offered, arguments_for, choice_in, offered_in, with_offered
from chat.demo.scenes import Message, Reasoning, Refusal, Scene, Turn

JsonObject = dict[str, Any]
MOST_ANSWERS = 8


class BadRequest(Exception):
    """The request cannot be served; the arguments are OpenAI's error members."""

    def __init__(
        self, message: str, *, param: str, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": json_error(message, "invalid_request_error", param=param, code=code)}


def json_error(
    message: str, kind: str, *, param: str | None = None, code: str | None = None
) -> JsonObject:
    return {"message": message, "type": kind, "param": param, "code": code}


# --- reading a request ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    model: Model
    turn: Turn
    streams: bool
    includes_usage: bool
    limit: int | None
    input_tokens: int
    alternatives: int = 1
    # How many likely tokens are told beside each; ``None`` where no probabilities are.
    top_logprobs: int | None = None
    tools: tuple[Offered, ...] = ()
    tool_choice: str = "auto"
    is_parallel: bool = True
    schema: JsonObject | None = None


@dataclass(slots=True)
class _Reading:
    """What the messages held, as far as they are read."""

    questions: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    tool_results: list[str] = field(default_factory=list)
    system_characters: int = 0
    characters: int = 0


def read(
    body: object, *, model: Model | None = None, received: tuple[str, ...] = ()
) -> ChatRequest:
    """Check a request. Raises ``BadRequest``. ``model`` is the one of a server that has no other,
    ``received`` what came with the question in members that this server alone knows."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object", param="body")
    model = model or _model(body)
    reading = _read_messages(body.get("messages"))
    options = body.get("stream_options")
    return ChatRequest(
        model=model,
        turn=_turn(body, reading, model, received),
        streams=body.get("stream") is True,
        includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
        limit=_limit(body),
        input_tokens=estimate(reading.characters) + 256 * len(reading.pictures),
        alternatives=alternatives_in(body),
        top_logprobs=_top_logprobs(body),
        tools=offered_in(body),
        tool_choice=choice_in(body),
        is_parallel=body.get("parallel_tool_calls") is not False,
        schema=_schema(body),
    )


def choose(request: ChatRequest) -> Scene:
    """The scene for a request: by its words, then by what it offers and demands."""
    scene = scenes.choose(request.turn)
    if request.turn.tool_results or request.turn.runs_tools:
        return scene
    if request.schema is not None:
        words = json.dumps(arguments_for(request.schema), indent=1, ensure_ascii=False)
        return replace(scene, parts=(Message(words),))
    return with_offered(
        scene,
        request.tools,
        text=request.turn.text,
        choice=request.tool_choice,
        is_parallel=request.is_parallel,
    )


def alternatives_in(body: Mapping[str, Any]) -> int:
    """How many answers are wanted. Raises ``BadRequest``."""
    number = body.get("n", 1)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_ANSWERS:
        raise BadRequest(f"'n' must be from 1 to {MOST_ANSWERS}", param="n")
    return number


def _top_logprobs(body: Mapping[str, Any]) -> int | None:
    number = body.get("top_logprobs")
    if number is not None and not body.get("logprobs"):
        raise BadRequest("'top_logprobs' needs 'logprobs'", param="top_logprobs")
    if not body.get("logprobs"):
        return None
    return number if isinstance(number, int) else 0


def _schema(body: Mapping[str, Any]) -> JsonObject | None:
    """What the answer must look like, where it must be JSON."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "json_object":
        return {"properties": {"answer": {"type": "string"}}}
    if kind != "json_schema" or not isinstance(wanted, dict):
        return None
    schema = (wanted.get("json_schema") or {}).get("schema")
    if not isinstance(schema, dict):
        raise BadRequest("'json_schema.schema' is required", param="response_format")
    return schema


def _model(body: Mapping[str, Any]) -> Model:
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise BadRequest("you must provide a model parameter", param="model")
    if name not in CHAT_MODELS and name not in VENDOR_MODELS:
        message = f"The model `{name}` does not exist"
        raise BadRequest(message, param="model", code="model_not_found", status=404)
    return CHAT_MODELS.get(name) or VENDOR_MODELS[name]


def _limit(body: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        limit = body.get(name)
        if limit is None or limit == -1:
            continue
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise BadRequest(f"'{name}' must be a positive integer", param=name)
        return limit
    return None


def _turn(
    body: Mapping[str, Any], reading: _Reading, model: Model, received: tuple[str, ...]
) -> Turn:
    questions = reading.questions
    return Turn(
        text=questions[-1],
        number=len(questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=(*_received(body, reading), *received),
        thinks=None if body.get("reasoning_effort") == "none" else model.reasons,
        tool_results=tuple(reading.tool_results),
        runs_tools=model.key == TOOL_RUNNER,
    )


_ROLES = ("system", "developer", "user", "assistant", "tool")


def _read_messages(messages: object) -> _Reading:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a list of messages", param="messages")
    reading = _Reading()
    for position, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise BadRequest("Invalid role", param=f"messages[{position}].role")
        # Only pictures of the newest question are described.
        if role == "user":
            reading.pictures = []
        _read_message(role, _text(message.get("content"), position, reading), reading)
    if not reading.questions:
        raise BadRequest("There is no message of a user", param="messages")
    return reading


def _read_message(role: str, text: str, reading: _Reading) -> None:
    reading.characters += len(text)
    if role == "user":
        reading.questions.append(text)
    if role in ("system", "developer"):
        reading.system_characters += len(text)
    # Results count only while nobody has spoken after them.
    reading.tool_results = [*reading.tool_results, text] if role == "tool" else []


_PICTURE = re.compile(r"data:(image/[\w.+-]+);base64,")


def _text(content: object, position: int, reading: _Reading) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequest("'content' must be text or a list", param=f"messages[{position}].content")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(str(part.get("text", "")))
        elif kind == "image_url" and isinstance(part.get("image_url"), dict):
            found = _PICTURE.match(str(part["image_url"].get("url")))
            reading.pictures.append(found[1] if found else "by address")
        else:
            raise BadRequest("Unknown content part", param=f"messages[{position}].content")
    return "\n\n".join(texts)


_NAMED = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop",
    "frequency_penalty", "presence_penalty", "reasoning_effort", "n", "top_logprobs",
    "service_tier", "top_k", "min_p", "user",
)  # fmt: skip


def _received(body: Mapping[str, Any], reading: _Reading) -> tuple[str, ...]:
    found = [f"`{name}` {body[name]}" for name in _NAMED if body.get(name) is not None]
    if reading.system_characters:
        found.insert(0, f"a system prompt of {reading.system_characters} characters")
    return (*described(reading.pictures), *found)


# --- answering -------------------------------------------------------------------------------------

MEMBERS: dict[type, str] = {
    Reasoning: "reasoning_content",
    Message: "content",
    Refusal: "refusal",
}
