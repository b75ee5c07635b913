"""What every API of the demo is made of."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from chat.demo.encoder import Encoder
from chat.demo.http import Exchange, Request
from chat.demo.requests import DemoRequest, Store, StoredAnswer
from chat.demo.scenes import Scene
from chat.demo.script import json_bytes

JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class DemoState:
    """What the demo remembers, in this process only."""

    loaded_models: set[str] = field(default_factory=set)
    answers: Store[StoredAnswer] = field(default_factory=Store)
    # Mockups: bundle id to the version that it has reached.
    bundles: Store[int] = field(default_factory=Store)


Get = Callable[[Exchange, DemoState], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoApi:
    """One API below a path of its own.

    `read` checks a request and raises `BadRequest`; `encoder` says the scene that answers it. `gets` are further
    addresses; one that ends in ``*`` fits whatever begins with it.
    """

    path: str
    chat: str
    read: Callable[[Request, DemoState], DemoRequest]
    encoder: Callable[[DemoRequest, Scene, DemoState], Encoder]
    gets: Mapping[str, Get] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def find_get(self, path: str) -> Get | None:
        below = path.removeprefix(self.path)
        if below == path and self.path:
            return None
        return next(
            (
                get
                for pattern, get in self.gets.items()
                if below == pattern or (pattern.endswith("*") and below.startswith(pattern[:-1]))
            ),
            None,
        )


async def answer(
    exchange: Exchange, status: int, body: object, headers: Mapping[str, str] | None = None
) -> None:
    await exchange.answer(status, {**JSON_HEADERS, **(headers or {})}, json_bytes(body))


def listing(body: Callable[[DemoState], object]) -> Get:
    """A ``GET`` that answers with this JSON."""

    async def get(exchange: Exchange, state: DemoState) -> None:
        await answer(exchange, 200, body(state))

    return get
