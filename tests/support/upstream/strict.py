"""A fake upstream that answers status 400 to everything that the documentation of its API doesn't allow."""

from __future__ import annotations

from chat.demo.frames import json_bytes
from tests.support.upstream.fake import JSON, FakeUpstream
from tests.support.upstream.http import Exchange
from tests.support.upstream.strict_requests import refusal_of


class StrictUpstream(FakeUpstream):
    """It speaks the API of one dialect at a time. ``refusals`` are the reasons it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.dialect = ""
        self.refusals: list[str] = []

    async def _handle(self, exchange: Exchange) -> None:
        is_post = exchange.request.method == "POST"
        reason = refusal_of(self.dialect, exchange.request.body) if is_post else ""
        if not reason:
            await super()._handle(exchange)
            return
        self.refusals.append(reason)
        self.control.record(exchange)
        error = {"message": reason, "type": "invalid_request_error"}
        await exchange.answer(400, JSON, json_bytes({"type": "error", "error": error}))
