"""The demo's legacy completions: a prompt in one of the usual templates, and the text after it."""

import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from chat.demo import prose, scenes
from chat.demo import scenes as speech
from chat.demo.apis import DemoApi
from chat.demo.catalogue import CREATED
from chat.demo.http import Exchange
from chat.demo.lmstudio import Cut, estimate
from chat.demo.openai import speaker as openai
from chat.demo.openai.requests import BadRequest, alternatives_in
from chat.demo.openai.speaker import in_turn, likelihood
from chat.demo.scenes import (
    Break,
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
from chat.demo.script import OPENAI_DONE, STREAM_HEADERS, json_bytes, openai_chunk

JsonObject = dict[str, Any]
Chunks = AsyncGenerator[JsonObject, None]

BASE = "tributary/demo-base"
BASE_THINKER = "tributary/demo-base-thinker"
MODELS: Mapping[str, str] = {BASE: "Demo Base", BASE_THINKER: "Demo Base that thinks"}

TOKENS_PER_SECOND = 80.0
# What the real servers do where nobody says more.
DEFAULT_TOKENS = 16
ERROR_TEXT = "The engine stopped (this is the demo's error scene)."
_JSON = {"Content-Type": "application/json; charset=utf-8"}


# --- reading a request ---------------------------------------------------------------------------

# What stands before a person's words in each template, and what after them.
_TEMPLATES: Mapping[str, re.Pattern[str]] = {
    "chatml": re.compile(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", re.DOTALL),
    "llama3": re.compile(
        r"<\|start_header_id\|>user<\|end_header_id\|>\n\n(.*?)<\|eot_id\|>", re.DOTALL
    ),
    "mistral": re.compile(r"\[INST\] (.*?)\[/INST\]", re.DOTALL),
    "gemma": re.compile(r"<start_of_turn>user\n(.*?)<end_of_turn>", re.DOTALL),
    "alpaca": re.compile(
        r"^### Instruction:\n(.*?)\n\n(?=### (?:Response|Instruction):)", re.DOTALL | re.MULTILINE
    ),
    "plain": re.compile(r"^User: (.*?)\n(?=(?:Assistant|User):)", re.DOTALL | re.MULTILINE),
}


def questions_in(prompt: str) -> tuple[str, list[str]]:
    """The template that a prompt was written in, and what people said in it; a prompt in no
    template is one question."""
    for name, pattern in _TEMPLATES.items():
        found = pattern.findall(prompt)
        if found:
            return name, found
    return "", [prompt]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    model: str
    prompt: str
    turn: Turn
    streams: bool
    includes_usage: bool
    limit: int
    stops: tuple[str, ...]
    alternatives: int
    echoes: bool
    logprobs: int | None


def read(body: object) -> CompletionRequest:
    """Check a request. Raises ``BadRequest``."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object", param="body")
    model = body.get("model")
    if model not in MODELS:
        message = f"The model `{model}` does not exist"
        raise BadRequest(message, param="model", code="model_not_found", status=404)
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadRequest("'prompt' must be a string here", param="prompt")
    options = body.get("stream_options")
    return CompletionRequest(
        model=str(model),
        prompt=prompt,
        turn=_turn(body, str(model), prompt),
        streams=body.get("stream") is True,
        includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
        limit=_count(body, "max_tokens", least=1) or DEFAULT_TOKENS,
        stops=_stops(body),
        alternatives=alternatives_in(body),
        echoes=body.get("echo") is True,
        logprobs=_count(body, "logprobs", least=0, most=5),
    )


def _turn(body: Mapping[str, Any], model: str, prompt: str) -> Turn:
    template, questions = questions_in(prompt)
    seen = (f"a prompt in the template `{template}`" if template else "a prompt in no template",)
    named = ("temperature", "top_p", "max_tokens", "seed", "stop", "top_k")
    parameters = (f"`{name}` {json.dumps(body[name])}" for name in named if name in body)
    return Turn(
        text=questions[-1],
        number=len(questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=(*seen, *parameters),
        thinks=model == BASE_THINKER,
        runs_tools=False,
    )


def _count(body: Mapping[str, Any], name: str, *, least: int, most: int = 1_000_000) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadRequest(f"'{name}' must be from {least} to {most}", param=name)
    return value


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    value = body.get("stop") or []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("'stop' must be a text or a list of texts", param="stop")
    if len(texts) > 4:
        raise BadRequest("'stop' holds at most 4 texts", param="stop")
    return tuple(texts)


# --- answering -------------------------------------------------------------------------------------


def choose(turn: Turn) -> Scene:
    """As for a chat; tools there are none to call."""
    scene = scenes.choose(turn)
    if not any(isinstance(part, ToolCall | ToolFailure) for part in scene.parts):
        return scene
    words = tuple(part for part in scene.parts if isinstance(part, Reasoning))
    return Scene(parts=(*words, Message(prose.NO_TOOLS)), prompt_seconds=scene.prompt_seconds)


def as_text(scene: Scene) -> Scene:
    """One text, as a model without a reasoning member writes it: thinking between tags."""
    texts = []
    for part in scene.parts:
        if isinstance(part, Reasoning):
            texts.append(f"<think>\n{part.text}</think>\n\n")
        elif isinstance(part, Message | Refusal):
            texts.append(part.text)
    return Scene(
        parts=(Message("".join(texts)),), prompt_seconds=scene.prompt_seconds, ending=scene.ending
    )


class Speaker:
    """The chunks of one completion; ``text`` where those of a chat have a delta."""

    def __init__(self, request: CompletionRequest, pace: Pace) -> None:
        self._request = request
        self._pace = pace
        self._id = f"cmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._tokens = 0

    async def chunks(self) -> Chunks:
        """Chunks in order, an error last. Raises ``Cut``."""
        scene = as_text(choose(self._request.turn))
        await self._pace.wait(scene.prompt_seconds)
        numbers = range(self._request.alternatives)
        whole = [scene, *(openai.alternative(scene, number) for number in numbers[1:])]
        async for chunk in in_turn([self._said(one, n) for n, one in enumerate(whole)]):
            yield chunk
            if "error" in chunk:
                return
        if self._request.includes_usage:
            yield {**self._chunk(0, ""), "choices": [], "usage": self.usage()}

    def usage(self) -> JsonObject:
        asked = estimate(len(self._request.prompt))
        return {
            "prompt_tokens": asked,
            "completion_tokens": self._tokens,
            "total_tokens": asked + self._tokens,
        }

    async def _said(self, scene: Scene, number: int) -> Chunks:
        if self._request.echoes:
            yield self._chunk(number, self._request.prompt)
        said = ""
        pace = self._pace if number == 0 else self._pace.beside()
        async for thing in speech.say(
            scene, pace, tokens_per_second=TOKENS_PER_SECOND, limit=self._request.limit
        ):
            if isinstance(thing, Token):
                self._tokens += 1
                said += thing.text
                if any(stop in said for stop in self._request.stops):
                    break
                yield self._chunk(number, thing.text)
            elif isinstance(thing, Break) and thing.cause == "cut":
                raise Cut
            elif isinstance(thing, Break) and thing.cause == "error":
                yield {"error": {"message": ERROR_TEXT, "type": "server_error", "code": 500}}
                return
            elif isinstance(thing, Break):
                yield self._chunk(number, "", finish_reason="length")
                return
        yield self._chunk(number, "", finish_reason="stop")

    def _chunk(self, number: int, text: str, *, finish_reason: str | None = None) -> JsonObject:
        choice: JsonObject = {
            "index": number,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        if text and self._request.logprobs is not None:
            choice["logprobs"] = _legacy(text, self._request.logprobs)
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self._request.model,
            "choices": [choice],
        }


def _legacy(text: str, others: int) -> JsonObject:
    """Parallel lists, as this API has them."""
    entry = likelihood(text, others)
    top = {rival["token"]: rival["logprob"] for rival in entry["top_logprobs"]}
    return {
        "tokens": [text],
        "token_logprobs": [entry["logprob"]],
        "top_logprobs": [top],
        "text_offset": [0],
    }


async def completion(speaker: Speaker) -> JsonObject:
    """The whole completion in one object, or an object with the one member ``error``."""
    choices: dict[int, JsonObject] = {}
    last: JsonObject = {}
    async for chunk in speaker.chunks():
        if "error" in chunk:
            return chunk
        for piece in chunk["choices"]:
            last = chunk
            choice = choices.setdefault(piece["index"], {**piece, "text": ""})
            choice["text"] += piece["text"]
            choice["finish_reason"] = piece["finish_reason"]
    whole = [
        {**choice, "text": speech.paired(choice["text"])} for _, choice in sorted(choices.items())
    ]
    return {**last, "choices": whole, "usage": speaker.usage()}


# --- the calls ----------------------------------------------------------------------------------------


async def completions(exchange: Exchange, pace: Pace) -> None:
    try:
        request = read(json.loads(exchange.request.body))
    except ValueError:
        error = {"message": "The request body is not valid JSON", "type": "invalid_request_error"}
        await exchange.answer(400, _JSON, json_bytes({"error": error}))
        return
    except BadRequest as refusal:
        await exchange.answer(refusal.status, _JSON, json_bytes(refusal.body))
        return
    speaker = Speaker(request, pace)
    try:
        await _answer(exchange, request, speaker)
    except Cut:
        exchange.close()


async def _answer(exchange: Exchange, request: CompletionRequest, speaker: Speaker) -> None:
    if not request.streams:
        whole = await completion(speaker)
        await exchange.answer(500 if "error" in whole else 200, _JSON, json_bytes(whole))
        return
    await exchange.head(200, STREAM_HEADERS)
    async with aclosing(speaker.chunks()) as chunks:
        async for chunk in chunks:
            await exchange.write(openai_chunk(chunk))
    await exchange.finish(OPENAI_DONE)


async def models(exchange: Exchange, pace: Pace) -> None:
    entries = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "tributary"}
        for name in MODELS
    ]
    await exchange.answer(200, _JSON, json_bytes({"object": "list", "data": entries}))


api = DemoApi(
    dialect="openai_completions",
    path="/completions/v1",
    routes={("GET", "/models"): models, ("POST", "/completions"): completions},
)
