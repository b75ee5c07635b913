"""Errors of every form become one, with a kind that says what a person can do."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.errors import TEXT_CHARACTERS, error_from, read_error, unescaped_error
from chat.events import Error, encode


def body(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"error": {"message": "a", "type": "t"}}, "a"),
        ({"error": "a"}, "a"),
        ({"message": "a"}, "a"),
        ({"error": {"message": "", "metadata": {"raw": "a"}}}, "a"),
        ({"detail": "a"}, "a"),
        ({"detail": [{"loc": ["x"], "msg": "a", "type": "t"}, {"msg": "b"}]}, "a; b"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "a"}}, "a"),
        ("a", "a"),
    ],
)
def test_message_is_found(value: object, message: str) -> None:
    assert read_error(400, {}, body(value)).message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"error": "no "place" here"}', 'no "place" here'),
        ('{"error": "the first of several lines', "the first of several lines"),
        (' { "error" : "a "b" " } ', 'a "b"'),
        ('{"error": ""}', "The server reported an error without saying which."),
    ],
)
def test_message_that_was_not_escaped_is_found(text: str, message: str) -> None:
    info = unescaped_error(text)

    assert info is not None
    assert info.message == message


@pytest.mark.parametrize("text", ["", "error", '{"error": 5', '{"message": "an "error" here"}'])
def test_other_text_is_no_unescaped_error(text: str) -> None:
    assert unescaped_error(text) is None


@pytest.mark.parametrize(
    ("status", "code", "kind", "is_retryable"),
    [
        (400, "", "bad_request", False),
        (400, "context_length_exceeded", "context_length", False),
        (400, "model_not_found", "not_found", False),
        (401, "invalid_request", "auth", False),
        (402, "", "billing", False),
        (403, "", "permission", False),
        (404, "", "not_found", False),
        (404, "model_not_found", "not_found", False),
        (408, "", "timeout", True),
        (409, "", "bad_request", False),
        (412, "", "bad_request", False),
        (413, "", "too_large", False),
        (418, "", "bad_request", False),
        (422, "", "bad_request", False),
        (429, "", "rate_limit", True),
        (429, "capacity_exceeded", "rate_limit", True),
        (429, "insufficient_quota", "quota", False),
        (429, "quota_exceeded", "quota", False),
        (500, "", "server", True),
        (502, "", "server", True),
        (503, "", "overloaded", True),
        (503, "endpoint_inactive", "overloaded", True),
        (504, "", "timeout", True),
        (529, "overloaded_error", "overloaded", True),
        (599, "", "server", True),
        (None, "json_parse_error", "bad_request", False),
        (None, "timeout_error", "timeout", True),
        (None, "stream_idle_timeout", "idle_timeout", True),
        (None, "invalid_api_key", "auth", False),
        (None, "cancelled", "cancelled", False),
        (None, "server_error", "server", True),
        (None, "rate_limit_exceeded", "rate_limit", True),
        (None, "something_new", "unknown", False),
        (None, 429, "rate_limit", True),
        (None, 1234, "unknown", False),
    ],
)
def test_kind(status: int | None, code: object, kind: str, is_retryable: bool) -> None:
    info = read_error(status, {}, body({"error": {"message": "m", "code": code}}))

    assert (info.kind, info.retryable) == (kind, is_retryable)


def test_context_length_is_recognised_by_its_words() -> None:
    value = {"error": {"message": "This model's maximum context length is 4096 tokens."}}

    assert read_error(400, {}, body(value)).kind == "context_length"


@pytest.mark.parametrize(
    ("status", "value", "wire_type"),
    [
        (401, {"error": {"message": "m", "type": "authentication_error"}}, "invalid_request"),
        (404, {"error": {"message": "m", "code": "model_not_found"}}, "model_not_found"),
        (None, {"type": "mcp_connection_error", "message": "m"}, "mcp_connection_error"),
        (500, {"error": {"message": "m", "type": "api_error"}}, "internal_error"),
        (None, {"error": {"message": "m", "type": "odd"}}, "unknown"),
    ],
)
def test_type_stays_within_lm_studios_eight(
    status: int | None, value: object, wire_type: str
) -> None:
    assert read_error(status, {}, body(value)).type == wire_type


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"upstream connect error", "upstream connect error"),
        (
            b"<html><head><style>p{}</style></head><body><h1>502 Bad&nbsp;Gateway</h1>",
            "502 Bad Gateway",
        ),
        (b"", "The server answered with status 502 and no explanation."),
        (b"{}", "The server answered with status 502 and no explanation."),
        (b"\xff\x00", "\ufffd\u2400"),
    ],
)
def test_body_that_is_no_error_object(data: bytes, message: str) -> None:
    info = read_error(502, {}, data)

    assert (info.message, info.kind, info.status) == (message, "server", 502)


def test_text_body_is_cut() -> None:
    assert len(read_error(500, {}, b"x" * 10_000).message) == TEXT_CHARACTERS


def test_large_body_is_not_kept() -> None:
    info = read_error(500, {}, body({"error": {"message": "m", "trace": "x" * 100_000}}))

    assert info.upstream is None
    assert info.message == "m"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {
                "Retry-After": "Sat, 21 Nov 2026 10:00:30 GMT",
                "Date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        (
            {
                "Retry-After": "Sat, 21 Nov 2026 09:00:00 GMT",
                "Date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            0.0,
        ),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "1e300"}, 86400.0),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert read_error(429, headers, b"").retry_after_seconds == seconds


def test_retry_after_may_stand_in_the_body() -> None:
    info = read_error(429, {}, body({"error": {"message": "m", "code": "rate"}, "retry_after": 12}))

    assert info.retry_after_seconds == 12


def test_code_and_param_are_kept_as_text() -> None:
    info = error_from({"error": {"message": "m", "code": 400, "param": "input"}})

    assert (info.code, info.param, info.status) == ("400", "input", 400)


@given(
    st.none() | st.integers(100, 999),
    st.dictionaries(st.sampled_from(["Retry-After", "Date", "x"]), st.text()),
    st.binary(),
)
def test_nothing_raises_and_all_can_be_stored(
    status: int | None, headers: dict[str, str], data: bytes
) -> None:
    encode(Error(error=read_error(status, headers, data)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "code",
                    "type",
                    "detail",
                    "metadata",
                    "msg",
                    "retry_after",
                    "param",
                ]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_no_json_raises(value: object) -> None:
    encode(Error(error=read_error(None, {}, json.dumps(value).encode("utf-8", "surrogatepass"))))
