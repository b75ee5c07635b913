"""The events of one answer, as the Messages API streams them."""

import json
import secrets
from collections.abc import Iterator

from chat.demo.apis.anthropic.requests import REQUEST_ID, signature_of
from chat.demo.apis.base import DemoState
from chat.demo.encoder import Encoder, Item, paired, tokens
from chat.demo.requests import DemoRequest, JsonObject, object_in
from chat.demo.scenes import Call, Ending, Scene, TextKind
from chat.demo.script import STREAM_HEADERS

PING_SECONDS = 1.0
OVERLOADED_STATUS = 529
OVERLOADED = "Overloaded: the answer broke off here because you asked for an error."


class MessagesEncoder(Encoder):
    headers = {**STREAM_HEADERS, "request-id": REQUEST_ID}

    def __init__(self, asked: DemoRequest, scene: Scene, state: DemoState) -> None:
        super().__init__(asked, scene)
        self._index = 0
        self._searches = 0
        self._hides_thoughts = object_in(asked.body, "thinking").get("display") == "omitted"

    def begin(self) -> Iterator[Item]:
        """Processing the prompt is nothing but time and pings here."""
        yield self._message_start()
        yield {"type": "ping"}
        seconds = self.scene.prompt_seconds
        while seconds > 0:
            yield self.pause(min(seconds, PING_SECONDS))
            seconds -= PING_SECONDS
            if seconds > 0:
                yield {"type": "ping"}

    def open(self, kind: TextKind) -> Iterator[Item]:
        thought = {"type": "thinking", "thinking": "", "signature": ""}
        yield self._start(thought if kind == "reasoning" else {"type": "text", "text": ""})

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        if kind != "reasoning":
            yield self._delta({"type": "text_delta", "text": text})
        elif not self._hides_thoughts:
            yield self._delta({"type": "thinking_delta", "thinking": text})

    def close(self, kind: TextKind, text: str) -> Iterator[Item]:
        if kind == "reasoning":
            signature = signature_of("" if self._hides_thoughts else text)
            yield self._delta({"type": "signature_delta", "signature": signature})
        yield self._stop()

    def call(self, call: Call) -> Iterator[Item]:
        self.calls.append(call)
        identity = f"toolu_{secrets.token_hex(12)}"
        block = {"type": "tool_use", "id": identity, "name": call.tool, "input": {}}
        yield self._start(block)
        yield self._delta({"type": "input_json_delta", "partial_json": ""})
        for piece in tokens(call.written) if call.arguments else ():
            yield self.pause(1 / self.tokens_per_second)
            self.tokens += 1
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        yield self._stop()

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        is_start = name == "content_block_start"
        self._searches += is_start and data["content_block"]["type"] == "server_tool_use"
        yield {"type": name, "index": self._index, **data}
        self._index += name == "content_block_stop"

    def fail(self, ending: Ending) -> Iterator[Item]:
        error = {"type": "overloaded_error", "message": OVERLOADED}
        self.closing = {"type": "error", "error": error}
        return iter(())

    def end(self) -> Iterator[Item]:
        reason = self.reason or ("tool_use" if self.calls else "end_turn")
        delta: JsonObject = {
            "stop_reason": {"length": "max_tokens"}.get(reason, reason),
            "stop_sequence": self.stop_sequence if reason == "stop_sequence" else None,
        }
        if reason == "refusal":
            delta["stop_details"] = {
                "type": "refusal",
                "category": "general_harms",
                "explanation": self.explanation,
            }
        usage: JsonObject = {
            "input_tokens": self.asked.input_tokens,
            "output_tokens": max(1, self.tokens),
            "output_tokens_details": {"thinking_tokens": self.reasoning_tokens},
        }
        if self._searches:
            usage["server_tool_use"] = {"web_search_requests": self._searches}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        self.closing = {"type": "message_stop"}

    # --- events ----------------------------------------------------------------------------------

    def _message_start(self) -> JsonObject:
        usage = {
            "input_tokens": self.asked.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
        }
        message: JsonObject = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self.asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return {"type": "message_start", "message": message}

    def _start(self, block: JsonObject) -> JsonObject:
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop(self) -> JsonObject:
        self._index += 1
        return {"type": "content_block_stop", "index": self._index - 1}

    # --- the whole message at once -------------------------------------------------------------------

    def whole(self) -> tuple[int, JsonObject]:
        message: JsonObject = {}
        content: list[JsonObject] = []
        for event in self.only_events():
            kind = event["type"]
            if kind == "error":
                return OVERLOADED_STATUS, event
            if kind == "message_start":
                message |= event["message"]
            elif kind == "content_block_start":
                content.append(dict(event["content_block"]))
            elif kind == "content_block_delta":
                _add(content[-1], event["delta"])
            elif kind == "content_block_stop":
                _finish(content[-1])
            elif kind == "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
        return 200, {**message, "content": content}


_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _add(block: JsonObject, delta: JsonObject) -> None:
    kind = delta["type"]
    if kind in _JOINED:
        name = _JOINED[kind]
        block[name] = block.get(name, "") + delta[name]
    elif kind == "input_json_delta":
        block["input"] = (block["input"] or "") + delta["partial_json"]
    else:
        block["citations"] = [*block.get("citations", []), delta["citation"]]


def _finish(block: JsonObject) -> None:
    if isinstance(block.get("input"), str):
        block["input"] = json.loads(block["input"] or "{}")
    for name in ("text", "thinking"):
        if name in block:
            block[name] = paired(block[name])
