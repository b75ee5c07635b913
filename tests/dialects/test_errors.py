"""Error bodies of every known form are read into one structure with a kind."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.errors import (
    TEXT_CHARACTERS,
    error_from,
    error_of,
    read_error,
    unescaped_error,
)
from chat.events import Error, ErrorKind, encode
from tests.dialects.strategies import json_values


def body(value: object) -> bytes:
    return json.dumps(value).encode()


MESSAGES = [
    ({"error": {"message": "a", "type": "t"}}, "a"),
    ({"error": "a"}, "a"),
    ({"message": "a"}, "a"),
    ({"error": {"message": "", "metadata": {"raw": "a"}}}, "a"),
    ({"detail": "a"}, "a"),
    ({"detail": [{"loc": ["x"], "msg": "a", "type": "t"}, {"msg": "b"}]}, "a; b"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "a"}}, "a"),
    ("a", "a"),
]


def test_message_is_found(subtests: pytest.Subtests) -> None:
    for value, message in MESSAGES:
        with subtests.test(value=value):
            assert read_error(400, {}, body(value)).message == message


UNESCAPED = [
    ('{"error": "no "place" here"}', 'no "place" here'),
    ('{"error": "the first of several lines', "the first of several lines"),
    (' { "error" : "a "b" " } ', 'a "b"'),
    ('{"error": ""}', "The server reported an error without a message."),
]


def test_unescaped_message_is_found(subtests: pytest.Subtests) -> None:
    for text, message in UNESCAPED:
        with subtests.test(text=text):
            info = unescaped_error(text)

            assert info is not None
            assert info.message == message


def test_other_text_is_no_unescaped_error(subtests: pytest.Subtests) -> None:
    for text in ["", "error", '{"error": 5', '{"message": "an "error" here"}']:
        with subtests.test(text=text):
            assert unescaped_error(text) is None


KINDS = [
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
]


def test_kind_and_retryable(subtests: pytest.Subtests) -> None:
    for status, code, kind, is_retryable in KINDS:
        with subtests.test(status=status, code=code):
            info = read_error(status, {}, body({"error": {"message": "m", "code": code}}))

            assert (info.kind, info.retryable) == (kind, is_retryable)


def test_context_length_is_recognized_in_the_message() -> None:
    value = {"error": {"message": "This model's maximum context length is 4096 tokens."}}

    assert read_error(400, {}, body(value)).kind == "context_length"


def minimax(code: int, message: str) -> object:
    return {"base_resp": {"status_code": code, "status_msg": message}}


def cloudflare(code: int, message: str) -> object:
    return {"result": None, "success": False, "errors": [{"code": code, "message": message}]}


def baidu(code: int, message: str) -> object:
    return {"error_code": code, "error_msg": message}


def tencent(code: str) -> object:
    return {"Response": {"Error": {"Code": code, "Message": "m"}, "RequestId": "r"}}


# As the vendors document them, or as they stand in reports of their users.
VENDORS = [
    (None, minimax(1000, "unknown error"), "server"),
    (None, minimax(1002, "rate limit"), "rate_limit"),
    (None, minimax(1008, "insufficient balance"), "billing"),
    (None, minimax(1026, "input new_sensitive"), "policy"),
    (None, minimax(1039, "token limit"), "rate_limit"),
    (None, minimax(2013, "invalid params, context window exceeds limit"), "context_length"),
    (None, minimax(2013, "invalid params"), "bad_request"),
    (None, minimax(2049, "invalid api key"), "auth"),
    (None, minimax(2056, "usage limit exceeded"), "quota"),
    (None, minimax(2061, "your plan does not support this model"), "permission"),
    (
        500,
        {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}},
        "billing",
    ),
    (429, {"error": {"type": "insufficient_balance_error", "message": "no (1008)"}}, "billing"),
    (400, {"error": {"message": "n must be at most (1024)"}}, "bad_request"),
    (429, cloudflare(3036, "You have used up your daily free allocation"), "quota"),
    (429, cloudflare(3040, "No more data centers to forward the request to"), "overloaded"),
    (400, cloudflare(5007, "No such model @cf/x or task"), "not_found"),
    (400, cloudflare(5004, "Invalid data type for base64 input"), "bad_request"),
    (403, cloudflare(5018, "The account is not allowed to access this model"), "permission"),
    (None, cloudflare(3006, "Request is too large"), "too_large"),
    (None, cloudflare(10000, "Authentication error"), "auth"),
    (None, baidu(2, "Service temporarily unavailable"), "overloaded"),
    (None, baidu(4, "Open api request limit reached"), "overloaded"),
    (None, baidu(6, "No permission to access data"), "permission"),
    (None, baidu(14, "IAM Certification failed"), "auth"),
    (None, baidu(17, "Open api daily request limit reached"), "quota"),
    (None, baidu(18, "Open api qps request limit reached"), "rate_limit"),
    (None, baidu(110, "Access token invalid or no longer valid"), "auth"),
    (
        400,
        {"error": {"code": "tokens_too_long", "message": "m", "type": "invalid_request_error"}},
        "context_length",
    ),
    (400, {"error": {"code": "image_url_unsafe", "type": "unsafe_request"}}, "policy"),
    (429, {"error": {"code": "rpm_rate_limit_exceeded", "message": "m"}}, "rate_limit"),
    (None, tencent("AuthFailure.SecretIdNotFound"), "auth"),
    (None, tencent("FailedOperation.EngineRequestTimeout"), "timeout"),
    (None, tencent("FailedOperation.EngineServerError"), "server"),
    (None, tencent("FailedOperation.EngineServerLimitExceeded"), "rate_limit"),
    (None, tencent("FailedOperation.FreeResourcePackExhausted"), "quota"),
    (None, tencent("FailedOperation.ServiceNotActivated"), "permission"),
    (None, tencent("FailedOperation.ServiceStopArrears"), "billing"),
    (None, tencent("InternalError"), "server"),
    (None, tencent("InvalidParameterValue"), "bad_request"),
    (None, tencent("InvalidParameterValue.Model"), "not_found"),
    (None, tencent("LimitExceeded"), "quota"),
    (None, tencent("RequestLimitExceeded"), "rate_limit"),
    (None, {"ErrorMsg": {"Msg": "Concurrency limit", "Code": 4001}}, "rate_limit"),
    (None, {"code": "Throttling.RateQuota", "message": "m"}, "rate_limit"),
    (None, {"code": "Throttling.AllocationQuota", "message": "m"}, "quota"),
    (None, {"code": "DataInspectionFailed", "message": "m"}, "policy"),
    (None, {"__type": "AccessDeniedException", "message": "m"}, "permission"),
    (
        None,
        {"error": {"code": "1305", "message": "该模型当前访问量过大，请您稍后再试"}},
        "overloaded",
    ),
    (
        None,
        {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}},
        "billing",
    ),
    (500, {"error": {"message": "The load balancer failed"}}, "server"),
    (None, {"error": {"message": "The load balancer failed"}}, "unknown"),
    (429, [{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], "rate_limit"),
]


def test_kind_of_vendors_codes(subtests: pytest.Subtests) -> None:
    for status, value, kind in VENDORS:
        with subtests.test(status=status, value=value):
            assert read_error(status, {}, body(value)).kind == kind


def test_error_in_a_list_keeps_its_message() -> None:
    value = [{"error": {"code": 400, "message": "Function call is missing a thought_signature"}}]

    assert "thought_signature" in read_error(400, {}, body(value)).message


TYPES = [
    (401, {"error": {"message": "m", "type": "authentication_error"}}, "invalid_request"),
    (404, {"error": {"message": "m", "code": "model_not_found"}}, "model_not_found"),
    (None, {"type": "mcp_connection_error", "message": "m"}, "mcp_connection_error"),
    (500, {"error": {"message": "m", "type": "api_error"}}, "internal_error"),
    (None, {"error": {"message": "m", "type": "odd"}}, "unknown"),
]


def test_type_is_one_of_lm_studios_eight(subtests: pytest.Subtests) -> None:
    for status, value, wire_type in TYPES:
        with subtests.test(value=value):
            assert read_error(status, {}, body(value)).type == wire_type


OTHER_BODIES = [
    (b"upstream connect error", "upstream connect error"),
    (
        b"<html><head><style>p{}</style></head><body><h1>502 Bad&nbsp;Gateway</h1>",
        "502 Bad Gateway",
    ),
    (b"", "The server answered with status 502 without a message."),
    (b"{}", "The server answered with status 502 without a message."),
    (b"\xff\x00", "\ufffd\u2400"),
]


def test_body_without_an_error_object(subtests: pytest.Subtests) -> None:
    for data, message in OTHER_BODIES:
        with subtests.test(data=data):
            info = read_error(502, {}, data)

            assert (info.message, info.kind, info.status) == (message, "server", 502)


def test_text_body_is_truncated() -> None:
    assert len(read_error(500, {}, b"x" * 10_000).message) == TEXT_CHARACTERS


def test_large_body_is_not_kept() -> None:
    info = read_error(500, {}, body({"error": {"message": "m", "trace": "x" * 100_000}}))

    assert info.upstream is None
    assert info.message == "m"


RETRY_AFTER = [
    ({"Retry-After": "7"}, 7.0),
    ({"retry-after": "1.5"}, 1.5),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    (
        {"Retry-After": "Sat, 21 Nov 2026 10:00:30 GMT", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
        30.0,
    ),
    (
        {"Retry-After": "Sat, 21 Nov 2026 09:00:00 GMT", "Date": "Sat, 21 Nov 2026 10:00:00 GMT"},
        0.0,
    ),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "-5"}, None),
    ({"Retry-After": "nan"}, None),
    ({"Retry-After": "1e300"}, 86400.0),
    ({}, None),
]


def test_retry_after_header(subtests: pytest.Subtests) -> None:
    for headers, seconds in RETRY_AFTER:
        with subtests.test(headers=headers):
            assert read_error(429, headers, b"").retry_after_seconds == seconds


def test_retry_after_in_the_body() -> None:
    info = read_error(429, {}, body({"error": {"message": "m", "code": "rate"}, "retry_after": 12}))

    assert info.retry_after_seconds == 12


def test_code_and_param_are_text() -> None:
    info = error_from({"error": {"message": "m", "code": 400, "param": "input"}})

    assert (info.code, info.param, info.status) == ("400", "input", 400)


@given(
    st.none() | st.integers(100, 999),
    st.dictionaries(st.sampled_from(["Retry-After", "Date", "x"]), st.text()),
    st.binary(),
)
def test_any_response_gives_a_storable_error(
    status: int | None, headers: dict[str, str], data: bytes
) -> None:
    encode(Error(error=read_error(status, headers, data)))


MEMBERS = st.sampled_from(
    ["error", "message", "code", "type", "detail", "metadata", "msg", "retry_after", "param"]
)


@given(json_values(st.text(), MEMBERS))
def test_any_json_gives_a_storable_error(value: object) -> None:
    encode(Error(error=read_error(None, {}, json.dumps(value).encode("utf-8", "surrogatepass"))))


def test_type_and_retryable_follow_from_the_kind() -> None:
    for kind in get_args(ErrorKind):
        info = error_of(kind, "Too slow.")

        assert info.kind == kind
    assert error_of("idle_timeout", "x").type == "internal_error"
    assert error_of("cancelled", "x").type == "internal_error"
    assert error_of("network", "x").retryable
