"""A request to the application in this process, and the page of metrics as Prometheus reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from chat.core import metrics
from project.asgi import application

# An address that may see everything, and one that may not.
NEAR = "127.0.0.1"
STRANGER = "192.0.2.7"
TOKEN = "figures-7Qx2mWvK"

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass
class Response:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def text(self) -> str:
        return self.body.decode()


async def request(
    path: str,
    *,
    peer: str | None = STRANGER,
    method: str = "GET",
    session: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    sent = {"host": "10.1.2.3:8000", **(headers or {})}
    if session:
        sent["cookie"] = f"sessionid={session}"
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": (peer, 40000) if peer else None,
        "server": ("127.0.0.1", 8000),
        "scheme": "http",
    }
    response = Response()
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            response.status = event["status"]
            response.headers = {name.lower(): value for name, value in event["headers"]}
        else:
            response.body += event.get("body", b"")

    async with asyncio.timeout(60):
        await application(scope, inbox.get, send)
    return response


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def _all_series() -> dict[Series, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def value(name: str, **labels: str) -> float:
    """The value of one series, 0 if it is not there yet."""
    return _all_series().get((name, frozenset(labels.items())), 0.0)


class Change:
    """How far each series has moved since this was made."""

    def __init__(self) -> None:
        self._before = _all_series()

    def of(self, name: str, **labels: str) -> float:
        before = self._before.get((name, frozenset(labels.items())), 0.0)
        return value(name, **labels) - before
