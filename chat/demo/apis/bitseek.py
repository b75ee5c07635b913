"""The demo's Bitseek: chat completions without a model, a ``[DONE]`` or a list of models."""

import json
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from chat.demo import scenes
from chat.demo.apis import DemoApi
from chat.demo.catalogue import Model
from chat.demo.http import Exchange, Request
from chat.demo.lmstudio import ERROR_TEXT, Cut
from chat.demo.openai import requests, speaker
from chat.demo.openai.requests import BadRequest, ChatRequest
from chat.demo.scenes import Break, Message, Pace, Refusal, Token, ToolCall, ToolFailure
from chat.demo.script import STREAM_HEADERS, json_bytes, openai_chunk

JsonObject = dict[str, Any]
Chunks = AsyncGenerator[JsonObject, None]

# The server chooses its model, so a name typed by hand is all that there is.
TYPED_MODEL = "tributary/demo-bitseek"
_MODEL = Model(
    key=TYPED_MODEL,
    label="Demo Bitseek",
    description="Has no name of its own on the wire.",
    parameters="0B",
    size_bytes=0,
    tokens_per_second=75,
)
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_ON = (True, 1, "1", "true", "on", "yes")


def read(request: Request) -> ChatRequest:
    """Check a request. Raises ``BadRequest`` and, for what is no JSON, ``ValueError``."""
    body = json.loads(request.body)
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object", param="body")
    if "model" in body:
        raise BadRequest("'model' is not supported", param="model")
    for message in body.get("messages") or ():
        if isinstance(message, dict) and not isinstance(message.get("content"), str):
            raise BadRequest("'content' must be a string", param="messages")
    received = (*_search(body), *_conversation(request))
    return requests.read(body, model=_MODEL, received=received)


def _search(body: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = body.get("webSearch")
    details = wanted if isinstance(wanted, dict) else {}
    if body.get("enableWebSearch") not in _ON and details.get("enabled") not in _ON:
        return ()
    results = details.get("maxResults", 5)
    if not isinstance(results, int) or not 1 <= results <= 8:
        raise BadRequest("'webSearch.maxResults' must be from 1 to 8", param="webSearch")
    words = (details.get("mode", "auto"), details.get("freshness", "week"))
    return (f"the wish to search the web (`{words[0]}`, {results} results of the {words[1]})",)


def _conversation(request: Request) -> tuple[str, ...]:
    identity = request.header("x-conversation-id")
    return (f"the conversation `{identity}`",) if identity else ()


class Speaker:
    """The chunks of one answer: an empty model, whole calls, a finish reason, and no more."""

    def __init__(self, request: ChatRequest, pace: Pace) -> None:
        self._request = request
        self._pace = pace
        self._id = f"stream:chat:{secrets.token_hex(8)}"

    async def chunks(self) -> Chunks:
        """Raises ``Cut``."""
        calls: list[ToolCall | ToolFailure] = []
        scene = requests.choose(self._request)
        await self._pace.wait(scene.prompt_seconds)
        async for thing in scenes.say(
            scene, self._pace, tokens_per_second=_MODEL.tokens_per_second
        ):
            if isinstance(thing, Token) and isinstance(thing.part, Message | Refusal):
                yield self._chunk({"content": thing.text})
            elif isinstance(thing, ToolCall | ToolFailure):
                calls.append(thing)
            elif isinstance(thing, Break) and thing.cause == "cut":
                raise Cut
            elif isinstance(thing, Break):
                yield {**self._chunk({}), "error": {"code": 4002, "message": ERROR_TEXT}}
                return
        for index, call in enumerate(calls):
            yield self._chunk({"tool_calls": [_whole_call(index, call)]})
        yield self._chunk({"content": ""}, finish_reason="tool_calls" if calls else "stop")

    def _chunk(self, delta: JsonObject, *, finish_reason: str | None = None) -> JsonObject:
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        }


def _whole_call(index: int, call: ToolCall | ToolFailure) -> JsonObject:
    function = {"name": call.tool, "arguments": speaker.arguments_text(call)}
    return {"index": index, "id": f"call_{index + 1}", "type": "function", "function": function}


async def chat(exchange: Exchange, pace: Pace) -> None:
    try:
        request = read(exchange.request)
    except BadRequest as refusal:
        await exchange.answer(refusal.status, _JSON, json_bytes(refusal.body))
        return
    except ValueError:
        body = {"error": {"message": "The request body is not valid JSON", "code": 4000}}
        await exchange.answer(400, _JSON, json_bytes(body))
        return
    await exchange.head(200, STREAM_HEADERS)
    try:
        async with aclosing(Speaker(request, pace).chunks()) as chunks:
            async for chunk in chunks:
                await exchange.write(openai_chunk(chunk))
    except Cut:
        exchange.close()
        return
    await exchange.finish()


api = DemoApi(dialect="bitseek", path="/bitseek/v1", routes={("POST", "/chat/completions"): chat})
