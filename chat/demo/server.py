"""The demo upstream: two APIs on one port, scenes chosen by the prompt, scripts before scenes."""

import ipaddress
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Self

import msgspec

from chat.demo import apis, lmstudio, scenes, script
from chat.demo.catalogue import VENDOR_MODELS, Shelf
from chat.demo.control import Control, Performance
from chat.demo.http import Exchange, HttpServer, Request
from chat.demo.openai import requests
from chat.demo.openai import speaker as openai
from chat.demo.scenes import Pace
from chat.demo.script import json_bytes
from chat.demo.vendors import Vendor, vendor_of

JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


class BadJson(Exception):
    """The body is not JSON."""


class DemoUpstream:
    """LM Studio's native API and OpenAI chat completions, without a model behind them.

    ``speed`` divides all waiting; 0 means none. With ``has_control`` it takes scripts, from
    the loopback also over HTTP, and records what it is asked. Without, it keeps nothing of what
    people write but the last question of each conversation that ``previous_response_id`` may
    continue.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        speed: float = 1.0,
        required_key: str = "",
        has_control: bool = False,
    ) -> None:
        self.speed = speed
        self.control = Control()
        self._required_key = required_key
        self._has_control = has_control
        self._http = HttpServer(self._handle, host=host, port=port)
        self._shelf = Shelf()
        self._history = lmstudio.History()

    # --- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Listen. Raises ``OSError`` where the address cannot be had."""
        self.control.bind()
        await self._http.start()

    async def aclose(self) -> None:
        """Stop listening and end every connection, in whatever state it is."""
        await self._http.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    @property
    def url(self) -> str:
        return self._http.url

    # --- routes ----------------------------------------------------------------------------------

    async def _handle(self, exchange: Exchange) -> None:
        if exchange.request.path.startswith("/control/"):
            await self._handle_control(exchange)
            return
        if self._has_control:
            found = self.control.take(exchange.request)
            self.control.record(exchange, is_scripted=found is not None)
            if found:
                await Performance(exchange, self.control).run(found)
                return
        await self._route(exchange)

    async def _route(self, exchange: Exchange) -> None:
        request = exchange.request
        route = _ROUTES.get((request.method, request.path)) or _further(request)
        if route is None:
            # LM Studio answers 200 here; a wrong base URL has to be noticed all the same.
            text = f"Unexpected endpoint or method. ({request.method} {request.path})"
            await _answer(exchange, 200, {"error": text})
        elif self._required_key and not self._is_authorised(request):
            await _answer(exchange, 401, _unauthorised(request))
        else:
            await self._call(route, exchange)

    async def _call(self, route: "Route", exchange: Exchange) -> None:
        try:
            await route(self, exchange)
        except lmstudio.BadRequest as refusal:
            await _answer(exchange, 400, refusal.body)
        except requests.BadRequest as refusal:
            await _answer(exchange, refusal.status, refusal.body)
        except BadJson as refusal:
            error = {"type": "invalid_request", "message": str(refusal), "code": "json_parse_error"}
            await _answer(exchange, 400, {"error": error})
        except lmstudio.Cut:
            exchange.close()

    def _is_authorised(self, request: Request) -> bool:
        is_bearer = request.header("authorization") == f"Bearer {self._required_key}"
        return is_bearer or request.header("x-api-key") == self._required_key

    # --- LM Studio ---------------------------------------------------------------------------------

    async def _native_models(self, exchange: Exchange) -> None:
        await _answer(exchange, 200, self._shelf.native_list())

    async def _native_chat(self, exchange: Exchange) -> None:
        request = lmstudio.read(_json(exchange.request), self._history)
        events = lmstudio.events(
            request,
            scenes.choose(request.turn),
            Pace(self.speed),
            shelf=self._shelf,
            history=self._history,
        )
        async with aclosing(events):
            if request.streams:
                await _stream_events(exchange, events)
            else:
                await _answer(exchange, *await lmstudio.result_of(events))

    # --- OpenAI ------------------------------------------------------------------------------------

    async def _openai_models(self, exchange: Exchange) -> None:
        await _answer(exchange, 200, self._shelf.openai_list(VENDOR_MODELS))

    async def _openai_chat(self, exchange: Exchange) -> None:
        body = _json(exchange.request)
        request = requests.read(body)
        vendor = vendor_of(request.model.key)
        vendor.check(body)
        pace = Pace(self.speed)
        speaker = openai.Speaker(request, requests.choose(request), pace, self._shelf)
        if request.streams:
            await _stream_chunks(exchange, vendor(speaker), pace)
            return
        found = await openai.completion(speaker)
        await _answer(exchange, 500 if "error" in found else 200, found)

    # --- control -----------------------------------------------------------------------------------

    async def _handle_control(self, exchange: Exchange) -> None:
        """Scripts and records, for tests on this machine only: never for a page in a browser."""
        if not self._has_control:
            await _answer(exchange, 404, {"error": "the control interface is off (--control)"})
            return
        if not _is_local(exchange.request):
            await _answer(
                exchange, 403, {"error": "the control interface is for this machine only"}
            )
            return
        route = _CONTROLS.get((exchange.request.method, exchange.request.path))
        if route is None:
            await _answer(exchange, 404, {"error": "no such control"})
            return
        try:
            status, body = route(self.control, exchange.request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            status, body = 400, {"error": str(error)}
        await _answer(exchange, status, body)


Route = Callable[[DemoUpstream, Exchange], Awaitable[None]]

_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/api/v1/models"): DemoUpstream._native_models,
    ("POST", "/api/v1/chat"): DemoUpstream._native_chat,
    ("GET", "/v1/models"): DemoUpstream._openai_models,
    ("POST", "/v1/chat/completions"): DemoUpstream._openai_chat,
}


def _further(request: Request) -> Route | None:
    """A route of one of the other APIs."""
    handler = apis.find(request.method, request.path)
    if handler is None:
        return None

    async def route(demo: DemoUpstream, exchange: Exchange) -> None:
        await handler(exchange, Pace(demo.speed))

    return route


async def _answer(exchange: Exchange, status: int, body: object) -> None:
    await exchange.answer(status, JSON_HEADERS, json_bytes(body))


def _json(request: Request) -> Any:
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise BadJson("The request body is not valid JSON") from error


def _unauthorised(request: Request) -> dict[str, Any]:
    """Like the real servers, it shows the beginning of what was sent: a trap for whoever stores it."""
    begin = request.header("authorization").removeprefix("Bearer ")[:8]
    message = f"Malformed API token provided: {begin}…" if begin else "An API token is required"
    if request.path.startswith("/v1/"):
        kind, extra = "invalid_request_error", {"param": None}
    else:
        kind, extra = "invalid_request", {}
    return {"error": {"message": message, "type": kind, "code": "invalid_api_key", **extra}}


async def _stream_events(exchange: Exchange, events: lmstudio.Events) -> None:
    await exchange.head(200, script.STREAM_HEADERS)
    async for event in events:
        data = script.lmstudio_event(event)
        if event["type"] == "chat.end":
            await exchange.finish(data)
        else:
            await exchange.write(data)


async def _stream_chunks(exchange: Exchange, vendor: Vendor, pace: Pace) -> None:
    await exchange.head(200, script.STREAM_HEADERS)
    frames = vendor.frames(pace)
    async with aclosing(frames):
        async for frame in frames:
            await exchange.write(frame)
    await exchange.finish(vendor.done)


# --- control ------------------------------------------------------------------------------------


class _Release(msgspec.Struct, forbid_unknown_fields=True):
    name: str


def _take_scripts(control: Control, body: bytes) -> tuple[int, object]:
    scripts = script.read_scripts(body)
    control.add(*scripts)
    return 200, {"queued": len(scripts)}


def _release(control: Control, body: bytes) -> tuple[int, object]:
    control.release(msgspec.json.decode(body, type=_Release).name)
    return 200, {}


def _clear(control: Control, body: bytes) -> tuple[int, object]:
    control.clear()
    return 200, {}


def _state(control: Control, body: bytes) -> tuple[int, object]:
    return 200, msgspec.to_builtins(control.state())


_CONTROLS: dict[tuple[str, str], Callable[[Control, bytes], tuple[int, object]]] = {
    ("POST", "/control/script"): _take_scripts,
    ("POST", "/control/release"): _release,
    ("POST", "/control/clear"): _clear,
    ("GET", "/control/state"): _state,
}


def _is_local(request: Request) -> bool:
    """From this machine, by a program: a page that a browser shows would send an origin, and a
    name that was rebound to this address would be in the host header."""
    host = request.header("host").rpartition(":")[0].strip("[]") or request.header("host")
    return (
        _is_loopback(request.peer)
        and not request.header("origin")
        and (host == "localhost" or _is_loopback(host))
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
