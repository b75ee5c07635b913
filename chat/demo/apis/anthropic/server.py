"""The demo's Messages API, as Anthropic serves it."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from chat.demo import script
from chat.demo.apis import DemoApi
from chat.demo.apis.anthropic.acts import Broken, Events, Speaker, choose, complete
from chat.demo.apis.anthropic.requests import MODELS, THINKER, BadRequest, read
from chat.demo.http import Exchange, Request
from chat.demo.scenes import Pace
from chat.demo.script import json_bytes

JsonObject = dict[str, Any]

_JSON = {"Content-Type": "application/json; charset=utf-8"}
_REQUEST_ID = "req_demo"
OVERLOADED_STATUS = 529


async def messages(exchange: Exchange, pace: Pace) -> None:
    try:
        request = read(_body(exchange.request))
    except BadRequest as refusal:
        await _answer(exchange, refusal.status, _error(refusal.kind, str(refusal)))
        return
    events = Speaker(request, choose(request), pace).events()
    async with aclosing(events):
        try:
            if request.streams:
                await _stream(exchange, events)
            else:
                whole = await complete(events)
                is_error = whole["type"] == "error"
                await _answer(exchange, OVERLOADED_STATUS if is_error else 200, whole)
        except Broken:
            exchange.close()


async def models(exchange: Exchange, pace: Pace) -> None:
    """All in one page, whatever limit was asked for."""
    entries = [
        {
            "type": "model",
            "id": name,
            "display_name": label,
            "created_at": "2026-01-01T00:00:00Z",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
            "capabilities": _capabilities(name),
        }
        for name, label in MODELS.items()
    ]
    listing = {
        "data": entries,
        "has_more": False,
        "first_id": entries[0]["id"],
        "last_id": entries[-1]["id"],
    }
    await _answer(exchange, 200, listing)


def _capabilities(model: str) -> JsonObject:
    thinks = {"supported": True, "types": {"enabled": {"supported": True}}}
    return {
        "image_input": {"supported": True},
        "thinking": thinks,
        "effort": {"supported": model == THINKER},
    }


def _body(request: Request) -> object:
    if not request.header("anthropic-version"):
        raise BadRequest("anthropic-version: header is required")
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("The request body is not valid JSON") from error


def _error(kind: str, message: str) -> JsonObject:
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": _REQUEST_ID,
    }


async def _answer(exchange: Exchange, status: int, body: Mapping[str, Any]) -> None:
    await exchange.answer(status, {**_JSON, "request-id": _REQUEST_ID}, json_bytes(body))


async def _stream(exchange: Exchange, events: Events) -> None:
    headers = {**script.STREAM_HEADERS, "request-id": _REQUEST_ID}
    await exchange.head(200, headers)
    async for event in events:
        data = script.lmstudio_event(event)
        if event["type"] in ("message_stop", "error"):
            await exchange.finish(data)
        else:
            await exchange.write(data)


api = DemoApi(
    dialect="anthropic_messages",
    path="/anthropic/v1",
    routes={("GET", "/models"): models, ("POST", "/messages"): messages},
)
