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
    (r"policy_violation|bio_policy|data_residency|datainspection", "policy"),
    (r"context_length|context_window|context_size|max_context|prompt_too_long", "context_length"),
    (r"insufficient_quota|quota|credit|insufficient_balance", "quota"),
    (r"billing|payment|arrear", "billing"),
    (r"rate_?limit|capacity_exceeded|too_?many_?requests|throttl", "rate_limit"),
    (r"overloaded|endpoint_inactive|backend_unavailable|service_unavailable", "overloaded"),
    (r"idle_timeout", "idle_timeout"),
    (r"timeout|timed_out", "timeout"),
    (r"api_?key|authentication|unauthorized|unauthenticated|invalid_token", "auth"),
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
    (r"balance|arrear|overdue|top up|余额|欠费", "billing"),
    (r"quota|usage limit|out of credits|额度|配额", "quota"),
    (r"rate limit|too many requests|concurren|频率|并发", "rate_limit"),
    (r"api[ _-]?key|unauthorized|authenticat|access token|鉴权|密钥", "auth"),
    (r"overloaded|server is busy|try again later|繁忙", "overloaded"),
    (r"model\b.* (does not exist|not found)|模型不存在", "not_found"),
    (r"timed? ?out|超时", "timeout"),
    (
        r"(invalid|missing|unsupported) (param|argument|field|value)|field required|参数",
        "bad_request",
    ),
)
_BY_SENTENCE = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _SENTENCES)
# MiniMax answers with status 200 and a number of its own.
_BASE_CODES: Mapping[int, ErrorKind] = {
    1001: "timeout",
    1002: "rate_limit",
    1004: "auth",
    1008: "billing",
    1024: "server",
    1026: "policy",
    1027: "policy",
    1033: "server",
    1039: "context_length",
    1041: "rate_limit",
    2013: "bad_request",
    2045: "rate_limit",
    2049: "auth",
    2056: "quota",
}
_BY_WORD = tuple((re.compile(pattern), kind) for pattern, kind in _WORDS)
_BY_STATUS: Mapping[int, ErrorKind] = {
    400: "bad_request",
    401: "auth",
    402: "billing",
    403: "permission",
    404: "not_found",
    405: "bad_request",
    408: "timeout",
    409: "bad_request",
    412: "bad_request",
    413: "too_large",
    415: "bad_request",
    422: "bad_request",
    429: "rate_limit",
    500: "server",
    502: "server",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
# Kinds that the code may refine. Otherwise the status is more reliable (a 401 whose type is
# ``invalid_request`` is about the key, not the request).
_REFINED_STATUS = frozenset((400, 404, 413, 422, 429, 500, 502, 503))
# The type in LM Studio's vocabulary, and whether the same request may succeed later.
_BY_KIND: Mapping[ErrorKind, tuple[ErrorType, bool]] = {
    "auth": ("invalid_request", False),
    "permission": ("invalid_request", False),
    "billing": ("invalid_request", False),
    "bad_request": ("invalid_request", False),
    "policy": ("invalid_request", False),
    "too_large": ("invalid_request", False),
    "answer_limit": ("internal_error", False),
    "context_length": ("invalid_request", False),
    "not_found": ("invalid_request", False),
    "rate_limit": ("internal_error", True),
    "quota": ("internal_error", False),
    "overloaded": ("internal_error", True),
    "timeout": ("internal_error", True),
    "idle_timeout": ("internal_error", True),
    "network": ("internal_error", True),
    "cancelled": ("internal_error", False),
    "server": ("internal_error", True),
    "cut": ("unknown", True),
    "protocol": ("unknown", False),
    "unknown": ("unknown", False),
}
_LM_STUDIO_TYPES: frozenset[str] = frozenset(get_args(ErrorType))
_CONTEXT_WORDS = re.compile(
    r"context (length|window|size)|maximum context|too many tokens|prompt is too long",
    re.IGNORECASE,
)
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
    base = _base_response(value)
    outer = unwrapped(value) if isinstance(value, dict) else {}
    inner = outer.get("error", outer or value)
    members = inner if isinstance(inner, dict) else {}
    code = _first(members.get("code"), outer.get("code"))
    if status is None and _is_status(code):
        status = int(str(code))
    wire_type = _first(
        members.get("type"), None if outer.get("type") == "error" else outer.get("type")
    )
    said = (_message(outer, inner), _text(members.get("detailed_explanation")))
    info = ErrorInfo(
        message=" ".join(filter(None, said))[:MESSAGE_CHARACTERS] or _fixed_message(status),
        code=None if code is None else str(code),
        param=_text(members.get("param")) or None,
        status=status,
        retry_after_seconds=_advised_pause(members, outer),
        upstream=value if len(write_json(value)) <= _KEPT_CHARACTERS else None,
    )
    if wire_type in _LM_STUDIO_TYPES:
        info.type = msgspec.convert(wire_type, ErrorType)
    # LM Studio's "unknown" says nothing about the kind.
    words = f"{code or ''} {wire_type or ''}"
    kind = _BASE_CODES.get(base["status_code"]) if base else None
    return _classify(info, words, keep_type=wire_type in _LM_STUDIO_TYPES, kind=kind)


# --- errors without a member ``error`` -------------------------------------------------

# Names of the code and of the message in the forms of vendors: DashScope and SiliconFlow, Baidu, AWS,
# Java gateways, Kong and FastAPI.
_CODE_NAMES = ("code", "error_code", "errorCode", "__type")
_MESSAGE_NAMES = ("message", "msg", "error_msg", "errorMessage", "error_message", "Message")
_GOOD_CODES = frozenset(("", "0", "200", "ok", "success"))
_BAD_STATUSES = frozenset(("error", "fail", "failed", "failure"))


def is_bare_error(data: JsonObject) -> bool:
    """An object that is no event of its dialect is an error if it says that something failed."""
    if _base_response(data) or unwrapped(data).get("error"):
        return True
    if "type" in data:
        # An event that nobody here knows; it may only tell about a failure.
        return False
    code = _first(*(data.get(name) for name in _CODE_NAMES))
    message = _first(*(data.get(name) for name in _MESSAGE_NAMES))
    if code is not None and str(code).lower() not in _GOOD_CODES and isinstance(message, str):
        return True
    is_said = data.get("success") is False or str(data.get("status")).lower() in _BAD_STATUSES
    return bool(_detail(data.get("detail"))) or (is_said and isinstance(message, str))


def unwrapped(value: JsonObject) -> JsonObject:
    """An error in the form of a vendor, with the members that others use."""
    base = _base_response(value)
    if base:
        return {"error": {"message": base.get("status_msg"), "code": base["status_code"]}}
    if value.get("error"):
        return value
    inner = value.get("Response")
    nested = inner.get("Error") if isinstance(inner, dict) else None
    errors = value.get("errors")
    if isinstance(errors, list) and errors:
        nested = errors[0] if isinstance(errors[0], dict) else {"message": _text(errors[0])}
    if isinstance(nested, dict):
        named = {"code": nested.get("Code"), "message": nested.get("Message")}
        return {"error": {**{k: v for k, v in named.items() if v}, **nested}}
    code = _first(*(value.get(name) for name in _CODE_NAMES))
    message = _first(*(value.get(name) for name in _MESSAGE_NAMES))
    added = {"code": code, "message": message}
    return {**value, **{name: found for name, found in added.items() if found is not None}}


def _base_response(value: Json) -> JsonObject | None:
    """MiniMax's member that says how the request went, if it failed."""
    base = value.get("base_resp") if isinstance(value, dict) else None
    code = base.get("status_code") if isinstance(base, dict) else None
    return base if isinstance(code, int) and code else None


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
    info.kind = kind or _kind(info.status, words.lower(), info.message)
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
    if kind in ("bad_request", "too_large", "unknown") and _CONTEXT_WORDS.search(message):
        return "context_length"
    if kind == "unknown":
        return next((k for pattern, k in _BY_SENTENCE if pattern.search(message)), kind)
    return kind


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
        _text(members.get("message")),
        _text(inner),
        _text(outer.get("message")),
        _detail(outer.get("detail")),
        _text(metadata.get("raw")) if isinstance(metadata, dict) else "",
    )
    return next((text for text in candidates if text), "")


def _detail(value: Json) -> str:
    if isinstance(value, list):
        messages = (_text(entry.get("msg")) for entry in value if isinstance(entry, dict))
        return "; ".join(message for message in messages if message)
    return _text(value)


def _text(value: Json) -> str:
    return value.strip() if isinstance(value, str) else ""


def _first(*values: Json) -> Json:
    """The first value that is a text or a number."""
    return next(
        (value for value in values if isinstance(value, str | int | float) and value != ""), None
    )


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
    seconds = _seconds(_first(members.get("retry_after"), outer.get("retry_after")))
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
