"""The ASGI application: Django's pages and the live endpoints."""

import os
from urllib.parse import ParseResult

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Fills the app registry, so it must come before anything that imports models.
django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import OriginValidator, WebsocketDenier  # noqa: E402
from channels.sessions import SessionMiddlewareStack  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path, re_path, register_converter  # noqa: E402
from django.urls.converters import UUIDConverter  # noqa: E402

from chat.core.request_queue import request_queue  # noqa: E402
from chat.health import endpoints  # noqa: E402
from chat.health.streaming_test import PacedSocket, PacedStream  # noqa: E402
from chat.live.sse import TabStream  # noqa: E402
from chat.live.websocket import RAW_SEND, LiveConsumer  # noqa: E402
from chat.public_api import endpoints as programs  # noqa: E402
from chat.public_api.log_stream import RunEvents  # noqa: E402
from chat.web.views import busy  # noqa: E402
from project.server.request_pool import RequestPool  # noqa: E402
from project.server.server import Application, Receive, Scope, Send, fixed_root_path  # noqa: E402

request_pool = RequestPool(
    request_queue,
    message_urls=settings.MESSAGE_URLS,
    refuse=busy,
    database_seconds=settings.DATABASE_WAIT_SECONDS,
)


class Origins(OriginValidator):
    """Refuses a malformed origin instead of failing on it."""

    def valid_origin(self, parsed_origin: ParseResult | None) -> bool:
        try:
            return bool(super().valid_origin(parsed_origin))
        except ValueError:
            # The port is not a number.
            return False


def with_raw_send(application: Application) -> Application:
    """Puts the server's own ``send`` into the scope, for websockets. The session middleware wraps
    ``send`` to check with each message whether a cookie must be set, which is impossible on a
    websocket."""

    async def past_the_session(scope: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, RAW_SEND: send}, receive, send)

    return past_the_session


class RunId(UUIDConverter):
    """The ID of a run with dashes (as in headers and results) or without (as in its events)."""

    regex = UUIDConverter.regex.replace("-[", "-?[")


register_converter(RunId, "run")
websockets = URLRouter(
    [
        path("live/", LiveConsumer.as_asgi()),
        path("live/test/", PacedSocket.as_asgi()),
        # Without this, a request for an unknown address would be logged as an error.
        re_path(r"", WebsocketDenier.as_asgi()),
    ]
)
requests = URLRouter(
    [
        path("healthz", endpoints.healthz),
        path("readyz", endpoints.readyz),
        path("metrics", endpoints.metrics_or(request_pool)),
        # Programs authenticate with a token; cookies are ignored.
        path("api/v1/models", programs.Models.as_asgi()),
        path("api/v1/projects", programs.Projects.as_asgi()),
        path("api/v1/chat", programs.Chat.as_asgi()),
        path("api/v1/runs/<run:run_id>", programs.RunState.as_asgi()),
        path("api/v1/runs/<run:run_id>/stop", programs.RunStop.as_asgi()),
        path("api/v1/runs/<run:run_id>/events", SessionMiddlewareStack(RunEvents.as_asgi())),
        path("live/stream/", SessionMiddlewareStack(TabStream.as_asgi())),
        path("live/test/", SessionMiddlewareStack(PacedStream.as_asgi())),
        re_path(r"", request_pool),
    ]
)
application = fixed_root_path(
    ProtocolTypeRouter(
        {
            "http": requests,
            # Only our own pages may open a websocket, because browsers send the session cookie with
            # it.
            "websocket": Origins(
                with_raw_send(SessionMiddlewareStack(websockets)), settings.LIVE_ORIGINS
            ),
        }
    )
)
