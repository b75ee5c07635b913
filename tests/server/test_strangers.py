"""What strangers try is refused, and is no error of ours in the log."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

from tests.live.connection import ORIGIN, Connection, headers_of


async def test_a_websocket_to_nowhere_is_refused() -> None:
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


def test_another_name_is_answered_and_not_written_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        answer = Client().get("/accounts/login/", HTTP_HOST="evil.example")

    assert answer.status_code == 400
    assert "evil.example" not in caplog.text


def test_a_page_that_is_no_address_is_the_first_one() -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://[::1"}

    answer = Client().get("/c/", headers=headers)

    assert answer.status_code == 401
    assert answer["HX-Redirect"] == "/accounts/login/?next=%2F"
