"""The streaming self-test: the browser measures whether answers arrive while they are written."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
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
            "In the http block the map, in the server block the location; then nginx -s reload.",
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

    # Answers word by word, and connections that may be quiet.
    proxy_buffering off;
    proxy_read_timeout 1h;
}}""",
        ),
        Recipe(
            "caddy",
            "Caddy",
            "Caddy lets websockets and streams through by itself; this is all it needs.",
            f"""tributary.example.org {{
    reverse_proxy {address} {{
        flush_interval -1
    }}
}}""",
        ),
        Recipe(
            "apache",
            "Apache",
            "Version 2.4.47 or newer, with the modules proxy, proxy_http and proxy_wstunnel.",
            f"""ProxyPreserveHost On
ProxyTimeout 3600
ProxyPass        / http://{address}/ upgrade=websocket flushpackets=on
ProxyPassReverse / http://{address}/
# Compression collects what it compresses.
SetEnv no-gzip 1""",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Carrier:
    """A transport of the live page."""

    key: str
    name: str
    lead: str


CARRIERS = [
    Carrier("socket", "Websocket", "What a conversation uses wherever it gets through."),
    Carrier(
        "stream",
        "Plain stream",
        "What a conversation falls back to, and what programs use: server-sent events over HTTP.",
    ),
]


@login_required
@require_GET
def streaming(request: HttpRequest) -> HttpResponse:
    host = settings.HOST if settings.HOST not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
    address = f"[{host}]:{settings.PORT}" if ":" in host else f"{host}:{settings.PORT}"
    context = {
        "recipes": recipes(address),
        "carriers": CARRIERS,
        "heartbeat_seconds": 15,
    }
    return render(request, "health/streaming_test.html", context)
