"""OpenAI's chat completions API: requests read, chunks and whole completions made."""

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from chat.demo import scenes as speech
from chat.demo.catalogue import Shelf
from chat.demo.lmstudio import ERROR_TEXT, LOAD_SECONDS, Cut
from chat.demo.openai.requests import MEMBERS, ChatRequest, JsonObject, json_error
from chat.demo.scenes import Break, Message, Pace, Reasoning, Scene, Token, ToolCall, ToolFailure

# While a prompt is processed a comment says that the connection lives.
COMMENT_SECONDS = 1.0


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
        chunk = self._chunk({MEMBERS[type(token.part)]: token.text})
        if self._request.top_logprobs is not None and isinstance(token.part, Message):
            entry = likelihood(token.text, self._request.top_logprobs)
            chunk["choices"][0]["logprobs"] = {"content": [entry], "refusal": None}
        return chunk

    def _broken(self, thing: Break) -> JsonObject:
        if thing.cause == "cut":
            raise Cut
        return {"error": json_error(ERROR_TEXT, "server_error", code="generation_failed")}

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
    for name in MEMBERS.values():
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
