"""Reads the errors of every upstream, from an HTTP answer or a member of the stream, into one
ErrorInfo."""

import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import get_args

import msgspec

from chat.dialects.reading import NotJson, read_json, repair_text, scrub, write_json
from chat.dialects.vendor_errors import (
    detail_text,
    first_of,
    kind_of_vendor,
    stripped,
    unwrapped,
)
from chat.events import ErrorInfo, ErrorKind, ErrorType, Json, JsonObject
from chat.events.translation import gettext_noop

# The limit of a body that is not JSON, and of a message in JSON: enough to recognise it.
TEXT_CHARACTERS = 300
MESSAGE_CHARACTERS = 2000
NO_WORDS = gettext_noop("The server reported an error without a message.")
# A larger error object is not kept beside its message.
_KEPT_CHARACTERS = 16 * 1024

# The first pattern that matches the error's code or type decides, before the status.
_WORDS: tuple[tuple[str, ErrorKind], ...] = (
    (r"policy_violation|bio_policy|data_residency|data_inspection|content_filter", "policy"),
    (r"unsafe_request", "policy"),
    (r"context_length|context_window|context_size|max_context", "context_length"),
    (r"(prompt|tokens?|characters)_too_long", "context_length"),
    (r"billing|payment|arrear|insufficient_balance", "billing"),
    (r"throttling\.(rate|burst)", "rate_limit"),
    (r"quota|credit", "quota"),
    (r"rate_?limit|capacity_exceeded|too_?many_?requests|throttl", "rate_limit"),
    (r"(request|server|concurrency)_limit_exceeded", "rate_limit"),
    (r"overloaded|endpoint_inactive|backend_unavailable|service_unavailable", "overloaded"),
    (r"idle_timeout", "idle_timeout"),
    (r"timeout|timed_out", "timeout"),
    (r"api_?key|authentication|auth_fail|unauthorized|unauthenticated|invalid_token", "auth"),
    (r"permission|forbidden|access_denied", "permission"),
    (r"too_large", "too_large"),
    (r"not_found", "not_found"),
    (r"cancel", "cancelled"),
    (r"json_parse_error|invalid_|bad_request|missing_required", "bad_request"),
    (r"unprocessable|validation|unsupported|not_implemented", "bad_request"),
    (r"server_error|internal|api_error|preempted|connection_error", "server"),
)
# The first pattern that matches the message decides if neither code nor status says the kind. Vendors in
# China answer in Chinese unless asked otherwise.
_SENTENCES: tuple[tuple[str, ErrorKind], ...] = (
    (r"\bbalance\b|arrear|overdue|top up|余额|欠费", "billing"),
    (r"quota|usage limit|daily request limit|out of credits|额度|配额|资源包", "quota"),
    (r"rate limit|request limit|too many requests|concurren|频率|并发", "rate_limit"),
    (r"api[ _-]?key|unauthorized|authenticat|certification|access token|鉴权|密钥", "auth"),
    (r"overloaded|server is busy|unavailable|try again later|繁忙|访问量过大", "overloaded"),
    (r"model\b.* (does not exist|not found)|no such model|模型不存在", "not_found"),
    (r"timed? ?out|超时", "timeout"),
    (
        r"(invalid|missing|unsupported) (param|argument|field|value)|field required|参数",
        "bad_request",
    ),
)
_BY_SENTENCE = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _SENTENCES)
_BY_WORD = tuple((re.compile(pattern), kind) for pattern, kind in _WORDS)
_BY_STATUS: Mapping[int, ErrorKind] = {
    **dict.fromkeys((400, 405, 409, 412, 415, 422), "bad_request"),
    401: "auth",
    402: "billing",
    403: "permission",
    404: "not_found",
    **dict.fromkeys((408, 504), "timeout"),
    413: "too_large",
    429: "rate_limit",
    **dict.fromkeys((500, 502), "server"),
    **dict.fromkeys((503, 529), "overloaded"),
}
# Statuses whose kind the code may refine. Others are more reliable than the code (a 401 whose type
# is ``invalid_request`` is about the key, not the request).
_REFINED_STATUS = frozenset((400, 404, 413, 422, 429, 500, 502, 503))
# The type in LM Studio's vocabulary, and whether the same request may succeed later.
_BY_KIND: Mapping[str, tuple[ErrorType, bool]] = {
    **dict.fromkeys(("auth", "permission", "billing", "policy"), ("invalid_request", False)),
    **dict.fromkeys(("bad_request", "too_large", "not_found"), ("invalid_request", False)),
    "context_length": ("invalid_request", False),
    **dict.fromkeys(("answer_limit", "quota", "cancelled"), ("internal_error", False)),
    **dict.fromkeys(("rate_limit", "overloaded", "server"), ("internal_error", True)),
    **dict.fromkeys(("timeout", "idle_timeout", "network"), ("internal_error", True)),
    "cut": ("unknown", True),
    **dict.fromkeys(("protocol", "unknown"), ("unknown", False)),
}
_LM_STUDIO_TYPES: frozenset[str] = frozenset(get_args(ErrorType))
_CONTEXT_WORDS = re.compile(
    r"context (length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|prompt tokens too long|max input (characters|tokens)",
    re.IGNORECASE,
)
# Some vendors call this an invalid request, or a failure of theirs.
_NO_MONEY = re.compile(
    r"insufficient (account )?(balance|funds|credit)|余额不足|欠费", re.IGNORECASE
)
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_SHOULD_RETRY = {"true": True, "false": False}
_UNESCAPED_ERROR = re.compile(r'\s*\{\s*"error"\s*:\s*"')
_BLANKS = re.compile(r"\s+")


def error_of(kind: ErrorKind, message: str, *, code: str | None = None) -> ErrorInfo:
    """An error that no upstream has described: type and ``retryable`` follow from its kind."""
    wire_type, is_retryable = _BY_KIND[kind]
    return ErrorInfo(type=wire_type, message=message, code=code, kind=kind, retryable=is_retryable)


def read_error(status: int | None, headers: Mapping[str, str], body: bytes) -> ErrorInfo:
    """The error of an HTTP answer. Never raises; the caller has redacted ``body``.

    ``headers`` may be spelled in any case. ``retryable`` says that the same request may
    succeed later, not that it is safe to repeat.
    """
    text = body.decode("utf-8", "replace")
    try:
        value = scrub(read_json(text)[0])
    except NotJson:
        value = None
    if value is None or value == "":
        message = plain_text(text) or _fixed_message(status)
        info = _classify(ErrorInfo(message=message, status=status), "")
    else:
        info = error_from(value, status=status)
    lowered = {name.lower(): content for name, content in headers.items()}
    after = _retry_after(lowered)
    if after is not None:
        info.retry_after_seconds = after
    # The header of OpenAI's and Anthropic's servers is more reliable than any table of statuses.
    info.retryable = _SHOULD_RETRY.get(lowered.get("x-should-retry", ""), info.retryable)
    return info


def error_from(value: Json, *, status: int | None = None) -> ErrorInfo:
    """The error that a JSON value describes: an error object, or something that contains one. A
    numeric ``code`` that is an HTTP status counts as one if the caller has none."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        # Google's.
        value = value[0]
    outer = unwrapped(value) if isinstance(value, dict) else {}
    inner = outer.get("error", outer or value)
    members = inner if isinstance(inner, dict) else {}
    code = first_of(members.get("code"), outer.get("code"))
    if status is None and _is_status(code):
        status = int(str(code))
    wire_type = first_of(
        members.get("type"), None if outer.get("type") == "error" else outer.get("type")
    )
    said = (_message(outer, inner), stripped(members.get("detailed_explanation")))
    info = ErrorInfo(
        message=" ".join(filter(None, said))[:MESSAGE_CHARACTERS] or _fixed_message(status),
        code=None if code is None else str(code),
        param=stripped(members.get("param")) or None,
        status=status,
        retry_after_seconds=_advised_pause(members, outer),
        upstream=value if len(write_json(value)) <= _KEPT_CHARACTERS else None,
    )
    if wire_type in _LM_STUDIO_TYPES:
        info.type = msgspec.convert(wire_type, ErrorType)
    # LM Studio's "unknown" says nothing about the kind.
    words = f"{code or ''} {wire_type or ''}"
    kind = kind_of_vendor(value, info.message)
    return _classify(info, words, keep_type=wire_type in _LM_STUDIO_TYPES, kind=kind)


def unescaped_error(text: str) -> ErrorInfo | None:
    """The error of a payload that is not JSON because its sender did not escape the message. The
    part of the message after a line break is lost, because the framing has cut it off."""
    opening = _UNESCAPED_ERROR.match(text)
    if opening is None:
        return None
    message = text[opening.end() :].rstrip().removesuffix("}").rstrip().removesuffix('"')
    return _classify(ErrorInfo(message=plain_text(message) or _fixed_message(None)), "")


def _classify(
    info: ErrorInfo, words: str, *, keep_type: bool = False, kind: ErrorKind | None = None
) -> ErrorInfo:
    info.kind = kind or _kind(info.status, _in_snake_case(words), info.message)
    if info.kind in ("bad_request", "too_large", "unknown") and _CONTEXT_WORDS.search(info.message):
        info.kind = "context_length"
    known_type, info.retryable = _BY_KIND[info.kind]
    if not keep_type:
        info.type = known_type
        if "model_not_found" in words:
            info.type = "model_not_found"
    return info


def _kind(status: int | None, words: str, message: str) -> ErrorKind:
    by_status = _BY_STATUS.get(status) if status is not None else None
    if by_status is None and status is not None and status >= 400:
        by_status = "server" if status >= 500 else "bad_request"
    may_refine = status is None or status in _REFINED_STATUS
    by_word = _kind_of_words(words) if may_refine else None
    kind = _finer(by_status, by_word)
    if kind in ("bad_request", "server") and _NO_MONEY.search(message):
        return "billing"
    if kind == "unknown":
        return next((k for pattern, k in _BY_SENTENCE if pattern.search(message)), kind)
    return kind


def _in_snake_case(words: str) -> str:
    """Codes such as ``AccessDeniedException`` in the spelling of the others."""
    return _HUMPS.sub("_", words).lower()


def _kind_of_words(words: str) -> ErrorKind | None:
    return next((kind for pattern, kind in _BY_WORD if pattern.search(words)), None)


def _finer(by_status: ErrorKind | None, by_word: ErrorKind | None) -> ErrorKind:
    """A word that only says "bad request" or "server" adds nothing to a status."""
    if by_status is None:
        return by_word or "unknown"
    if by_word is None or by_word in ("bad_request", "server"):
        return by_status
    return by_word


def _message(outer: JsonObject, inner: Json) -> str:
    members = inner if isinstance(inner, dict) else {}
    metadata = members.get("metadata")
    candidates = (
        stripped(members.get("message")),
        stripped(inner),
        stripped(outer.get("message")),
        detail_text(outer.get("detail")),
        stripped(metadata.get("raw")) if isinstance(metadata, dict) else "",
    )
    return next((text for text in candidates if text), "")


def _is_status(code: Json) -> bool:
    return re.fullmatch(r"[45]\d\d", str(code)) is not None


def plain_text(text: str) -> str:
    """The first characters of a body as readable text."""
    bare = html.unescape(_MARKUP.sub(" ", text[: 20 * TEXT_CHARACTERS]))
    return repair_text(_BLANKS.sub(" ", bare).strip()[:TEXT_CHARACTERS])


def _fixed_message(status: int | None) -> str:
    if status is None:
        return NO_WORDS
    return f"The server answered with status {status} without a message."


# --- when to try again ---------------------------------------------------------


def _advised_pause(members: JsonObject, outer: JsonObject) -> float | None:
    """Seconds, from ``retry_after`` or the first delay of a ``retry_strategy``, in the body."""
    seconds = _seconds(first_of(members.get("retry_after"), outer.get("retry_after")))
    if seconds is not None:
        return seconds
    strategies = (members.get("retry_strategy"), outer.get("retry_strategy"))
    strategy = next((each for each in strategies if isinstance(each, dict)), {})
    milliseconds = _seconds(strategy.get("initial_delay_ms"))
    return None if milliseconds is None else milliseconds / 1000


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    return seconds if seconds is not None else _seconds_until(value, headers.get("date", ""))


def _seconds(value: Json) -> float | None:
    """A duration of at least 0 and at most a day, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    # NaN fails both comparisons.
    return min(seconds, 86400.0) if seconds >= 0 else None


def _seconds_until(value: str, now: str) -> float | None:
    """Relative to the answer's own ``Date`` if it has one, because clocks differ."""
    moment = _date(value)
    if moment is None:
        return None
    start = _date(now) or datetime.now(UTC)
    return min(max((moment - start).total_seconds(), 0.0), 86400.0)


def _date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
