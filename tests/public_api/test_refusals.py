"""Invalid requests to the public API are refused in LM Studio's format, and start nothing."""

import json
import socket
from typing import Any

import httpx
import pytest

from tests.public_api.conftest import Chain
from tests.public_api.site import CHAT, ProgramSite

MODEL = "tributary/demo-reasoner"
CONVERSATIONS = "SELECT count(*) FROM chat_conversation"


def post(site: ProgramSite, body: bytes, **headers: str) -> httpx.Response:
    headers = {"Content-Type": "application/json", **headers}
    return site.request("POST", CHAT, content=body, headers=headers)


def body(**fields: Any) -> bytes:
    return json.dumps({"model": MODEL, "input": "Hello", **fields}).encode()


def items(*given: dict[str, Any]) -> bytes:
    return body(input=list(given))


TEXT = {"type": "text", "content": "Look"}
NO_PICTURE = {"type": "image", "data_url": "data:image/png;base64,aGVsbG8="}
REMOTE_PICTURE = {"type": "image", "data_url": "http://169.254.169.254/"}
STRAY_RESULT = {"type": "tool_result", "call_id": "a", "content": "b"}
# What is wrong: the body, the error's code and its parameter.
REFUSED: dict[str, tuple[bytes, str, str | None]] = {
    "nothing": (b"", "invalid_json", None),
    "half an object": (b"{", "invalid_json", None),
    "not UTF-8": (b"\xff\xfe{}", "invalid_json", None),
    "a deep list": (b"[" * 100_000 + b"]" * 100_000, "invalid_json", None),
    "a deep object": (b'{"a":' * 100_000, "invalid_json", None),
    "a list": (b"[]", "invalid_type", None),
    "a text": (b'"text"', "invalid_type", None),
    "no model": (body(model=None), "missing_required_parameter", "model"),
    "no input": (body(input=None), "missing_required_parameter", "input"),
    "a number as model": (body(model=7), "invalid_type", "model"),
    "an unknown model": (body(model="no/such"), "model_not_found", "model"),
    "lines in a model": (body(model="x\r\ndata: {}\r\n\r\n"), "model_not_found", "model"),
    "SQL in a model": (body(model="'; DROP TABLE chat_run; --"), "model_not_found", "model"),
    "a lone surrogate as model": (body(model="\ud800"), "model_not_found", "model"),
    "a long model": (body(model="m" * 100_000), "model_not_found", "model"),
    "blank input": (body(input="  "), "invalid_union", "input"),
    # Above what a form may have, below what a message with pictures may.
    "a very long text": (body(input="x" * 3_000_000), "refused", None),
    "no items": (items(), "invalid_union", "input"),
    "an unknown item": (items({"type": "video"}), "invalid_union", "input"),
    "a list as type": (items({"type": ["text"]}), "invalid_union", "input"),
    "text under another name": (items({"type": "text", "text": "a"}), "invalid_union", "input"),
    "an address as picture": (items(REMOTE_PICTURE), "invalid_union", "input"),
    "no picture": (items(TEXT, NO_PICTURE), "invalid_image", "input"),
    "300 items": (items(*[TEXT] * 300), "invalid_union", "input"),
    "a word as flag": (body(stream="yes"), "invalid_type", "stream"),
    "a word as temperature": (body(temperature="hot"), "invalid_type", "temperature"),
    "a flag as temperature": (body(temperature=True), "invalid_type", "temperature"),
    "half a count": (body(top_k=1.5), "invalid_type", "top_k"),
    "an unknown reasoning": (body(reasoning="a lot"), "invalid_value", "reasoning"),
    "an unknown visibility": (body(visibility="all"), "invalid_value", "visibility"),
    "one integration": (body(integrations="x"), "invalid_type", "integrations"),
    "an unknown tool": (body(integrations=["tool/none"]), "invalid_value", "integrations"),
    "an invalid id": (body(previous_response_id="7"), "invalid_string", "previous_response_id"),
    "an unknown id": (
        body(previous_response_id="resp_7"),
        "previous_response_not_found",
        "previous_response_id",
    ),
    "a result of no call": (
        items(STRAY_RESULT),
        "missing_required_parameter",
        "previous_response_id",
    ),
}


def test_invalid_requests_are_refused(site: ProgramSite, subtests: pytest.Subtests) -> None:
    for name, (content, code, param) in REFUSED.items():
        with subtests.test(name):
            before = site.value(CONVERSATIONS)

            answer = post(site, content)

            assert answer.status_code in (400, 404)
            error = answer.json()["error"]
            assert set(error) == {"type", "message", "code", "param"}
            assert (error["code"], error["param"]) == (code, param)
            assert len(error["message"]) < 400
            assert site.value(CONVERSATIONS) == before


def test_foreign_and_missing_responses_give_the_same_error(site: ProgramSite) -> None:
    result = site.ask(model=MODEL, input="Mine")

    foreign, missing = (
        site.request(
            "POST",
            CHAT,
            actor="dana",
            json={"model": MODEL, "input": "x", "previous_response_id": response},
        )
        for response in (result["response_id"], "resp_" + "0" * 32)
    )

    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert foreign.status_code == 404


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_form_of_another_page_is_refused(site: ProgramSite, kind: str) -> None:
    answer = post(site, body(), **{"Content-Type": kind})

    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/chat"), ("POST", "/models"), ("DELETE", "/chat"), ("OPTIONS", "/chat")],
)
def test_other_methods_are_not_allowed(site: ProgramSite, method: str, path: str) -> None:
    answer = site.request(method, f"/api/v1{path}")

    assert answer.status_code == 405
    assert answer.headers["allow"] in ("GET", "POST")
    assert "access-control-allow-origin" not in answer.headers


def test_too_large_body_is_refused_unread(site: ProgramSite) -> None:
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {site.tokens['alice']}\r\n"
        f"Content-Length: {100 * 1024 * 1024}\r\n\r\n"
    )
    host, _, port = site.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(100)

    assert answer.startswith(b"HTTP/1.1 413")


def test_text_is_repaired_and_cannot_end_an_event(site: ProgramSite) -> None:
    text = "half \ud83d, \u2028 and\r\n\r\nevent: chat.end\ndata: {}\n\n\x00"

    result = post(site, body(input=text)).json()

    stored = site.value(
        "SELECT text FROM chat_message WHERE role = 'user' ORDER BY id DESC LIMIT 1"
    )
    assert stored == text.replace("\ud83d", "\ufffd").replace("\x00", "\u2400")
    assert result["ext"]["status"] == "completed"


def test_log_contains_no_token(site: ProgramSite) -> None:
    token = site.tokens["alice"]
    site.get("/api/v1/models")
    site.get(f"/{token}/?token={token}", actor="anonymous")

    assert token not in site.log


def test_internal_error_is_reported_at_once(chain: Chain) -> None:
    site = chain.last
    site.rows("ALTER TABLE chat_accesstoken RENAME TO chat_gone")
    try:
        answer = site.get("/api/v1/models")
    finally:
        site.rows("ALTER TABLE chat_gone RENAME TO chat_accesstoken")

    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "internal_error"
    assert site.tokens["alice"] not in answer.text + site.log
