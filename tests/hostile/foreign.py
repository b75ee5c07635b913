"""Somebody else's server: counts what reaches it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Evil:
    """Notes every request, and answers it so that a browser likes to go on."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        hits = self.hits

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hits.append(f"{self.command} {self.path}")
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()

            do_POST = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def rules(self) -> str:
        """What makes a Chromium take every name of nobody's for this server."""
        return f"--host-resolver-rules=MAP *.test {self.host}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def counting() -> Iterator[Evil]:
    evil = Evil()
    yield evil
    evil.close()
