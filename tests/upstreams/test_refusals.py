"""Every documented error before the stream, over a real socket: what is understood of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args

import httpx
import pytest

from chat.dialects.base import UpstreamRequest
from chat.events import ErrorKind
from chat.rendering.messages import ERRORS, error_notice
from chat.upstreams.answer_facts import MAX_HEADERS, MAX_VALUE_CHARACTERS, facts_of
from chat.upstreams.client import UpstreamLimits, stream
from chat.upstreams.failures import UpstreamRefused
from chat.upstreams.redaction import Redactor
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import answer
from tests.upstreams.conftest import KEY

Refuse = Callable[..., Awaitable[UpstreamRefused]]


@pytest.fixture
def refuse(wire_client: httpx.AsyncClient, fake: FakeUpstream) -> Refuse:
    """Sends a request to a server that answers with this error; what the client raises."""

    async def send(
        body: object, *, status: int, headers: Mapping[str, str] | None = None
    ) -> UpstreamRefused:
        fake.script(answer(body, status=status, headers=headers))
        with pytest.raises(UpstreamRefused) as caught:
            async with stream(
                wire_client,
                base_url=fake.url,
                request=UpstreamRequest(path="/v1/chat/completions", body=b"{}"),
                headers={"Authorization": f"Bearer {KEY}"},
                limits=UpstreamLimits(),
                redactor=Redactor([KEY]),
            ):
                pass
        return caught.value

    return send


@dataclass(frozen=True)
class Row:
    """A refusal as a server sends it, and what is made of it."""

    status: int
    body: object
    kind: str
    message: str
    is_retryable: bool = False
    seconds: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def openai(code: str | None, *, kind: str = "invalid_request_error", **members: object) -> object:
    return {"error": {"message": "So.", "type": kind, "param": None, "code": code, **members}}


def messages(kind: str, **members: object) -> object:
    return {"type": "error", "error": {"type": kind, "message": "So."}, "request_id": "req_1"}


STRATEGY = {"type": "exponential", "initial_delay_ms": 1500, "max_delay_ms": 9000, "multiplier": 2}

ROWS = {
    # OpenAI's layout, and the table of statuses
    "400": Row(400, openai(None), "bad_request", "So."),
    "400 invalid_request": Row(400, openai("invalid_request_error"), "bad_request", "So."),
    "400 json_parse_error": Row(400, openai("json_parse_error"), "bad_request", "So."),
    "400 context": Row(400, openai("context_length_exceeded"), "context_length", "So."),
    "400 context in words": Row(
        400,
        {"error": {"message": "This model's maximum context length is 8192 tokens."}},
        "context_length",
        "This model's maximum context length is 8192 tokens.",
    ),
    "400 model": Row(400, openai("model_not_found"), "not_found", "So."),
    "401": Row(401, openai("invalid_api_key"), "auth", "So."),
    "402": Row(402, openai(None), "billing", "So."),
    "403": Row(403, openai(None), "permission", "So."),
    "404": Row(404, openai(None), "not_found", "So."),
    "404 model": Row(404, openai("model_not_found"), "not_found", "So."),
    "405": Row(405, openai(None), "bad_request", "So."),
    "408": Row(408, openai(None), "timeout", "So.", True),
    "409": Row(409, openai(None), "bad_request", "So."),
    "412": Row(412, openai(None), "bad_request", "So."),
    "413": Row(413, openai(None), "too_large", "So."),
    "422": Row(422, openai(None), "bad_request", "So."),
    "429": Row(429, openai("rate_limit_exceeded"), "rate_limit", "So.", True),
    "429 capacity": Row(429, openai("capacity_exceeded"), "rate_limit", "So.", True),
    "429 quota": Row(429, openai("insufficient_quota"), "quota", "So."),
    "429 credit": Row(429, openai("credit_exhausted"), "quota", "So."),
    "500": Row(500, openai(None, kind="server_error"), "server", "So.", True),
    "502": Row(502, openai(None), "server", "So.", True),
    "503": Row(503, openai(None), "overloaded", "So.", True),
    "503 endpoint": Row(503, openai("endpoint_inactive"), "overloaded", "So.", True),
    "504": Row(504, openai("timeout_error"), "timeout", "So.", True),
    # the Messages layout
    "invalid_request_error": Row(400, messages("invalid_request_error"), "bad_request", "So."),
    "authentication_error": Row(401, messages("authentication_error"), "auth", "So."),
    "billing_error": Row(402, messages("billing_error"), "billing", "So."),
    "permission_error": Row(403, messages("permission_error"), "permission", "So."),
    "not_found_error": Row(404, messages("not_found_error"), "not_found", "So."),
    "request_too_large": Row(413, messages("request_too_large"), "too_large", "So."),
    "rate_limit_error": Row(
        429, messages("rate_limit_error"), "rate_limit", "So.", True, 12, {"retry-after": "12"}
    ),
    "api_error": Row(500, messages("api_error"), "server", "So.", True),
    "timeout_error": Row(504, messages("timeout_error"), "timeout", "So.", True),
    "overloaded_error": Row(529, messages("overloaded_error"), "overloaded", "So.", True),
    "422 without request_id": Row(
        422, {"type": "error", "error": {"message": "So."}}, "bad_request", "So."
    ),
    # LM Studio, native and compatible
    "invalid_union": Row(
        400,
        {"error": {"type": "invalid_request", "message": "So.", "code": "invalid_union"}},
        "bad_request",
        "So.",
    ),
    "bad token": Row(
        401,
        {"error": {"message": f"Malformed token {KEY[:12]}", "code": "invalid_api_key"}},
        "auth",
        "Malformed token [redacted]",
    ),
    "text as error": Row(400, {"error": "No model is loaded"}, "bad_request", "No model is loaded"),
    # Fireworks
    "422 detail": Row(
        422,
        {"detail": [{"loc": ["body"], "msg": "field required", "type": "x"}, {"msg": "too big"}]},
        "bad_request",
        "field required; too big",
    ),
    "403 text": Row(403, {"error": "unauthorized"}, "permission", "unauthorized"),
    "shedding load": Row(503, {"error": {"message": "So."}}, "overloaded", "So.", True),
    # OpenRouter
    "429 number": Row(
        429,
        {"error": {"code": 429, "message": "So.", "metadata": {"provider_name": "p"}}},
        "rate_limit",
        "So.",
        True,
        7,
        {"Retry-After": "7"},
    ),
    "502 raw only": Row(
        502,
        {"error": {"code": 502, "message": "", "metadata": {"raw": "upstream died"}}},
        "server",
        "upstream died",
        True,
    ),
    # Xerotier
    "authentication": Row(401, openai("authentication_error"), "auth", "So."),
    "project": Row(404, openai("project_not_found"), "not_found", "So."),
    "endpoint": Row(404, openai("endpoint_not_found"), "not_found", "So."),
    "capacity with strategy": Row(
        429,
        openai("capacity_exceeded", retry_after=4, retry_strategy=STRATEGY),
        "rate_limit",
        "So.",
        True,
        4,
    ),
    "strategy alone": Row(
        429, openai("capacity_exceeded", retry_strategy=STRATEGY), "rate_limit", "So.", True, 1.5
    ),
    "strategy outside": Row(
        429,
        {"error": {"message": "So.", "code": "capacity_exceeded"}, "retry_strategy": STRATEGY},
        "rate_limit",
        "So.",
        True,
        1.5,
    ),
    "header before body": Row(
        429,
        openai("capacity_exceeded", retry_after=4),
        "rate_limit",
        "So.",
        True,
        2,
        {"Retry-After": "2"},
    ),
    "quota_exceeded": Row(429, openai("quota_exceeded", retry_after=60), "quota", "So.", False, 60),
    "endpoint_inactive": Row(503, openai("endpoint_inactive"), "overloaded", "So.", True),
    # not JSON
    "plain text": Row(500, "the tubes are full", "server", "the tubes are full", True),
    "page": Row(
        502, "<html><h1>502</h1><p>Bad  gateway</p></html>", "server", "502 Bad gateway", True
    ),
    "long text": Row(500, "x" * 5000, "server", "x" * 300, True),
    "nothing": Row(
        418, b"", "bad_request", "The server answered with status 418 without a message."
    ),
    # when to try again
    "decimals": Row(429, openai(None), "rate_limit", "So.", True, 1.5, {"Retry-After": "1.5"}),
    "milliseconds": Row(
        429,
        openai(None),
        "rate_limit",
        "So.",
        True,
        0.25,
        {"retry-after-ms": "250", "Retry-After": "9"},
    ),
    "a date": Row(
        503,
        openai(None),
        "overloaded",
        "So.",
        True,
        30,
        {
            "Date": "Sat, 21 Nov 2026 10:00:00 GMT",
            "Retry-After": "Sat, 21 Nov 2026 10:00:30 GMT",
        },
    ),
    "should not retry": Row(
        429, openai(None), "rate_limit", "So.", False, None, {"x-should-retry": "false"}
    ),
    "should retry": Row(
        409, openai(None), "bad_request", "So.", True, None, {"x-should-retry": "true"}
    ),
}


async def test_documented_error_is_understood(
    refuse: Refuse, fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for name, row in ROWS.items():
        with subtests.test(msg=name):
            posts = fake.posts
            refusal = await refuse(row.body, status=row.status, headers=row.headers)

            info = refusal.info
            assert (info.kind, info.message) == (row.kind, row.message)
            assert (info.retryable, info.retry_after_seconds) == (row.is_retryable, row.seconds)
            assert info.status == row.status
            assert KEY[:8] not in repr(info)
            assert fake.posts == posts + 1


async def test_only_a_server_that_has_not_begun_may_be_asked_again(
    refuse: Refuse, subtests: pytest.Subtests
) -> None:
    for status in (400, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504, 529):
        with subtests.test(msg=str(status)):
            refusal = await refuse(openai(None), status=status)

            assert refusal.never_accepted is (status in (429, 503))


# API: (headers, what is kept of them)
HEADERS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "OpenAI": (
        {
            "X-RateLimit-Limit-Requests": "60",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-tokens": "12ms",
            "x-request-id": "req_9",
        },
        {
            "request_id": "req_9",
            "rate_limit": {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "12ms",
            },
        },
    ),
    "Anthropic": (
        {"anthropic-ratelimit-requests-reset": "2026-11-21T10:00:00Z", "request-id": "req_8"},
        {
            "request_id": "req_8",
            "rate_limit": {"anthropic-ratelimit-requests-reset": "2026-11-21T10:00:00Z"},
        },
    ),
    "Fireworks": (
        {"X-Ratelimit-Limit-Tokens-Generated": "5000"},
        {"rate_limit": {"x-ratelimit-limit-tokens-generated": "5000"}},
    ),
    "Xerotier": (
        {"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"},
        {"rate_limit": {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0"}},
    ),
    "OpenRouter": ({"X-Generation-Id": "gen-1"}, {"generation_id": "gen-1"}),
    "nothing": ({"Server": "demo"}, {}),
}


async def test_facts_in_the_headers_are_kept(refuse: Refuse, subtests: pytest.Subtests) -> None:
    for name, (headers, facts) in HEADERS.items():
        with subtests.test(msg=name):
            refusal = await refuse(openai(None), status=429, headers=headers)

            assert refusal.facts == facts


async def test_key_in_a_header_is_not_kept(refuse: Refuse) -> None:
    refusal = await refuse(openai(None), status=429, headers={"x-request-id": f"for {KEY}"})

    assert KEY not in json.dumps(refusal.facts)


def test_kept_headers_are_bounded() -> None:
    flood = {f"x-ratelimit-{number}": "x" * 5000 for number in range(500)}

    kept = facts_of(flood)["rate_limit"]

    assert len(kept) == MAX_HEADERS
    assert max(map(len, kept.values())) == MAX_VALUE_CHARACTERS


# --- the words for people ------------------------------------------------------------------


def test_every_error_kind_has_its_own_title_and_advice() -> None:
    assert set(ERRORS) == set(get_args(ErrorKind))
    titles = [title for title, _ in ERRORS.values()]
    advice = [words for _, words in ERRORS.values()]
    assert len(set(titles)) == len(titles)
    assert len(set(advice)) == len(advice)
    assert all(len(words) > 15 for words in (*titles, *advice))
    assert all(words.endswith(".") for words in advice)
    assert not any(title.endswith(".") for title in titles)


async def test_notice_says_how_long_to_wait(refuse: Refuse) -> None:
    busy = await refuse(openai(None), status=429, headers={"retry-after": "90"})
    spent = await refuse(openai("quota_exceeded", retry_after=90), status=429)

    assert "Wait 1 min 30 s" in error_notice(busy.info).advice
    assert error_notice(spent.info).advice == ERRORS["quota"][1]
