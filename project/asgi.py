"""The application: Django's pages, and the live endpoints beside them."""

import os
from urllib.parse import ParseResult

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Fills the registry of applications; whatever imports models comes after it.
django.setup(set_prefix=False)

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import OriginValidator, WebsocketDenier  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import path, re_path, register_converter  # noqa: E402
from django.urls.converters import UUIDConverter  # noqa: E402

from chat.health import endpoints  # noqa: E402
from chat.health.streaming_test import PacedSocket, PacedStream  # noqa: E402
from chat.live.sse import TabStream  # noqa: E402
from chat.live.websocket import RAW_SEND, LiveConsumer  # noqa: E402
from chat.public_api import endpoints as programs  # noqa: E402
from chat.public_api.log_stream import RunEvents  # noqa: E402
from project.server.request_pool import RequestPool  # noqa: E402
from project.server.server import Application, Receive, Scope, Send, fixed_root_path  # noqa: E402

request_pool = RequestPool(
    settings.MAX_CONCURRENT_REQUESTS,
    priority_urls=settings.PRIORITY_URLS,
    database_seconds=settings.DATABASE_WAIT_SECONDS,
)


class Origins(OriginValidator):
    """Refuses what is no address at all, instead of failing on it."""

    def valid_origin(self, parsed_origin: ParseResult | None) -> bool:
        try:
            return bool(super().valid_origin(parsed_origin))
        except ValueError:
            # The port is no number.
            return False


def with_raw_send(application: Application) -> Application:
    """What sends over a websocket finds the server's own ``send`` in its scope. The session's, around
    it, looks with each message whether there is a cookie to set, which no websocket can."""

    async def past_the_session(scope: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, RAW_SEND: send}, receive, send)

    return past_the_session


class RunId(UUIDConverter):
    """A run's id as headers and results have it, or as its events do: without dashes."""

    regex = UUIDConverter.regex.replace("-[", "-?[")


register_converter(RunId, "run")
websockets = URLRouter(
    [
        path("live/", LiveConsumer.as_asgi()),
        path("live/test/", PacedSocket.as_asgi()),
        # Whatever a stranger tries is no error of ours.
        re_path(r"", WebsocketDenier.as_asgi()),
    ]
)
requests = URLRouter(
    [
        path("healthz", endpoints.healthz),
        path("readyz", endpoints.readyz),
        path("metrics", endpoints.metrics_or(request_pool)),
        # Programs sign in with a token; a cookie says nothing there.
        path("api/v1/models", programs.Models.as_asgi()),
        path("api/v1/chat", programs.Chat.as_asgi()),
        path("api/v1/runs/<run:run_id>", programs.RunState.as_asgi()),
        path("api/v1/runs/<run:run_id>/stop", programs.RunStop.as_asgi()),
        path("api/v1/runs/<run:run_id>/events", AuthMiddlewareStack(RunEvents.as_asgi())),
        path("live/stream/", AuthMiddlewareStack(TabStream.as_asgi())),
        path("live/test/", AuthMiddlewareStack(PacedStream.as_asgi())),
        re_path(r"", request_pool),
    ]
)
application = fixed_root_path(
    ProtocolTypeRouter(
        {
            "http": requests,
            # Only pages of our own address may open the socket: the session cookie comes along.
            "websocket": Origins(
                with_raw_send(AuthMiddlewareStack(websockets)), settings.LIVE_ORIGINS
            ),
        }
    )
)
