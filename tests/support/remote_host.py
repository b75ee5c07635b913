"""Another host, with pictures and other files: counts who asks, and for what."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class Elsewhere:
    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append((self.path, dict(self.headers)))
                status, headers, body = host.pages.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        # As PICTURE_PRIVATE_NETWORKS has it.
        self.network = f"127.0.0.0/8:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def puts(self, path: str, body: bytes, *, status: int = 200, **headers: str) -> str:
        """The address at which this is from now on."""
        self.pages[path] = (status, headers, body)
        return f"{self.url}{path}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
