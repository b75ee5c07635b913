"""A server on somebody else's host, which counts the requests that reach it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ForeignServer:
    """Records every request in ``hits``, and answers so that a browser may read the answer."""

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
    def resolver_rules(self) -> str:
        """The option of Chromium that leads every host in ``.test`` to this server."""
        return f"--host-resolver-rules=MAP *.test {self.host}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def foreign_server() -> Iterator[ForeignServer]:
    server = ForeignServer()
    yield server
    server.close()
