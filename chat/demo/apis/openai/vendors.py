"""Chat completions as other servers speak them: the same answers in each one's own way.

Every class takes plain chunks and gives those that this server would send.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from chat.demo.apis.openai.encoder import ChatEncoder
from chat.demo.apis.openai.requests import TOOL_RUNNER, refused
from chat.demo.encoder import Item
from chat.demo.requests import JsonObject
from chat.demo.scenes import Call
from chat.demo.script import json_bytes


class Vendor(ChatEncoder):
    """The base of the others: chunks but no errors go through `chunks`."""

    @staticmethod
    def check(body: Mapping[str, Any]) -> None:
        """What this server refuses although others take it. Raises ``BadRequest``."""

    def dress(self, event: JsonObject) -> Iterator[Item]:
        yield from (self.error(event),) if "error" in event else self.chunks(event)

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
    heartbeat = b": OPENROUTER PROCESSING\n\n"

    def __init__(self, *parameters: Any, **named: Any) -> None:
        super().__init__(*parameters, **named)
        self._has_reasoned = False

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        chunk = {**chunk, "provider": "Demo"}
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
            detail = {"type": "reasoning.text", "text": text, "format": "demo-v1", "index": 0}
            yield _with_delta(chunk, {**plain, "reasoning": text, "reasoning_details": [detail]})
            return
        if plain["content"] and self._has_reasoned:
            self._has_reasoned = False
            hidden = {"type": "reasoning.encrypted", "data": "ZGVtbw==", "format": "demo-v1"}
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
            chunk = {**chunk, "usage": self.usage()}
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

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        if not chunk["choices"]:
            return
        yield {**chunk, "usage": self.usage()} if _is_last(chunk) else chunk


class DeepSeek(_UsageAtTheEnd):
    opening = b": keep-alive\n\n" * 2
    heartbeat = b": keep-alive\n\n"

    @staticmethod
    def check(body: Mapping[str, Any]) -> None:
        """Turns with tool calls must have their reasoning beside them."""
        for message in body.get("messages", ()):
            if message.get("tool_calls") and not message.get("reasoning_content"):
                text = (
                    "The `reasoning_content` in the thinking mode must be passed back to the API."
                )
                raise refused(text, param="messages")

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

    def __init__(self, *parameters: Any, **named: Any) -> None:
        super().__init__(*parameters, **named)
        self._calls: dict[int, JsonObject] = {}

    def whole_call(self, call: JsonObject) -> JsonObject:
        return call

    def chunks(self, chunk: JsonObject) -> Iterator[JsonObject]:
        fragments = _delta(chunk).get("tool_calls")
        if fragments:
            for fragment in fragments:
                self._gather(fragment)
            return
        if _is_last(chunk):
            for call in self._calls.values():
                plain = _with_delta(chunk, {"tool_calls": [self.whole_call(call)]})
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

    def __init__(self, *parameters: Any, **named: Any) -> None:
        super().__init__(*parameters, **named)
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
                usage = {**self.usage(), "queue_time": 0.01, "total_time": 0.4}
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
                raise refused(text, param="messages")

    def whole_call(self, call: JsonObject) -> JsonObject:
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
            yield {**plain, "usage": self.usage()} if _is_last(plain) else plain


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

    def whole_call(self, call: JsonObject) -> JsonObject:
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


class Friendli(Vendor):
    """Named events, and calls that the server runs itself."""

    def frame(self, event: JsonObject) -> bytes:
        return b"event: token\n" + super().frame(event)

    def call(self, call: Call) -> Iterator[Item]:
        row: JsonObject = {
            "tool_call_id": f"call_demo_{call.tool}",
            "name": f"office:{call.tool}",
            "status": "STARTED",
            "parameters": [
                {"name": name, "value": value} for name, value in call.arguments.items()
            ],
            "result": None,
            "files": None,
            "message": None,
            "error": None,
        }
        yield _status(row)
        yield self.pause(0.4)
        if call.error:
            yield _status({**row, "status": "ERRORED", "error": {"type": "X", "msg": call.error}})
            return
        yield _status({**row, "status": "UPDATING", "message": "Reading the invoices"})
        yield self.pause(0.9)
        file = {"name": "invoices.csv", "url": "https://example.org/invoices/2026-10.csv"}
        yield _status({**row, "status": "ENDED", "result": call.output, "files": [file]})


def _status(row: JsonObject) -> bytes:
    return b"event: tool_status\ndata: %b\n\n" % json_bytes(row)


VENDORS: Mapping[str, type[Vendor]] = {
    "tributary/demo-openrouter": OpenRouter,
    "tributary/demo-vllm": Vllm,
    "tributary/demo-deepseek": DeepSeek,
    "tributary/demo-groq": Groq,
    "tributary/demo-mistral": Mistral,
    "tributary/demo-llama-cpp": LlamaCpp,
    "tributary/demo-ollama": Ollama,
    "tributary/demo-fireworks": Fireworks,
    TOOL_RUNNER: Friendli,
}
