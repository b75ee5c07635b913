"""The demo upstream: its APIs on one port, scenes chosen by the question, scripts before scenes."""

import ipaddress
from collections.abc import Callable
from typing import Any, Self

import msgspec

from chat.demo import encoder, scenes, script
from chat.demo.apis import APIS
from chat.demo.apis.base import DemoApi, DemoState, Get, answer
from chat.demo.control import Control, Performance
from chat.demo.http import Exchange, HttpServer, Request
from chat.demo.requests import BadRequest, Cut


class DemoUpstream:
    """Seven APIs, one for each kind of server, without a model behind them.

    ``speed`` divides all waiting; 0 means none. With ``has_control`` it takes scripts, from
    the loopback also over HTTP, and records what it is asked. Without, it keeps nothing of what
    people write but the last question of each answer that ``previous_response_id`` may continue.
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
        self._state = DemoState()

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
        chat = _CHATS.get(request.path) if request.method == "POST" else None
        get = _find_get(request.path) if request.method == "GET" else None
        if chat is None and get is None:
            # LM Studio answers 200 here; a wrong base URL has to be noticed all the same.
            text = f"Unexpected endpoint or method. ({request.method} {request.path})"
            await answer(exchange, 200, {"error": text})
        elif self._required_key and not self._is_authorised(request):
            await answer(exchange, 401, _unauthorised(request))
        elif chat is not None:
            await self._chat(chat, exchange)
        elif get is not None:
            await get(exchange, self._state)

    async def _chat(self, api: DemoApi, exchange: Exchange) -> None:
        try:
            asked = api.read(exchange.request, self._state)
        except BadRequest as refusal:
            await answer(exchange, refusal.status, refusal.body, api.headers)
            return
        speaker = api.encoder(asked, scenes.choose(asked), self._state)
        try:
            if asked.streams:
                await encoder.stream(exchange, speaker, encoder.Pace(self.speed))
            else:
                await answer(exchange, *speaker.whole(), api.headers)
        except Cut:
            exchange.close()

    def _is_authorised(self, request: Request) -> bool:
        is_bearer = request.header("authorization") == f"Bearer {self._required_key}"
        return is_bearer or request.header("x-api-key") == self._required_key

    # --- control -----------------------------------------------------------------------------------

    async def _handle_control(self, exchange: Exchange) -> None:
        """Scripts and records, for tests on this machine only: never for a page in a browser."""
        if not self._has_control:
            await answer(exchange, 404, {"error": "the control interface is off (--control)"})
            return
        if not _is_local(exchange.request):
            await answer(exchange, 403, {"error": "the control interface is for this machine only"})
            return
        route = _CONTROLS.get((exchange.request.method, exchange.request.path))
        if route is None:
            await answer(exchange, 404, {"error": "no such control"})
            return
        try:
            status, body = route(self.control, exchange.request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            status, body = 400, {"error": str(error)}
        await answer(exchange, status, body)


_CHATS = {f"{api.path}{api.chat}": api for api in APIS}


def _find_get(path: str) -> Get | None:
    return next((get for api in APIS if (get := api.find_get(path))), None)


def _unauthorised(request: Request) -> dict[str, Any]:
    """Like the real servers, it shows the beginning of what was sent: a trap for whoever stores it."""
    begin = request.header("authorization").removeprefix("Bearer ")[:8]
    message = f"Malformed API token provided: {begin}…" if begin else "An API token is required"
    if request.path.startswith("/v1/"):
        kind, extra = "invalid_request_error", {"param": None}
    else:
        kind, extra = "invalid_request", {}
    return {"error": {"message": message, "type": kind, "code": "invalid_api_key", **extra}}


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
