"""Servers to point the settings at, each in a thread of its own, and the forms to fill in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Upstream, User
from tests.support.upstream.fake import FakeUpstream

# Found nowhere but in the request to the one server that it belongs to.
CANARY = "sk-canary-7f3b91d2c4e8"
FRAGMENT = {"HX-Request": "true"}

Form = dict[str, object]


@dataclass
class PlainServer:
    """Answers every request alike, and records the credentials that it was sent."""

    status: int = 200
    body: bytes = b'{"data": []}'
    echoes_key: bool = False
    url: str = ""
    keys: list[str] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)

    def answer(self, key: str) -> bytes:
        self.keys.append(key)
        return self.body + key.encode() if self.echoes_key else self.body


@pytest.fixture
def plain_server() -> Iterator[PlainServer]:
    behaviour = PlainServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = behaviour.answer(self.headers.get("Authorization", ""))
            behaviour.passes.append(self.headers.get("X-Pass", ""))
            self.send_response(behaviour.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    behaviour.url = f"http://127.0.0.1:{server.server_port}"
    yield behaviour
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="package")
def demo_server() -> Iterator[str]:
    """The address of the demo upstream, without its pauses."""
    fake = FakeUpstream.start_in_thread()
    yield fake.url
    fake.stop()


@pytest.fixture
def admin_client(administrator: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(administrator)


@pytest.fixture
def keyed(db: None) -> Upstream:
    """A server with a key, at an address where nothing listens."""
    upstream = Upstream(name="Cellar", dialect="openai_chat", base_url="http://127.0.0.1:9/v1")
    upstream.set_key(CANARY)
    upstream.save()
    return upstream


def url_of(upstream: Upstream, route: str = "server") -> str:
    return reverse(route, args=[upstream.public_id])


def page_of(client: Client, upstream: Upstream, route: str = "server_settings") -> str:
    """A tab of the server's page."""
    return client.get(url_of(upstream, route)).content.decode()


def form_of(upstream: Upstream, **changes: object) -> Form:
    """What the browser sends for a form that nobody touched, with these changes."""
    return {
        "name": upstream.name,
        "dialect": upstream.dialect,
        "base_url": upstream.base_url,
        "key": "",
        "concurrency_limit": upstream.concurrency_limit,
        "typed_models": "",
        **changes,
    }


def verbs() -> list[str]:
    """What the audit trail records."""
    return list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))
