"""OpenAI's chat completions API: requests read, chunks and whole completions made."""

import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, TypeVar

from chat.demo import scenes, speech
from chat.demo.catalogue import CHAT_MODELS, Model, Shelf
from chat.demo.lmstudio import ERROR_TEXT, LOAD_SECONDS, Cut, described, estimate
from chat.demo.offered import Offered, arguments_for, choice_in, offered_in, with_offered
from chat.demo.scenes import Message, Reasoning, Refusal, Scene, ToolCall, ToolFailure, Turn
from chat.demo.speech import Break, Pace, Token
from chat.demo.vendor_models import TOOL_RUNNER, VENDOR_MODELS

JsonObject = dict[str, Any]

# While a prompt is processed a comment says that the connection lives.
COMMENT_SECONDS = 1.0
MOST_ANSWERS = 8


class BadRequest(Exception):
    """The request cannot be served; the arguments are OpenAI's error members."""

    def __init__(
        self, message: str, *, param: str, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": _error(message, "invalid_request_error", param=param, code=code)}


def _error(
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

_MEMBERS: dict[type, str] = {
    Reasoning: "reasoning_content",
    Message: "content",
    Refusal: "refusal",
}


class Speaker:
    """The chunks of one completion."""

    def __init__(
        self, request: ChatRequest, scene: Scene, pace: Pace, shelf: Shelf, *, index: int = 0
    ) -> None:
        self._request = request
        self._scene = scene
        self._pace = pace
        self._shelf = shelf
        self._index = index
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._others: list[Speaker] = []
        self._calls: list[ToolCall | ToolFailure] = []
        self._finish = "stop"
        self._tokens = 0
        self._reasoning_tokens = 0

    async def chunks(self) -> AsyncGenerator[JsonObject | None, None]:
        """Chunks in order; ``None`` where there is only a sign of life. Raises ``Cut``.

        An error is the last thing said, as an object with the one member ``error``. Where the
        server runs its tools itself, a call is an object with the member ``tool``.
        """
        async for nothing in self._prepare():
            yield nothing
        self._others = [self._other(index) for index in range(1, self._request.alternatives)]
        async for chunk in in_turn([self._said(), *(other._said() for other in self._others)]):
            yield chunk
            if "error" in chunk:
                return
        if self._request.includes_usage:
            yield {**self._chunk({}), "choices": [], "usage": self.usage()}

    def _other(self, index: int) -> "Speaker":
        """Who says another answer to the same question, as a part of this one."""
        scene = alternative(self._scene, index)
        other = Speaker(self._request, scene, self._pace.beside(), self._shelf, index=index)
        other._id, other._created = self._id, self._created
        return other

    async def _said(self) -> AsyncGenerator[JsonObject, None]:
        """One answer, from its role to its finish reason."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for thing in speech.say(
            self._scene,
            self._pace,
            tokens_per_second=self._request.model.tokens_per_second,
            limit=self._request.limit,
        ):
            if isinstance(thing, Token):
                yield self._token(thing)
            elif isinstance(thing, ToolCall | ToolFailure) and self._request.turn.runs_tools:
                yield {"tool": thing, "choices": []}
            elif isinstance(thing, ToolCall | ToolFailure):
                self._calls.append(thing)
            elif isinstance(thing, Break) and thing.cause != "length":
                yield self._broken(thing)
                return
            elif isinstance(thing, Break):
                self._finish = "length"
        async for chunk in self._call_fragments():
            yield chunk
        yield self._chunk({}, finish_reason=self._finish)

    def usage(self) -> JsonObject:
        speakers = [self, *self._others]
        tokens = sum(speaker._tokens for speaker in speakers)
        reasoning = sum(speaker._reasoning_tokens for speaker in speakers)
        return {
            "prompt_tokens": self._request.input_tokens,
            "completion_tokens": tokens,
            "total_tokens": self._request.input_tokens + tokens,
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }

    async def _prepare(self) -> AsyncIterator[None]:
        """Load the model and process the prompt: on this API, nothing but time and comments."""
        model = self._request.model
        if self._scene.forgets_model:
            self._shelf.unload(model)
        seconds = self._scene.prompt_seconds
        if not self._shelf.is_loaded(model):
            seconds += LOAD_SECONDS
            self._shelf.load(model)
        while seconds > 0:
            step = min(seconds, COMMENT_SECONDS)
            await self._pace.wait(step)
            seconds -= step
            if seconds > 0:
                yield None

    def _token(self, token: Token) -> JsonObject:
        self._tokens += 1
        self._reasoning_tokens += isinstance(token.part, Reasoning)
        chunk = self._chunk({_MEMBERS[type(token.part)]: token.text})
        if self._request.top_logprobs is not None and isinstance(token.part, Message):
            entry = likelihood(token.text, self._request.top_logprobs)
            chunk["choices"][0]["logprobs"] = {"content": [entry], "refusal": None}
        return chunk

    def _broken(self, thing: Break) -> JsonObject:
        if thing.cause == "cut":
            raise Cut
        return {"error": _error(ERROR_TEXT, "server_error", code="generation_failed")}

    async def _call_fragments(self) -> AsyncIterator[JsonObject]:
        """All calls at once, their fragments interleaved, as models with parallel calls send them."""
        if self._finish != "stop" or not self._calls:
            return
        self._finish = "tool_calls"
        fragments = [_fragments(index, call) for index, call in enumerate(self._calls)]
        for row in zip_longest(*fragments):
            for fragment in filter(None, row):
                await self._pace.wait(1 / self._request.model.tokens_per_second)
                self._tokens += 1
                yield self._chunk({"tool_calls": [fragment]})

    def _chunk(self, delta: JsonObject, *, finish_reason: str | None = None) -> JsonObject:
        choice = {
            "index": self._index,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        chunk: JsonObject = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._request.model.key,
            "system_fingerprint": self._request.model.key,
            "choices": [choice],
        }
        return {**chunk, "usage": None} if self._request.includes_usage else chunk


def _fragments(index: int, call: ToolCall | ToolFailure) -> list[JsonObject]:
    """The first fragment names the call; the others carry its arguments in pieces."""
    first = {
        "index": index,
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": call.tool, "arguments": ""},
    }
    rest = [
        {"index": index, "function": {"arguments": piece}}
        for piece in speech.tokens(arguments_text(call))
    ]
    return [first, *rest]


def arguments_text(call: ToolCall | ToolFailure) -> str:
    """The arguments as the model wrote them."""
    if isinstance(call, ToolFailure):
        return call.broken_arguments
    return json.dumps(call.arguments)


_Item = TypeVar("_Item")


async def in_turn(generators: Sequence[AsyncGenerator[_Item, None]]) -> AsyncGenerator[_Item, None]:
    """One thing of each in turn, until all have ended."""
    going = list(generators)
    try:
        while going:
            for generator in list(going):
                try:
                    yield await anext(generator)
                except StopAsyncIteration:
                    going.remove(generator)
    finally:
        for generator in generators:
            await generator.aclose()


def alternative(scene: Scene, index: int) -> Scene:
    """The same answer, told apart from the first one by its beginning."""
    parts = list(scene.parts)
    for position, part in enumerate(parts):
        if isinstance(part, Message):
            parts[position] = replace(
                part, text=f"*Another answer, number {index + 1}.* {part.text}"
            )
            break
    return replace(scene, parts=tuple(parts))


_OTHERS = (" weir", " heron", " alder", " ford", " mist")


def likelihood(token: str, others: int) -> JsonObject:
    """Log probabilities of one token; figures that look real, the same for the same token."""
    logprob = -round((sum(token.encode("utf-8", "surrogatepass")) % 97 + 1) / 40, 4)
    rivals = (token, *(f"{word}{round_}" for round_ in ("", "s", "ing", "ly") for word in _OTHERS))
    top = [_entry(rival, logprob - number) for number, rival in enumerate(rivals[:others])]
    return {**_entry(token, logprob), "top_logprobs": top}


def _entry(token: str, logprob: float) -> JsonObject:
    encoded = list(token.encode("utf-8", "surrogatepass"))
    return {"token": token, "logprob": round(logprob, 4), "bytes": encoded}


async def completion(speaker: Speaker) -> JsonObject:
    """The whole completion in one object, or an object with the one member ``error``."""
    choices: dict[int, JsonObject] = {}
    last: JsonObject = {}
    async for chunk in speaker.chunks():
        if chunk is None:
            continue
        if "error" in chunk:
            return chunk
        last = chunk if chunk["choices"] else last
        for choice in chunk["choices"]:
            _gather(choice, choices)
    return {
        **last,
        "object": "chat.completion",
        "choices": [_whole(choice) for _, choice in sorted(choices.items())],
        "usage": speaker.usage(),
    }


def _gather(piece: JsonObject, choices: dict[int, JsonObject]) -> None:
    """Adds what one chunk says of a choice to what there is of it."""
    fresh = {
        **piece,
        "logprobs": None,
        "message": {"role": "assistant", "content": ""},
        "calls": {},
    }
    choice = choices.setdefault(piece["index"], fresh)
    choice["finish_reason"] = piece["finish_reason"]
    if piece["logprobs"]:
        known = choice["logprobs"]["content"] if choice["logprobs"] else []
        choice["logprobs"] = {
            **piece["logprobs"],
            "content": [*known, *piece["logprobs"]["content"]],
        }
    _add(piece["delta"], choice["message"], choice["calls"])


def _whole(choice: JsonObject) -> JsonObject:
    message = {name: speech.paired(text) for name, text in choice["message"].items()}
    if choice["calls"]:
        message["tool_calls"] = list(choice["calls"].values())
    kept = {name: value for name, value in choice.items() if name not in ("delta", "calls")}
    return {**kept, "message": message}


def _add(delta: JsonObject, message: JsonObject, calls: dict[int, JsonObject]) -> None:
    for name in _MEMBERS.values():
        if delta.get(name):
            message[name] = message.get(name, "") + delta[name]
    for fragment in delta.get("tool_calls", ()):
        if fragment["index"] not in calls:
            function = dict(fragment["function"])
            calls[fragment["index"]] = {
                "id": fragment["id"],
                "type": "function",
                "function": function,
            }
            continue
        calls[fragment["index"]]["function"]["arguments"] += fragment["function"]["arguments"]
