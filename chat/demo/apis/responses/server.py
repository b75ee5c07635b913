"""The demo's Responses API, as OpenAI serves it."""

import json
from contextlib import aclosing
from typing import Any

from chat.demo import script
from chat.demo.apis import DemoApi
from chat.demo.apis.responses.acts import choose
from chat.demo.apis.responses.requests import MODELS, BadRequest, Points, read
from chat.demo.apis.responses.speaker import Events, Speaker
from chat.demo.catalogue import CREATED
from chat.demo.http import Exchange
from chat.demo.lmstudio import Cut
from chat.demo.scenes import Pace
from chat.demo.script import json_bytes

JsonObject = dict[str, Any]

_JSON = {"Content-Type": "application/json; charset=utf-8"}
_ENDS = ("response.completed", "response.incomplete", "response.failed")

# For ``previous_response_id``: of each answer its last question, and what it waited for.
_POINTS = Points()


async def responses(exchange: Exchange, pace: Pace) -> None:
    try:
        request = read(_body(exchange), _POINTS)
    except BadRequest as refusal:
        await exchange.answer(400, _JSON, json_bytes(refusal.body))
        return
    events = Speaker(request, choose(request), pace, _POINTS).events()
    async with aclosing(events):
        try:
            if request.streams:
                await _stream(exchange, events)
            else:
                await exchange.answer(200, _JSON, json_bytes(await _complete(events)))
        except Cut:
            exchange.close()


async def models(exchange: Exchange, pace: Pace) -> None:
    entries = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "tributary"}
        for name in MODELS
    ]
    await exchange.answer(200, _JSON, json_bytes({"object": "list", "data": entries}))


def _body(exchange: Exchange) -> object:
    try:
        return json.loads(exchange.request.body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("We could not parse the JSON body of your request.") from error


async def _stream(exchange: Exchange, events: Events) -> None:
    await exchange.head(200, script.STREAM_HEADERS)
    async for event in events:
        data = script.lmstudio_event(event)
        if event["type"] in _ENDS:
            await exchange.finish(data)
        else:
            await exchange.write(data)


async def _complete(events: Events) -> JsonObject:
    """The whole response: what the last event carries, with its status whatever it is."""
    last: JsonObject = {}
    async for event in events:
        last = event
    response: JsonObject = last["response"]
    return response


api = DemoApi(
    dialect="openai_responses",
    path="/responses/v1",
    routes={("GET", "/models"): models, ("POST", "/responses"): responses},
)
