"""One request to the application in this process, with an address that it seems to come from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from project.asgi import application

NEAR = "127.0.0.1"
STRANGER = "192.0.2.7"


@dataclass
class Answer:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def text(self) -> str:
        return self.body.decode()


async def ask(
    path: str,
    *,
    peer: str | None = STRANGER,
    method: str = "GET",
    session: str = "",
    headers: Mapping[str, str] | None = None,
) -> Answer:
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
    answer = Answer()
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            answer.status = event["status"]
            answer.headers = {name.lower(): value for name, value in event["headers"]}
        else:
            answer.body += event.get("body", b"")

    async with asyncio.timeout(60):
        await application(scope, inbox.get, send)
    return answer
