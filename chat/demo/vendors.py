"""Chat completions as other servers speak them: the same answers in each one's own way.

Every class takes the plain chunks and gives frames, byte for byte as that server would send them.
"""

import base64
import copy
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from typing import Any

from chat.demo import catalogue as models
from chat.demo import media
from chat.demo.openai.requests import BadRequest
from chat.demo.openai.speaker import Speaker
from chat.demo.scenes import Pace, ToolCall, ToolFailure
from chat.demo.script import OPENAI_DONE, json_bytes, openai_chunk

JsonObject = dict[str, Any]

SIGN_OF_LIFE = b": waiting\n\n"


class Vendor:
    """Plain chat completions; the base of the others, made anew for each answer."""

    opening = b""
    sign_of_life = SIGN_OF_LIFE
    done = OPENAI_DONE

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    @staticmethod
    def check(body: Mapping[str, Any]) -> None:
        """What this server refuses although others take it. Raises ``BadRequest``."""

    async def frames(self, pace: Pace) -> AsyncGenerator[bytes, None]:
        """All but the end. Raises ``Cut``."""
        if self.opening:
            yield self.opening
        async for chunk in self._speaker.chunks():
            if chunk is None:
                yield self.sign_of_life
            elif "tool" in chunk:
                async for frame in self.tool(chunk["tool"], pace):
                    yield frame
            else:
                for frame in self.dressed(chunk):
                    yield frame

    async def tool(self, call: ToolCall | ToolFailure, pace: Pace) -> AsyncGenerator[bytes, None]:
        """A call that the server runs itself."""
        raise NotImplementedError
        yield b""

    def dressed(self, chunk: JsonObject) -> Iterator[bytes]:
        if "error" in chunk:
            yield openai_chunk(self.error(chunk))
            return
        for one in self.chunks(chunk):
            yield openai_chunk(one)

    def error(self, chunk: JsonObject) -> JsonObject:
        return chunk

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        yield chunk


def _delta(chunk: JsonObject) -> JsonObject:
    """The delta of the chunk's choice; nothing where it has none."""
    delta: JsonObject = chunk["choices"][0]["delta"] if chunk["choices"] else {}
    return delta


def _with_delta(chunk: JsonObject, delta: JsonObject) -> JsonObject:
    return {**chunk, "choices": [{**chunk["choices"][0], "delta": delta}]}


def _is_last(chunk: JsonObject) -> bool:
    return bool(chunk["choices"]) and chunk["choices"][0]["finish_reason"] is not None


class OpenRouter(Vendor):
    opening = b": OPENROUTER PROCESSING\n\n"
    sign_of_life = b": OPENROUTER PROCESSING\n\n"

    def __init__(self, speaker: Speaker) -> None:
        super().__init__(speaker)
        self._has_reasoned = False

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        chunk = {**chunk, "provider": "Weir"}
        if not chunk["choices"]:
            yield {**chunk, "usage": {**chunk["usage"], "cost": 0.00021, "is_byok": False}}
            return
        choice = chunk["choices"][0]
        choice["native_finish_reason"] = "end_turn" if choice["finish_reason"] else None
        delta = _delta(chunk)
        text = delta.pop("reasoning_content", None)
        plain = {"role": "assistant", "content": delta.pop("content", "")}
        if text is not None:
            self._has_reasoned = True
            detail = {"type": "reasoning.text", "text": text, "format": "weir-v1", "index": 0}
            yield _with_delta(chunk, {**plain, "reasoning": text, "reasoning_details": [detail]})
            return
        if plain["content"] and self._has_reasoned:
            self._has_reasoned = False
            hidden = {"type": "reasoning.encrypted", "data": "d2Vpcg==", "format": "weir-v1"}
            yield _with_delta(
                chunk, {"role": "assistant", "content": "", "reasoning_details": [hidden]}
            )
        yield _with_delta(chunk, {**plain, **delta})

    def error(self, chunk: JsonObject) -> JsonObject:
        """In a choice, with a number for a code."""
        error = {"code": 502, "message": chunk["error"]["message"]}
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": error}
        return {"id": "gen-demo", "object": "chat.completion.chunk", "choices": [choice]}


class Vllm(Vendor):
    """Reasoning under both names, token counts on every chunk, the text that stopped it."""

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if "usage" in chunk:
            chunk = {**chunk, "usage": self._speaker.usage()}
        if not chunk["choices"]:
            yield chunk
            return
        delta = _delta(chunk)
        if "reasoning_content" in delta:
            delta = {"reasoning": delta["reasoning_content"], **delta}
        if _is_last(chunk):
            chunk["choices"][0]["stop_reason"] = None
        yield _with_delta(chunk, delta)


class _UsageAtTheEnd(Vendor):
    """Token counts on the chunk with the finish reason, asked for or not."""

    def usage(self) -> JsonObject:
        return self._speaker.usage()

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if not chunk["choices"]:
            return
        yield {**chunk, "usage": self.usage()} if _is_last(chunk) else chunk


class DeepSeek(_UsageAtTheEnd):
    opening = b": keep-alive\n\n" * 2
    sign_of_life = b": keep-alive\n\n"

    @staticmethod
    def check(body: Mapping[str, Any]) -> None:
        """Turns with tool calls must have their reasoning beside them."""
        for message in body.get("messages", ()):
            if message.get("tool_calls") and not message.get("reasoning_content"):
                text = (
                    "The `reasoning_content` in the thinking mode must be passed back to the API."
                )
                raise BadRequest(text, param="messages")

    def usage(self) -> JsonObject:
        counts = super().usage()
        cached = counts["prompt_tokens"] // 2
        return {
            **counts,
            "prompt_cache_hit_tokens": cached,
            "prompt_cache_miss_tokens": counts["prompt_tokens"] - cached,
        }

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        for plain in super().chunks(chunk):
            delta = _delta(plain)
            if "reasoning_content" in delta or "content" in delta:
                delta = {"content": None, "reasoning_content": None, **delta}
            yield _with_delta(plain, delta)


class _WholeCalls(Vendor):
    """Calls are gathered, and told whole, each in a chunk of its own, before the finish reason."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__(speaker)
        self._calls: dict[int, JsonObject] = {}

    def call(self, call: JsonObject) -> JsonObject:
        return call

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        fragments = _delta(chunk).get("tool_calls")
        if fragments:
            for fragment in fragments:
                self._gather(fragment)
            return
        if _is_last(chunk):
            for call in self._calls.values():
                plain = _with_delta(chunk, {"tool_calls": [self.call(call)]})
                plain["choices"][0]["finish_reason"] = None
                yield plain
        yield chunk

    def _gather(self, fragment: JsonObject) -> None:
        call = self._calls.get(fragment["index"])
        if call is None:
            self._calls[fragment["index"]] = copy.deepcopy(fragment)
        else:
            call["function"]["arguments"] += fragment["function"]["arguments"]


class Groq(_WholeCalls):
    """Reasoning as ``reasoning``, and what is Groq's own in a member of that name."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__(speaker)
        self._has_begun = False

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if not chunk["choices"]:
            return
        delta = _delta(chunk)
        if "reasoning_content" in delta:
            chunk = _with_delta(chunk, {"reasoning": delta["reasoning_content"]})
        for plain in super().chunks(chunk):
            if not self._has_begun:
                self._has_begun = True
                plain = {**plain, "x_groq": {"id": "req_demo"}}
            elif _is_last(plain):
                usage = {**self._speaker.usage(), "queue_time": 0.01, "total_time": 0.4}
                plain = {**plain, "x_groq": {"id": "req_demo", "usage": usage}}
            yield plain


class Mistral(_WholeCalls):
    """Thinking in parts of the content; ids of nine letters and digits and no others."""

    @staticmethod
    def check(body: Mapping[str, Any]) -> None:
        ids = [message.get("tool_call_id") for message in body.get("messages", ())]
        for identity in filter(None, ids):
            if len(identity) != 9 or not identity.isalnum() or not identity.isascii():
                text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of 9."
                raise BadRequest(text, param="messages")

    def call(self, call: JsonObject) -> JsonObject:
        return {
            "id": call["id"][-9:],
            "function": call["function"],
            "index": call["index"],
        }

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if not chunk["choices"]:
            return
        delta = _delta(chunk)
        if "reasoning_content" in delta:
            text = {"type": "text", "text": delta["reasoning_content"]}
            chunk = _with_delta(chunk, {"content": [{"type": "thinking", "thinking": [text]}]})
        for plain in super().chunks(chunk):
            yield {**plain, "usage": self._speaker.usage()} if _is_last(plain) else plain


class LlamaCpp(Vendor):
    """No text in the first chunk, and figures of its own in the last."""

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if not chunk["choices"]:
            timings = {"prompt_ms": 80.5, "predicted_ms": 331.0, "predicted_per_second": 60.4}
            yield {**chunk, "timings": timings}
            return
        delta = _delta(chunk)
        yield _with_delta(chunk, {**delta, "content": None}) if "role" in delta else chunk


class Ollama(_WholeCalls):
    """Calls that are all number 0, their arguments an object, and ``stop`` as the reason."""

    def call(self, call: JsonObject) -> JsonObject:
        function = dict(call["function"])
        with suppress(ValueError):
            function["arguments"] = json.loads(function["arguments"])
        return {**call, "index": 0, "function": function}

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        delta = _delta(chunk)
        if "reasoning_content" in delta:
            chunk = _with_delta(
                chunk, {"role": "assistant", "content": "", "reasoning": delta["reasoning_content"]}
            )
        for plain in super().chunks(chunk):
            if _is_last(plain) and plain["choices"][0]["finish_reason"] == "tool_calls":
                plain["choices"][0]["finish_reason"] = "stop"
            yield plain


class Fireworks(_UsageAtTheEnd):
    """Figures of its performance with the last chunk."""

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        for plain in super().chunks(chunk):
            if _is_last(plain):
                figures = {"prompt-tokens": self.usage()["prompt_tokens"]}
                figures |= {"cached-prompt-tokens": 0, "server-time-to-first-token": 0.061}
                plain = {**plain, "perf_metrics": figures}
            yield plain


class Gateway(Vendor):
    """Sources, a picture and a sound after the text."""

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if _is_last(chunk):
            for delta in self._additions():
                plain = _with_delta(chunk, delta)
                plain["choices"][0]["finish_reason"] = None
                yield plain
        yield chunk

    def _additions(self) -> Iterator[JsonObject]:
        cited = {
            "url": "https://example.org/elder/weir",
            "title": "The weir at Mill Bridge",
            "content": "It was built of oak in 1788.",
            "start_index": 0,
            "end_index": 12,
        }
        yield {"annotations": [{"type": "url_citation", "url_citation": cited}]}
        picture = f"data:image/png;base64,{_base64(media.weir())}"
        yield {"images": [{"type": "image_url", "image_url": {"url": picture}}]}
        sound = media.murmur()
        half = len(sound) // 2
        yield {"audio": {"id": "audio_demo", "transcript": "The water "}}
        yield {"audio": {"data": _base64(sound[:half])}}
        yield {"audio": {"data": _base64(sound[half:]), "transcript": "murmurs."}}


class Friendli(Vendor):
    """Named events, and calls that the server runs itself."""

    def dressed(self, chunk: JsonObject) -> Iterator[bytes]:
        for frame in super().dressed(chunk):
            yield b"event: token\n" + frame

    async def tool(self, call: ToolCall | ToolFailure, pace: Pace) -> AsyncGenerator[bytes, None]:
        arguments = call.arguments if isinstance(call, ToolCall) else {}
        row: JsonObject = {
            "tool_call_id": f"call_demo_{call.tool}",
            "name": f"river:{call.tool}",
            "status": "STARTED",
            "parameters": [{"name": name, "value": value} for name, value in arguments.items()],
            "result": None,
            "files": None,
            "message": None,
            "error": None,
        }
        yield _status(row)
        await pace.wait(0.4)
        if isinstance(call, ToolFailure):
            yield _status({**row, "status": "ERRORED", "error": {"type": "X", "msg": call.reason}})
            return
        yield _status({**row, "status": "UPDATING", "message": "Reading the gauge"})
        await pace.wait(call.seconds)
        file = {"name": "readings.csv", "url": "https://example.org/elder/readings.csv"}
        yield _status({**row, "status": "ENDED", "result": call.output, "files": [file]})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _status(row: JsonObject) -> bytes:
    return b"event: tool_status\ndata: %b\n\n" % json_bytes(row)


_VENDORS: Mapping[str, type[Vendor]] = {
    models.OPENROUTER: OpenRouter,
    models.VLLM: Vllm,
    models.DEEPSEEK: DeepSeek,
    models.GROQ: Groq,
    models.MISTRAL: Mistral,
    models.LLAMA_CPP: LlamaCpp,
    models.OLLAMA: Ollama,
    models.FIREWORKS: Fireworks,
    models.GATEWAY: Gateway,
    models.TOOL_RUNNER: Friendli,
}


def vendor_of(model: str) -> type[Vendor]:
    """The way in which a model speaks."""
    return _VENDORS.get(model, Vendor)
