"""Health and metrics at the web server, outside of Django, so that they answer when no page does.

They need no session, no thread of a pool and no allowed host name, because probes use addresses. A
client without access gets one word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from channels.auth import AuthMiddlewareStack
from django.conf import settings
from django.utils.translation import gettext

from chat.health import report
from chat.health.permission import Requester, may_see
from chat.health.report import HealthResponse

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Sessions are in the database, which may be what somebody asks about.
SESSION_SECONDS = 3.0


async def healthz(scope: Scope, receive: Receive, send: Send) -> None:
    await _send(scope, send, _only_get(scope) or report.alive())


async def readyz(scope: Scope, receive: Receive, send: Send) -> None:
    refusal = _only_get(scope)
    if refusal is not None:
        await _send(scope, send, refusal)
        return
    await _send(scope, send, await report.ready(in_detail=await _may_see(scope)))


def metrics_or(pages: Application) -> Application:
    """The metrics for those who may see them; for everyone else what ``pages`` respond to an
    unknown address."""

    async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD") or not await _may_see(scope):
            await pages(scope, receive, send)
            return
        await _send(scope, send, await report.figures_page())

    return metrics


def _only_get(scope: Scope) -> HealthResponse | None:
    if scope["method"] in ("GET", "HEAD"):
        return None
    return report.refused(405, gettext("Only GET is allowed."))


async def _may_see(scope: Scope) -> bool:
    requester = _requester(scope)
    if may_see(requester):
        return True
    return f"{settings.SESSION_COOKIE_NAME}=" in requester.headers.get(
        "cookie", ""
    ) and await _is_administrator(scope)


def _requester(scope: Scope) -> Requester:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    client = scope.get("client")
    return Requester(client[0] if client else None, headers)


async def _is_administrator(scope: Scope) -> bool:
    found: list[Any] = []

    async def look(inner: Scope, receive: Receive, send: Send) -> None:
        found.append(inner["user"])

    try:
        async with asyncio.timeout(SESSION_SECONDS):
            await AuthMiddlewareStack(look)(scope, None, None)
    except Exception:
        # Without a database nobody can be authenticated.
        return False
    return bool(found and found[0].is_active and found[0].is_staff)


async def _send(scope: Scope, send: Send, answer: HealthResponse) -> None:
    headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
