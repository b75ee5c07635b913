"""What is answered at the three addresses, for the web server and for the runner's own."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from chat import metrics
from chat.health import figures
from chat.health.checks import checks
from chat.health.process import process
from chat.health.report import report
from project import VERSION

# Opened in a browser it is data and nothing else, and nobody keeps it.
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            **HEADERS,
        }


def alive() -> Answer:
    """The event loop has come to this line: that is all there is to say."""
    return _json(200, {"status": "ok"})


async def ready(*, in_detail: bool) -> Answer:
    found = report(process, await checks.findings.get(), version=VERSION)
    return _json(200 if found.can_serve else 503, found.body(in_detail=in_detail))


async def figures_page() -> Answer:
    await figures.refresh()
    return Answer(200, metrics.CONTENT_TYPE, metrics.exposition())


def refused(status: int, message: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{message}\n".encode())


def _json(status: int, value: object) -> Answer:
    return Answer(status, "application/json", msgspec.json.encode(value) + b"\n")
