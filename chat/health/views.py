"""The streaming self-test: the browser measures whether answers arrive while they are written."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from chat.web.decorators import login_required


@dataclass(frozen=True, slots=True)
class Recipe:
    """The configuration that lets streams through one kind of proxy. ``key`` is the proxy's own
    name in lower case."""

    key: str
    name: str
    where: str
    lines: str


def recipes(address: str) -> list[Recipe]:
    """The recipes. ``address`` is the host and port of this server as a proxy beside it sees
    them."""
    return [
        Recipe(
            "nginx",
            "nginx",
            gettext(
                "Put the map into the http block and the location into the server block, then run "
                "nginx -s reload."
            ),
            f"""map $http_upgrade $connection_upgrade {{
    default upgrade;
    ""      close;
}}

location / {{
    proxy_pass http://{address};
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;

    # Websockets.
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;

    # Answers as they are written, and connections that may be idle.
    proxy_buffering off;
    proxy_read_timeout 1h;
}}""",
        ),
        Recipe(
            "caddy",
            "Caddy",
            gettext(
                "Caddy passes WebSockets and streams through by default. It needs no other "
                "configuration."
            ),
            f"""tributary.example.org {{
    reverse_proxy {address} {{
        flush_interval -1
    }}
}}""",
        ),
        Recipe(
            "apache",
            "Apache",
            gettext(
                "Version 2.4.47 or newer, with the modules proxy, proxy_http and proxy_wstunnel."
            ),
            f"""ProxyPreserveHost On
ProxyTimeout 3600
ProxyPass        / http://{address}/ upgrade=websocket flushpackets=on
ProxyPassReverse / http://{address}/
# Compression would buffer the stream.
SetEnv no-gzip 1""",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Carrier:
    """A transport of the live page."""

    key: str
    name: str
    lead: str


def carriers() -> list[Carrier]:
    return [
        Carrier(
            "socket",
            gettext("WebSocket"),
            gettext("Used by conversations wherever it is available."),
        ),
        Carrier(
            "stream",
            gettext("Event stream"),
            gettext(
                "Server-sent events over HTTP. Used by the API, and by conversations without a "
                "WebSocket."
            ),
        ),
    ]


@login_required
@require_GET
def streaming(request: HttpRequest) -> HttpResponse:
    host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    address = f"[{host}]:{settings.PORT}" if ":" in host else f"{host}:{settings.PORT}"
    context = {
        "recipes": recipes(address),
        "carriers": carriers(),
        "heartbeat_seconds": 15,
    }
    return render(request, "health/streaming_test.html", context)
