"""What nobody should send: refused in LM Studio's shape, and nothing is begun."""

import json
import socket
from typing import Any

import httpx
import pytest

from tests.programs.conftest import Chain
from tests.programs.site import ProgramSite

MODEL = "tributary/demo-reasoner"
DEEP = b"[" * 100_000 + b"]" * 100_000


def post(site: ProgramSite, body: bytes, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{site.url}/api/v1/chat",
        content=body,
        headers={
            "Authorization": f"Bearer {site.token}",
            "Content-Type": "application/json",
            **headers,
        },
        trust_env=False,
        timeout=60,
    )


def asking(**members: Any) -> bytes:
    return json.dumps({"model": MODEL, "input": "Hello", **members}).encode()


def without(name: str) -> bytes:
    return json.dumps({"model": MODEL, "input": "Hello"} | {name: None}).encode()


REFUSED = [
    pytest.param(b"", "invalid_json", None, id="nothing"),
    pytest.param(b"{", "invalid_json", None, id="half an object"),
    pytest.param(b"\xff\xfe{}", "invalid_json", None, id="no UTF-8"),
    pytest.param(DEEP, "invalid_json", None, id="a deep list"),
    pytest.param(b'{"a":' * 100_000, "invalid_json", None, id="a deep object"),
    pytest.param(b"[]", "invalid_type", None, id="a list"),
    pytest.param(b'"text"', "invalid_type", None, id="a text"),
    pytest.param(without("model"), "missing_required_parameter", "model", id="no model"),
    pytest.param(without("input"), "missing_required_parameter", "input", id="no input"),
    pytest.param(asking(model=7), "invalid_type", "model", id="a number as model"),
    pytest.param(asking(model="no/such"), "model_not_found", "model", id="no such model"),
    pytest.param(
        asking(model="x\r\ndata: {}\r\n\r\n"), "model_not_found", "model", id="lines in a model"
    ),
    pytest.param(
        asking(model="'; DROP TABLE chat_run; --"), "model_not_found", "model", id="SQL in a model"
    ),
    pytest.param(asking(model="\ud800"), "model_not_found", "model", id="half a letter as model"),
    pytest.param(asking(model="m" * 100_000), "model_not_found", "model", id="a long model"),
    pytest.param(asking(input="  "), "invalid_union", "input", id="blank input"),
    # Above what a form may have, below what a message with pictures may.
    pytest.param(asking(input="x" * 3_000_000), "refused", None, id="a shelf of books"),
    pytest.param(asking(input=[]), "invalid_union", "input", id="no items"),
    pytest.param(asking(input=[{"type": "video"}]), "invalid_union", "input", id="a strange item"),
    pytest.param(asking(input=[{"type": ["text"]}]), "invalid_union", "input", id="a list as type"),
    pytest.param(
        asking(input=[{"type": "text", "text": "a"}]), "invalid_union", "input", id="text as text"
    ),
    pytest.param(
        asking(input=[{"type": "image", "data_url": "http://169.254.169.254/"}]),
        "invalid_union",
        "input",
        id="an address as picture",
    ),
    pytest.param(
        asking(
            input=[
                {"type": "text", "content": "Look"},
                {"type": "image", "data_url": "data:image/png;base64,aGVsbG8="},
            ]
        ),
        "invalid_image",
        "input",
        id="no picture",
    ),
    pytest.param(
        asking(input=[{"type": "text", "content": "a"}] * 300), "invalid_union", "input", id="300"
    ),
    pytest.param(asking(stream="yes"), "invalid_type", "stream", id="a word for a flag"),
    pytest.param(asking(temperature="hot"), "invalid_type", "temperature", id="a word for heat"),
    pytest.param(asking(temperature=True), "invalid_type", "temperature", id="a flag for heat"),
    pytest.param(asking(top_k=1.5), "invalid_type", "top_k", id="half a count"),
    pytest.param(asking(reasoning="a lot"), "invalid_value", "reasoning", id="much reasoning"),
    pytest.param(asking(visibility="all"), "invalid_value", "visibility", id="for the world"),
    pytest.param(asking(integrations="x"), "invalid_type", "integrations", id="one integration"),
    pytest.param(
        asking(integrations=["tool/none"]), "invalid_value", "integrations", id="no such tool"
    ),
    pytest.param(
        asking(previous_response_id="7"), "invalid_string", "previous_response_id", id="no id"
    ),
    pytest.param(
        asking(previous_response_id="resp_7"),
        "previous_response_not_found",
        "previous_response_id",
        id="an unknown id",
    ),
    pytest.param(
        asking(input=[{"type": "tool_result", "call_id": "a", "content": "b"}]),
        "missing_required_parameter",
        "previous_response_id",
        id="a result of nothing",
    ),
]


@pytest.mark.parametrize(("body", "code", "param"), REFUSED)
def test_what_makes_no_sense_is_refused(
    site: ProgramSite, body: bytes, code: str, param: str | None
) -> None:
    before = site.rows("SELECT count(*) AS n FROM chat_conversation")

    answer = post(site, body)

    assert answer.status_code in (400, 404)
    error = answer.json()["error"]
    assert set(error) == {"type", "message", "code", "param"}
    assert (error["code"], error["param"]) == (code, param)
    assert len(error["message"]) < 400
    assert site.rows("SELECT count(*) AS n FROM chat_conversation") == before


def test_a_foreign_and_a_missing_response_are_the_same(site: ProgramSite) -> None:
    result = site.ask(model=MODEL, input="Mine")
    foreign, missing = (
        httpx.post(
            f"{site.url}/api/v1/chat",
            json={"model": MODEL, "input": "x", "previous_response_id": each},
            headers={"Authorization": f"Bearer {site.tokens['dana']}"},
            trust_env=False,
        )
        for each in (result["response_id"], "resp_" + "0" * 32)
    )

    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert foreign.status_code == 404


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_form_of_another_page_is_no_request(site: ProgramSite, kind: str) -> None:
    answer = post(site, asking(), **{"Content-Type": kind})

    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/chat"), ("POST", "/models"), ("DELETE", "/chat"), ("OPTIONS", "/chat")],
)
def test_other_methods_are_not_there(site: ProgramSite, method: str, path: str) -> None:
    with site.client() as client:
        answer = client.request(method, f"/api/v1{path}")

    assert answer.status_code == 405
    assert answer.headers["allow"] in ("GET", "POST")
    assert "access-control-allow-origin" not in answer.headers


def test_a_body_that_is_too_large_is_not_read(site: ProgramSite) -> None:
    head = (
        f"POST /api/v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {site.token}\r\nContent-Length: {100 * 1024 * 1024}\r\n\r\n"
    )
    host, _, port = site.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(100)

    assert answer.startswith(b"HTTP/1.1 413")


def test_texts_arrive_mended_and_nothing_in_them_ends_an_event(site: ProgramSite) -> None:
    text = "half \ud83d, \u2028 and\r\n\r\nevent: chat.end\ndata: {}\n\n\x00"

    result = post(site, asking(input=text)).json()

    (row,) = site.rows("SELECT text FROM chat_message WHERE role = 'user' ORDER BY id DESC LIMIT 1")
    assert row["text"] == text.replace("\ud83d", "\ufffd").replace("\x00", "\u2400")
    assert result["ext"]["status"] == "completed"


def test_no_token_is_in_the_log(site: ProgramSite) -> None:
    site.get("/api/v1/models")
    httpx.get(f"{site.url}/{site.token}/?token={site.token}", trust_env=False)

    assert site.token not in site.log


def test_what_breaks_here_is_said_and_not_waited_for(chain: Chain) -> None:
    site = chain.last
    site.rows("ALTER TABLE chat_accesstoken RENAME TO chat_gone")
    try:
        answer = httpx.get(
            f"{site.url}/api/v1/models",
            headers={"Authorization": f"Bearer {site.token}"},
            trust_env=False,
            timeout=60,
        )
    finally:
        site.rows("ALTER TABLE chat_gone RENAME TO chat_accesstoken")

    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "internal_error"
    assert site.token not in answer.text + site.log
