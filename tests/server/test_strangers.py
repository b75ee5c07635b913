"""Requests that no page of ours makes are refused, and are no errors in the log."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

from tests.live.connection import ORIGIN, Connection, headers_of


async def test_websocket_to_an_unknown_path_is_refused() -> None:
    scope = {
        "type": "websocket",
        "path": "/nowhere/",
        "raw_path": b"/nowhere/",
        "root_path": "",
        "query_string": b"",
        "headers": headers_of("", (b"origin", ORIGIN)),
        "subprotocols": [],
    }
    connection = Connection(scope, {"type": "websocket.connect"})

    await connection.until(lambda connection: connection.sent)
    await connection.leave({"type": "websocket.disconnect", "code": 1006})

    assert [event["type"] for event in connection.sent] == ["websocket.close"]


def test_foreign_host_is_refused_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        answer = Client().get("/accounts/login/", HTTP_HOST="evil.example")

    assert answer.status_code == 400
    assert "evil.example" not in caplog.text


def test_malformed_page_address_leads_to_the_start_page() -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://[::1"}

    answer = Client().get("/c/", headers=headers)

    assert answer.status_code == 401
    assert answer["HX-Redirect"] == "/accounts/login/?next=%2F"
