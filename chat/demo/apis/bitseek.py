"""Bitseek: chat completions without a model, a ``[DONE]`` or a list of models."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

from chat.demo.apis.base import DemoApi, DemoState
from chat.demo.apis.openai.encoder import ChatEncoder
from chat.demo.apis.openai.requests import body_of, read_chat, refused
from chat.demo.encoder import ERROR_TEXT, Encoder, Item
from chat.demo.http import Request
from chat.demo.models import server_of
from chat.demo.requests import DemoRequest, JsonObject, is_count, object_in
from chat.demo.scenes import Ending, TextKind

SERVER = server_of("bitseek")
_ON = (True, 1, "1", "true", "on", "yes")


def read(request: Request, state: DemoState) -> DemoRequest:
    """Raises ``BadRequest``."""
    body = body_of(request)
    if "model" in body:
        raise refused("'model' is not supported", param="model")
    for message in body.get("messages") or ():
        if isinstance(message, dict) and not isinstance(message.get("content"), str):
            raise refused("'content' must be a string", param="messages")
    # The server chooses its model, and always streams.
    return read_chat(
        {**body, "stream": True},
        SERVER.dialect,
        SERVER.models[0],
        (*_search(body), *_conversation(request)),
    )


def _search(body: JsonObject) -> tuple[str, ...]:
    details = object_in(body, "webSearch")
    if body.get("enableWebSearch") not in _ON and details.get("enabled") not in _ON:
        return ()
    results = details.get("maxResults", 5)
    if not is_count(results, most=8):
        raise refused("'webSearch.maxResults' must be from 1 to 8", param="webSearch")
    words = (details.get("mode", "auto"), details.get("freshness", "week"))
    return (f"the wish to search the web (`{words[0]}`, {results} results of the {words[1]})",)


def _conversation(request: Request) -> tuple[str, ...]:
    identity = request.header("x-conversation-id")
    return (f"the conversation `{identity}`",) if identity else ()


class BitseekEncoder(ChatEncoder):
    """An empty model, whole calls, a finish reason, and no more."""

    done = b""

    def __init__(self, *parameters: Any, **named: Any) -> None:
        super().__init__(*parameters, **named)
        self._id = f"stream:chat:{secrets.token_hex(8)}"

    def events(self) -> Iterator[Item]:
        yield self.pause(self.scene.prompt_seconds)
        yield from Encoder.perform(self)

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        if kind != "reasoning":
            yield self.chunk({"content": text})

    def fail(self, ending: Ending) -> Iterator[Item]:
        yield {**self.chunk({}), "error": {"code": 4002, "message": ERROR_TEXT}}

    def end(self) -> Iterator[Item]:
        for index, call in enumerate(self.calls):
            function = {"name": call.tool, "arguments": call.written}
            whole = {"index": index, "id": f"call_{index + 1}", "type": "function"}
            yield self.chunk({"tool_calls": [{**whole, "function": function}]})
        yield self.chunk({"content": ""}, finish_reason="tool_calls" if self.calls else "stop")

    def chunk(self, delta: JsonObject, *, finish_reason: str | None = None) -> JsonObject:
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        }


api = DemoApi(path=SERVER.path, chat="/chat/completions", read=read, encoder=BitseekEncoder)
