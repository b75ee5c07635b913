"""LM Studio's native REST API, as far as a chat needs it: requests read, events and results made."""

import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chat.demo import scenes
from chat.demo.catalogue import CHAT_MODELS, Model, Shelf, reasoning_options
from chat.demo.scenes import (
    Begin,
    Break,
    End,
    Message,
    Pace,
    Reasoning,
    Refusal,
    Scene,
    Token,
    ToolCall,
    ToolFailure,
    Turn,
)

JsonObject = dict[str, Any]

LOAD_SECONDS = 2.0
LOAD_STEPS = 20
PROMPT_STEP_SECONDS = 0.25
TOOL_ARGUMENT_SECONDS = 0.4
# Old points in old conversations are forgotten beyond this many, as a restart forgets them all.
STORED_RESPONSES = 10_000
ERROR_TEXT = (
    "The model stopped unexpectedly while it was generating (this is the demo's error scene)."
)


class BadRequest(Exception):
    """The request cannot be served; the arguments are LM Studio's error members."""

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param

    @property
    def body(self) -> JsonObject:
        error = {"type": "invalid_request", "message": str(self), "code": self.code}
        return {"error": error if self.param is None else {**error, "param": self.param}}


# --- the history that this API keeps -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One place in a conversation, to which ``previous_response_id`` may return."""

    number: int
    question: str
    tokens: int


class History:
    """The points that were stored, in this process only."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, Point] = OrderedDict()

    def find(self, response_id: str) -> Point | None:
        return self._points.get(response_id)

    def store(self, point: Point) -> str:
        response_id = f"resp_{secrets.token_hex(24)}"
        self._points[response_id] = point
        if len(self._points) > STORED_RESPONSES:
            self._points.popitem(last=False)
        return response_id


# --- reading a request ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    model: Model
    turn: Turn
    streams: bool
    stores: bool
    limit: int | None
    input_tokens: int
    # The MCP server that calls are said to go to.
    server_label: str = "river"


_IMAGE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]+)\Z")
_FRACTIONS = ("temperature", "top_p", "min_p")
_COUNTS = ("top_k", "max_output_tokens", "context_length")
_BOOLEANS = ("stream", "store")


def read(body: object, history: History) -> ChatRequest:
    """Check a request as LM Studio does. Raises ``BadRequest``."""
    if not isinstance(body, dict):
        raise BadRequest("Request body must be a JSON object", code="invalid_type")
    _check_parameters(body)
    model = _model(body)
    integrations = _integrations(body)
    texts, pictures = _input(body)
    previous = _previous(body, history)
    question, earlier = _questions(texts[-1] if texts else "")
    asked = sum(map(len, texts)) + len(body.get("system_prompt") or "")
    return ChatRequest(
        model=model,
        turn=Turn(
            text=question,
            number=(previous.number if previous else len(earlier)) + 1,
            previous_question=previous.question if previous else "".join(earlier[-1:]),
            received=(*_received(body, texts, pictures), *_offered(integrations)),
            thinks=_thinks(body, model),
        ),
        server_label=integrations[0] if integrations else "river",
        streams=body.get("stream", False),
        stores=body.get("store", True),
        limit=body.get("max_output_tokens"),
        input_tokens=(previous.tokens if previous else 0) + estimate(asked) + 256 * len(pictures),
    )


def estimate(characters: int) -> int:
    """Tokens for so many characters, with the few that every template adds."""
    return characters // 4 + 8


def _check_parameters(body: Mapping[str, Any]) -> None:
    for name in _FRACTIONS:
        _check(body, name, _is_fraction, "must be a number from 0 to 1", "out_of_range")
    for name in _COUNTS:
        _check(body, name, _is_count, "must be a positive integer", "invalid_type")
    for name in _BOOLEANS:
        _check(
            body, name, lambda value: isinstance(value, bool), "must be a boolean", "invalid_type"
        )
    _check(
        body,
        "system_prompt",
        lambda value: isinstance(value, str),
        "must be a string",
        "invalid_type",
    )
    _check(body, "repeat_penalty", _is_number, "must be a number", "invalid_type")


def _check(
    body: Mapping[str, Any], name: str, holds: Callable[[Any], bool], rule: str, code: str
) -> None:
    if name in body and not holds(body[name]):
        raise BadRequest(f'"{name}" {rule}', code=code, param=name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_fraction(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _model(body: Mapping[str, Any]) -> Model:
    name = body.get("model")
    if name is None:
        raise BadRequest('"model" is required', code="missing_required_parameter", param="model")
    model = CHAT_MODELS.get(name) if isinstance(name, str) else None
    if model is None:
        raise BadRequest(f"Model not found: {name}", code="model_not_found", param="model")
    return model


def _input(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The texts, the newest last, and the media types of the pictures."""
    given = body.get("input")
    if given is None:
        raise BadRequest('"input" is required', code="missing_required_parameter", param="input")
    if isinstance(given, str):
        return [given], []
    if not isinstance(given, list) or not given:
        raise _bad_input("expected a string or an array of items")
    texts: list[str] = []
    pictures: list[str] = []
    for item in given:
        _read_item(item, texts, pictures)
    return texts, pictures


def _integrations(body: Mapping[str, Any]) -> list[str]:
    """The names of the plugins and MCP servers. Raises ``BadRequest``; headers are never repeated."""
    given = body.get("integrations", [])
    if not isinstance(given, list):
        raise _bad_integration("expected an array")
    return [_integration(entry) for entry in given]


def _integration(entry: object) -> str:
    if isinstance(entry, str):
        return entry
    kind = entry.get("type") if isinstance(entry, dict) else None
    if isinstance(entry, dict) and kind == "plugin" and isinstance(entry.get("id"), str):
        return str(entry["id"])
    is_server = kind == "ephemeral_mcp" and isinstance(entry, dict)
    if not is_server or not isinstance(entry, dict):
        raise _bad_integration("expected a string, a plugin or an ephemeral_mcp")
    if not str(entry.get("server_url", "")).startswith(("http://", "https://")):
        raise _bad_integration("`server_url` must be an address")
    return str(entry.get("server_label"))


def _bad_integration(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_union", param="integrations")


def _offered(integrations: list[str]) -> tuple[str, ...]:
    named = ", ".join(f"`{name}`" for name in integrations)
    return (f"tools of {named}",) if integrations else ()


_HISTORY = re.compile(
    r"The conversation so far:\n\n(?P<turns>.*)\n\nThe user's next message:\n\n(?P<question>.*)",
    re.DOTALL,
)
_QUESTION = re.compile(r"(?:\A|\n\n)User:\n(.*?)(?=\n\n(?:Assistant|User):\n|\Z)", re.DOTALL)


def _questions(text: str) -> tuple[str, list[str]]:
    """The newest question and those before it, where the history came as text in front of it."""
    found = _HISTORY.fullmatch(text)
    if found is None:
        return text, []
    return found["question"], _QUESTION.findall(found["turns"])


def _read_item(item: object, texts: list[str], pictures: list[str]) -> None:
    kind = item.get("type") if isinstance(item, dict) else None
    if isinstance(item, dict) and kind == "text" and isinstance(item.get("content"), str):
        texts.append(item["content"])
    elif isinstance(item, dict) and kind == "image" and _IMAGE.match(str(item.get("data_url"))):
        pictures.append(item["data_url"].partition(";")[0].removeprefix("data:"))
    elif kind in ("text", "image"):
        raise _bad_input("text items need `content`, image items a base64 `data_url`")
    else:
        raise _bad_input("Invalid discriminator value: expected 'text' | 'image'")


def _bad_input(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_union", param="input")


def _previous(body: Mapping[str, Any], history: History) -> Point | None:
    name = "previous_response_id"
    response_id = body.get(name)
    if response_id is None:
        return None
    if not isinstance(response_id, str) or not response_id.startswith("resp_"):
        raise BadRequest(f'"{name}" must begin with "resp_"', code="invalid_string", param=name)
    point = history.find(response_id)
    if point is None:
        message = f"Could not find a stored response with the id {response_id}"
        raise BadRequest(message, code="previous_response_not_found", param=name)
    return point


def _thinks(body: Mapping[str, Any], model: Model) -> bool | None:
    wish = body.get("reasoning")
    if wish is None:
        return model.reasons
    if wish not in reasoning_options(model):
        message = f"Model {model.key} does not support reasoning setting {wish!r}"
        raise BadRequest(message, code="invalid_value", param="reasoning")
    return None if wish == "off" else True


_NAMED = (
    "temperature",
    "top_p",
    "min_p",
    "top_k",
    "repeat_penalty",
    "max_output_tokens",
    "reasoning",
)


def _received(body: Mapping[str, Any], texts: list[str], pictures: list[str]) -> tuple[str, ...]:
    found = [f"`{name}` {body[name]}" for name in _NAMED if name in body]
    if len(texts) > 1:
        found.insert(0, f"{sum(map(len, texts[:-1]))} characters of text before it")
    if body.get("system_prompt"):
        found.insert(0, f"a system prompt of {len(body['system_prompt'])} characters")
    return (*described(pictures), *found)


def described(pictures: list[str]) -> tuple[str, ...]:
    """Pictures in words, which is all that the demo sees of them."""
    if not pictures:
        return ()
    count = "a picture" if len(pictures) == 1 else f"{len(pictures)} pictures"
    return (f"{count} ({', '.join(sorted(set(pictures)))})",)


# --- answering -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Draft:
    """The result as far as it has been said."""

    output: list[JsonObject] = field(default_factory=list)
    tokens: int = 0
    reasoning_tokens: int = 0
    first_token_seconds: float | None = None
    first_token_at: float = 0.0
    load_seconds: float | None = None
    pieces: list[str] = field(default_factory=list)

    def take(self, token: Token, pace: Pace, started: float) -> None:
        if self.first_token_seconds is None:
            self.first_token_seconds = pace.seconds - started
            self.first_token_at = pace.seconds
        self.tokens += 1
        self.reasoning_tokens += isinstance(token.part, Reasoning)
        self.pieces.append(token.text)

    def close(self, kind: str) -> None:
        content = scenes.paired("".join(self.pieces))
        if content:
            self.output.append({"type": kind, "content": content})
        self.pieces = []


_KINDS: dict[type, str] = {Reasoning: "reasoning", Message: "message", Refusal: "message"}


class Cut(Exception):
    """The scene wants the connection to break off here."""


Events = AsyncGenerator[JsonObject, None]


async def events(
    request: ChatRequest, scene: Scene, pace: Pace, *, shelf: Shelf, history: History
) -> Events:
    """The stream's events, ``chat.start`` to ``chat.end``. Raises ``Cut`` where the scene is cut."""
    draft = Draft()
    yield {"type": "chat.start", "model_instance_id": request.model.key}
    if scene.forgets_model:
        shelf.unload(request.model)
    if not shelf.is_loaded(request.model):
        async for event in _load(request.model, pace):
            yield event
        draft.load_seconds = LOAD_SECONDS
        shelf.load(request.model)
    started = pace.seconds
    async for event in _process_prompt(scene.prompt_seconds, pace):
        yield event
    said = scenes.say(
        scene, pace, tokens_per_second=request.model.tokens_per_second, limit=request.limit
    )
    async for thing in said:
        if isinstance(thing, Token):
            draft.take(thing, pace, started)
            yield {"type": f"{_KINDS[type(thing.part)]}.delta", "content": thing.text}
        elif isinstance(thing, ToolCall):
            label = request.server_label
            async for event in _call(replace(thing, server_label=label), pace, draft):
                yield event
        else:
            for event in _boundary(thing, draft):
                yield event
    yield {"type": "chat.end", "result": _result(request, draft, pace, history)}


async def _load(model: Model, pace: Pace) -> AsyncIterator[JsonObject]:
    instance = {"model_instance_id": model.key}
    yield {"type": "model_load.start", **instance}
    for step in range(1, LOAD_STEPS + 1):
        await pace.wait(LOAD_SECONDS / LOAD_STEPS)
        yield {"type": "model_load.progress", **instance, "progress": step / LOAD_STEPS}
    yield {"type": "model_load.end", **instance, "load_time_seconds": LOAD_SECONDS}


async def _process_prompt(seconds: float, pace: Pace) -> AsyncIterator[JsonObject]:
    steps = max(2, round(seconds / PROMPT_STEP_SECONDS))
    yield {"type": "prompt_processing.start"}
    for step in range(1, steps + 1):
        await pace.wait(seconds / steps)
        yield {"type": "prompt_processing.progress", "progress": round(step / steps, 4)}
    yield {"type": "prompt_processing.end"}


async def _call(call: ToolCall, pace: Pace, draft: Draft) -> AsyncIterator[JsonObject]:
    provider = {"type": "ephemeral_mcp", "server_label": call.server_label}
    known = {"tool": call.tool, "provider_info": provider}
    done = {"tool": call.tool, "arguments": call.arguments}
    yield {"type": "tool_call.start", **known}
    await pace.wait(TOOL_ARGUMENT_SECONDS)
    yield {"type": "tool_call.arguments", **done, "provider_info": provider}
    await pace.wait(call.seconds)
    done = {**done, "output": call.output, "provider_info": provider}
    draft.output.append({"type": "tool_call", **done})
    yield {"type": "tool_call.success", **done}


def _boundary(thing: Begin | End | ToolFailure | Break, draft: Draft) -> list[JsonObject]:
    match thing:
        case Begin(part):
            return [{"type": f"{_KINDS[type(part)]}.start"}]
        case End(part):
            draft.close(_KINDS[type(part)])
            return [{"type": f"{_KINDS[type(part)]}.end"}]
        case ToolFailure():
            return [_failure(thing, draft)]
        case Break():
            return _break(thing, draft)


def _failure(call: ToolFailure, draft: Draft) -> JsonObject:
    metadata = {"type": "invalid_name", "tool_name": call.tool}
    failure = {"reason": call.reason, "metadata": metadata}
    draft.output.append({"type": "invalid_tool_call", **failure})
    return {"type": "tool_call.failure", **failure}


def _break(thing: Break, draft: Draft) -> list[JsonObject]:
    """After an error no end of the open text comes, only ``chat.end`` with what there is."""
    kind = _KINDS[type(thing.part)]
    if thing.cause == "cut":
        raise Cut
    draft.close(kind)
    if thing.cause == "length":
        return [{"type": f"{kind}.end"}]
    error = {"type": "internal_error", "message": ERROR_TEXT, "code": "generation_failed"}
    return [{"type": "error", "error": error}]


def _result(request: ChatRequest, draft: Draft, pace: Pace, history: History) -> JsonObject:
    spoken = pace.seconds - draft.first_token_at
    stats: JsonObject = {
        "input_tokens": request.input_tokens,
        "total_output_tokens": draft.tokens,
        "reasoning_output_tokens": draft.reasoning_tokens,
        "tokens_per_second": round(draft.tokens / spoken, 4) if spoken else 0.0,
        "time_to_first_token_seconds": round(draft.first_token_seconds or 0.0, 4),
    }
    if draft.load_seconds is not None:
        stats["model_load_time_seconds"] = draft.load_seconds
    result: JsonObject = {
        "model_instance_id": request.model.key,
        "output": draft.output,
        "stats": stats,
    }
    if request.stores:
        point = Point(
            number=request.turn.number,
            question=request.turn.text[:200],
            tokens=request.input_tokens + draft.tokens,
        )
        result["response_id"] = history.store(point)
    return result


async def result_of(events: Events) -> tuple[int, JsonObject]:
    """Status and body of an answer that is not streamed: the result, or the error."""
    error: JsonObject | None = None
    result: JsonObject = {}
    async for event in events:
        if event["type"] == "error":
            error = {"error": event["error"]}
        if event["type"] == "chat.end":
            result = event["result"]
    return (500, error) if error else (200, result)
