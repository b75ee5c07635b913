"""Xerotier's chat completions with their ``x_*`` events, its model list and its mockup files."""

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

from chat.demo import scenes, script
from chat.demo.apis import DemoApi
from chat.demo.apis.xerotier.mockup import Bundles
from chat.demo.apis.xerotier.scenes import LABELS, SceneRequest, choose
from chat.demo.apis.xerotier.steps import (
    Cut,
    Emit,
    Fail,
    JsonObject,
    Refuse,
    Say,
    Scene,
    Step,
    Wait,
)
from chat.demo.apis.xerotier.texts import ALL_QUESTIONS
from chat.demo.catalogue import CREATED
from chat.demo.http import Exchange
from chat.demo.lmstudio import estimate
from chat.demo.scenes import Pace
from chat.demo.script import OPENAI_DONE, json_bytes, openai_chunk

PROJECT, ENDPOINT = "/xerotier/proj_demo", "/river"
# A little slower than the other demos: there is more to watch.
TOKENS_PER_SECOND = 45.0
# As the real service: a comment after so much silence.
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": heartbeat\n\n"
JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}

_BUNDLES = Bundles()


class BadRequest(Exception):
    """The request cannot be served; ``body`` is the error as the service words it."""

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        error = {"message": message, "type": "invalid_request_error", "code": code, "param": param}
        self.body = {"error": error}


# --- reading a request ----------------------------------------------------------------------


def read(data: bytes) -> tuple[JsonObject, SceneRequest]:
    """The request and what it asks for. Raises ``BadRequest``."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest("The body is not JSON", code="json_parse_error") from error
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise BadRequest("'messages' must be a list", code="invalid_request", param="messages")
    questions = [_text(m) for m in messages if m.get("role") == "user"]
    if not questions:
        raise BadRequest("Nobody asked anything", code="invalid_request", param="messages")
    if not body.get("model"):
        raise BadRequest("'model' must not be empty", code="invalid_request", param="model")
    _check_calls(messages)
    return body, SceneRequest(
        model=str(body["model"]),
        text=questions[-1],
        number=len(questions),
        earlier="\n".join(_text(m) for m in messages if m.get("role") == "assistant"),
        replies=_replies(messages),
    )


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n\n".join(str(text) for text in parts if text)
    return content if isinstance(content, str) else ""


def _check_calls(messages: list[JsonObject]) -> None:
    """A call that is not answered by the messages after it is refused, as by any such server."""
    answered = {m.get("tool_call_id") for m in messages if m.get("role") == "tool"}
    for message in messages:
        for call in message.get("tool_calls") or ():
            if call.get("id") not in answered:
                text = f"No tool message answers the call {call.get('id')}"
                raise BadRequest(text, code="invalid_request", param="messages")


def _replies(messages: list[JsonObject]) -> tuple[JsonObject, ...]:
    """Replies to questions at the end: as results of the calls that asked, or as plain words."""
    found: list[JsonObject] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        reply = _object(_text(message))
        if "askUserId" in reply:
            found.insert(0, reply)
    if found or len(messages) < 2 or messages[-1].get("role") != "user":
        return tuple(found)
    was_asked = any(question in _text(messages[-2]) for question in ALL_QUESTIONS)
    return ({"text": _text(messages[-1])},) if was_asked else ()


def _object(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# --- answering ------------------------------------------------------------------------------


class Speaker:
    """The frames of one answer."""

    def __init__(self, body: JsonObject, scene: Scene, pace: Pace) -> None:
        self._model = str(body["model"])
        self._scene = scene
        self._pace = pace
        self._has_logprobs = body.get("logprobs") is True
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        self._tokens_left = limit if isinstance(limit, int) and limit > 0 else 1 << 60
        options = body.get("stream_options")
        self._includes_usage = isinstance(options, dict) and options.get("include_usage") is True
        self._input_tokens = estimate(sum(len(_text(m)) for m in body["messages"]))
        self._tokens = 0
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self.is_cut = False
        self.error: JsonObject | None = None

    async def frames(self) -> AsyncGenerator[bytes, None]:
        yield self._chunk({"role": "assistant", "content": ""})
        for step in self._scene.steps:
            async for frame in self._do(step):
                yield frame
            if isinstance(step, Cut):
                self.is_cut = True
                return
            if isinstance(step, Fail):
                yield OPENAI_DONE
                return
            if not self._tokens_left:
                break
        yield self._end("length" if not self._tokens_left else self._scene.finish)
        for event in self._scene.last:
            yield openai_chunk({"type": event.type, **event.members})
        yield OPENAI_DONE

    async def _do(self, step: Step) -> AsyncIterator[bytes]:
        if isinstance(step, Emit):
            yield openai_chunk({"type": step.type, **step.members})
        elif isinstance(step, Wait):
            async for frame in self._wait(step.seconds):
                yield frame
        elif isinstance(step, Say | Refuse):
            member = "content" if isinstance(step, Say) else "refusal"
            async for frame in self._say(step.text, member):
                yield frame
        elif isinstance(step, Fail):
            self.error = {"message": step.message, "type": step.type, "code": step.code}
            yield b"event: error\n" + openai_chunk({"error": self.error})

    async def _wait(self, seconds: float) -> AsyncIterator[bytes]:
        while seconds > HEARTBEAT_SECONDS:
            await self._pace.wait(HEARTBEAT_SECONDS)
            seconds -= HEARTBEAT_SECONDS
            yield HEARTBEAT
        await self._pace.wait(seconds)

    async def _say(self, text: str, member: str) -> AsyncIterator[bytes]:
        for token in scenes.tokens(text):
            if not self._tokens_left:
                return
            await self._pace.wait(1 / TOKENS_PER_SECOND)
            self._tokens += 1
            self._tokens_left -= 1
            yield self._chunk({member: token}, logprobs=self._logprobs(token, member))

    def _logprobs(self, token: str, member: str) -> JsonObject | None:
        if not self._has_logprobs:
            return None
        # The longer the token, the surer: as good as any figure that nothing was computed for.
        entry = {
            "token": token,
            "logprob": -1 / len(token),
            "bytes": list(token.encode()),
            "top_logprobs": [],
        }
        other = "refusal" if member == "content" else "content"
        return {member: [entry], other: None}

    def _chunk(
        self,
        delta: JsonObject,
        *,
        finish_reason: str | None = None,
        logprobs: JsonObject | None = None,
        usage: JsonObject | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        return openai_chunk(
            {
                "id": self._id,
                "object": "chat.completion.chunk",
                "created": self._created,
                "model": self._model,
                "service_tier": None,
                "system_fingerprint": None,
                "choices": [choice],
                "usage": usage,
            }
        )

    def _end(self, reason: str) -> bytes:
        return self._chunk(
            {}, finish_reason=reason, usage=self.usage() if self._includes_usage else None
        )

    def usage(self) -> JsonObject:
        return {
            "prompt_tokens": self._input_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": self._input_tokens + self._tokens,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": None},
            "completion_tokens_details": {"reasoning_tokens": None, "audio_tokens": None},
        }

    async def completion(self) -> JsonObject:
        """The whole answer or its error; the events between the chunks are in neither."""
        async for _ in self.frames():
            pass
        if self.error:
            return {"error": self.error}
        texts = {Say: "", Refuse: ""}
        for step in self._scene.steps:
            if isinstance(step, Say | Refuse):
                texts[type(step)] += step.text
        message = {
            "role": "assistant",
            "content": texts[Say] or None,
            "refusal": texts[Refuse] or None,
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": self._model,
            "service_tier": None,
            "system_fingerprint": None,
            "choices": [choice],
            "usage": self.usage(),
        }


# --- routes -----------------------------------------------------------------------------------


async def _chat(exchange: Exchange, pace: Pace) -> None:
    try:
        body, asked = read(exchange.request.body)
    except BadRequest as refusal:
        await _answer(exchange, 400, refusal.body)
        return
    speaker = Speaker(body, choose(asked, _BUNDLES), pace)
    if body.get("stream") is not True:
        completion = await speaker.completion()
        await _answer(exchange, 503 if speaker.error else 200, completion)
        return
    await exchange.head(200, script.STREAM_HEADERS)
    async with aclosing(speaker.frames()) as frames:
        async for frame in frames:
            await exchange.write(frame)
    if speaker.is_cut:
        exchange.close()
    else:
        await exchange.finish()


async def _models(exchange: Exchange, pace: Pace) -> None:
    extended = "extended=true" in exchange.request.query.split("&")
    entries = [
        {"id": model, "object": "model", "created": CREATED, "owned_by": "tributary"}
        | ({"name": label, "status": "ready", "architecture": "demo"} if extended else {})
        for model, label in LABELS.items()
    ]
    await _answer(exchange, 200, {"object": "list", "data": entries})


async def _mockup_file(exchange: Exchange, pace: Pace) -> None:
    below = exchange.request.path.removeprefix(f"{PROJECT}{ENDPOINT}/v1/mockups/")
    found = _BUNDLES.find(unquote(below))
    if found is None:
        error = {"message": "No such file", "type": "invalid_request_error", "code": "not_found"}
        await _answer(exchange, 404, {"error": error})
        return
    media_type, data = found
    await exchange.answer(200, {"Content-Type": media_type}, data)


async def _answer(exchange: Exchange, status: int, body: object) -> None:
    await exchange.answer(status, JSON_HEADERS, json_bytes(body))


api = DemoApi(
    dialect="xerotier",
    path=PROJECT,
    routes={
        ("GET", "/v1/models"): _models,
        ("POST", f"{ENDPOINT}/v1/chat/completions"): _chat,
        ("GET", f"{ENDPOINT}/v1/mockups/*"): _mockup_file,
    },
)
