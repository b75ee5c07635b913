"""A small ASGI application that shows what the server does to its applications, and the process
that serves it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from project.server.server import Receive, Scope, Send, Server

seen: Counter[str] = Counter()
# What the tests do with the server that serves this.
control = SimpleNamespace(server=None, skipped_seconds=0.0)

EVENT = b"data: " + b"x" * 10_000 + b"\n\n"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    name = scope["path"].strip("/").replace("-", "_")
    handlers = HTTP if scope["type"] == "http" else WEBSOCKET
    handler = handlers.get(name, missing if scope["type"] == "http" else refuse)
    seen[name] += 1
    await handler(scope, receive, send)


# --- HTTP ---------------------------------------------------------------------------------------


async def begin(send: Send, content_type: bytes = b"text/plain", status: int = 200) -> None:
    headers = [(b"content-type", content_type)]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def write(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def answer(send: Send, body: bytes, status: int = 200) -> None:
    await begin(send, status=status)
    await write(send, body, more=False)


async def missing(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"missing", 404)


async def state(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, json.dumps(seen).encode())


async def advance(scope: Scope, receive: Receive, send: Send) -> None:
    control.skipped_seconds += int(scope["query_string"])
    control.server._check()
    await answer(send, b"advanced")


async def show_scope(scope: Scope, receive: Receive, send: Send) -> None:
    names = [name.decode("latin1") for name, _ in scope["headers"]]
    shown = {"path": scope["path"], "root_path": scope["root_path"], "headers": names}
    await answer(send, json.dumps(shown).encode())


async def count_body(scope: Scope, receive: Receive, send: Send) -> None:
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await answer(send, b"%d" % size)


async def leave(receive: Receive, name: str) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    seen[f"{name}_left"] += 1


async def stream(scope: Scope, receive: Receive, send: Send, *, name: str, pause: float) -> None:
    """Events until the client leaves; what it has been given is counted."""
    leaving = asyncio.create_task(leave(receive, name))
    await begin(send, b"text/event-stream")
    while not leaving.done():
        await write(send, EVENT)
        seen[f"{name}_sent"] += len(EVENT)
        await asyncio.sleep(pause)


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    await stream(scope, receive, send, name="flood", pause=0)


async def tick(scope: Scope, receive: Receive, send: Send) -> None:
    await stream(scope, receive, send, name="tick", pause=0.02)


async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send, b"text/event-stream")
    await write(send, b": hello\n\n")
    await leave(receive, "quiet")


async def send_only(scope: Scope, receive: Receive, send: Send) -> None:
    """Never receives, and never pauses."""
    await begin(send, b"text/event-stream")
    try:
        while True:
            await write(send, EVENT)
    finally:
        seen["send_only_ended"] += 1


async def big(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"x" * 8 * 1024 * 1024)


async def slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.02)
    await answer(send, b"finished")


async def until_leaving() -> None:
    """Until the server has told all clients that it ends."""
    while not control.server.is_leaving:
        await asyncio.sleep(0.01)


async def finish_late(scope: Scope, receive: Receive, send: Send) -> None:
    await until_leaving()
    await answer(send, b"finished")


async def fail_early(scope: Scope, receive: Receive, send: Send) -> None:
    raise LookupError("early")


async def fail_late(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    await write(send, b"half")
    raise LookupError("late")


async def give_up_early(scope: Scope, receive: Receive, send: Send) -> None:
    return


async def give_up_late(scope: Scope, receive: Receive, send: Send) -> None:
    await begin(send)
    await write(send, b"half")


# --- websockets ---------------------------------------------------------------------------------


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close"})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            seen["echo_left"] += 1
            seen[f"echo_left_{message['code']}"] += 1
            return
        await respond(message["text"], send)


async def respond(text: str, send: Send) -> None:
    verb, _, value = text.partition(" ")
    if verb == "close":
        await send({"type": "websocket.close", "code": int(value)})
    elif verb == "big":
        await send({"type": "websocket.send", "text": "x" * int(value)})
    elif verb == "flood":
        await asyncio.gather(*(flood_socket(send) for _ in range(int(value))))
    else:
        await send({"type": "websocket.send", "text": f"{len(text)}"})


async def flood_socket(send: Send) -> None:
    for _ in range(100_000):
        await send({"type": "websocket.send", "bytes": EVENT})
        seen["socket_sent"] += len(EVENT)


async def never_reads(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await asyncio.sleep(3600)


async def accepts_late(scope: Scope, receive: Receive, send: Send) -> None:
    say("asked")
    await until_leaving()
    await echo(scope, receive, send)


async def never_accepts(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(3600)


HTTP: dict[str, Any] = {
    handler.__name__: handler
    for handler in (
        state, advance, show_scope, count_body, flood, tick, quiet, send_only, big, slow,
        finish_late, fail_early, fail_late, give_up_early, give_up_late,
    )
}  # fmt: skip
WEBSOCKET: dict[str, Any] = {
    handler.__name__: handler for handler in (echo, never_reads, never_accepts, accepts_late)
}


# --- the process --------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


async def nothing() -> None:
    pass


async def starts() -> None:
    say("started")


async def stops() -> None:
    say("stopping")
    await asyncio.sleep(0.05)
    say("stopped")


async def fails() -> None:
    raise LookupError("no runner today")


async def hangs_at_start() -> None:
    say("starting")
    await asyncio.sleep(3600)


async def hangs_at_stop() -> None:
    say("stopping")
    await asyncio.sleep(3600)


HOOKS: dict[str, dict[str, Callable[[], Awaitable[None]]]] = {
    "quick": {},
    "printing": {"on_start": starts, "on_stop": stops},
    "failing": {"on_start": fails},
    "failing_stop": {"on_stop": fails},
    "hanging_start": {"on_start": hangs_at_start, "on_stop": stops},
    "hanging_stop": {"on_stop": hangs_at_stop},
}


def serve(name: str, limits: dict[str, Any]) -> None:
    """Serves the application until a signal, with a clock that a test moves forward."""
    from project.server import connections, server

    # A second each, which no test needs.
    connections.REFUSED_SECONDS = 0.05
    server.CHECK_SECONDS = 0.02

    async def start() -> None:
        # Only now: until the server runs, a signal just ends the process.
        say(served.address)
        await hooks.get("on_start", nothing)()

    logging.basicConfig(level=logging.ERROR)
    hooks = HOOKS[name]
    served = server.Server(
        application,
        host="127.0.0.1",
        port=0,
        limits=server.ConnectionLimits(**limits),
        on_start=start,
        on_stop=hooks.get("on_stop", nothing),
    )
    use_clock_of_tests(served, server, connections)
    served.listen()
    served.run()
    say("ended")


def use_clock_of_tests(served: Server, *modules: Any) -> None:
    def monotonic() -> float:
        return time.monotonic() + control.skipped_seconds

    control.server = served
    served.buffer_limits._clock = monotonic
    for module in modules:
        module.time = SimpleNamespace(monotonic=monotonic)
