"""Errors in the forms of vendors: without a member ``error``, or with numbers that say their kind."""

import re
from collections.abc import Mapping

from chat.events import ErrorKind, Json, JsonObject

# Names of the code and of the message: DashScope and SiliconFlow, Baidu, AWS, Java gateways, Kong and
# FastAPI.
_CODE_NAMES = ("code", "error_code", "errorCode", "__type")
_MESSAGE_NAMES = ("message", "msg", "error_msg", "errorMessage", "error_message", "Message")
_GOOD_CODES = frozenset(("", "0", "200", "ok", "success"))
_BAD_STATUSES = frozenset(("error", "fail", "failed", "failure"))

# The numbers of MiniMax, in ``base_resp`` or at the end of a message.
_MINIMAX: Mapping[int, ErrorKind] = {
    **dict.fromkeys((1000, 1024, 1033), "server"),
    1001: "timeout",
    # Requests, tokens or connections in a time, or a sudden growth.
    **dict.fromkeys((1002, 1039, 1041, 2045), "rate_limit"),
    **dict.fromkeys((1004, 2049), "auth"),
    1008: "billing",
    **dict.fromkeys((1026, 1027), "policy"),
    **dict.fromkeys((1028, 1030, 2056), "quota"),
    **dict.fromkeys((1042, 2013), "bad_request"),
    2061: "permission",
}
# Cloudflare's, with the status 400, 429 or 200.
_CLOUDFLARE: Mapping[int, ErrorKind] = {
    **dict.fromkeys((3003, 5004, 5005, 5006, 5019), "bad_request"),
    3006: "too_large",
    3007: "timeout",
    3008: "cancelled",
    **dict.fromkeys((3023, 3041, 5016, 5018), "permission"),
    3036: "quota",
    **dict.fromkeys((3040, 7009), "overloaded"),
    **dict.fromkeys((3042, 5007, 7003), "not_found"),
    10000: "auth",
}
# Baidu's, with the status 200.
_BAIDU: Mapping[int, ErrorKind] = {
    **dict.fromkeys((1, 15, 336000), "server"),
    **dict.fromkeys((2, 4, 336100), "overloaded"),
    3: "not_found",
    6: "permission",
    **dict.fromkeys((13, 14, 100, 110, 111), "auth"),
    **dict.fromkeys((17, 19), "quota"),
    **dict.fromkeys((18, 336501, 336502), "rate_limit"),
    **dict.fromkeys((336001, 336002, 336003), "bad_request"),
    336103: "context_length",
}
# Tencent's, where the words of the code do not say it.
_TENCENT: Mapping[str, ErrorKind] = {
    "LimitExceeded": "quota",
    "FailedOperation.FreeResourcePackExhausted": "quota",
    "FailedOperation.ResourcePackExhausted": "quota",
    "FailedOperation.ServiceNotActivated": "permission",
    "FailedOperation.ServiceStop": "permission",
    "InvalidParameterValue.Model": "not_found",
    "UnsupportedOperation.NonWhitelistAccount": "permission",
}
_NUMBER_AT_THE_END = re.compile(r"\((\d{4})\)\s*$")


def is_bare_error(data: JsonObject) -> bool:
    """An object that is no event of its dialect is an error if it says that something failed."""
    if _base_response(data) or unwrapped(data).get("error"):
        return True
    if "type" in data:
        # An event that nobody here knows; it may only tell about a failure.
        return False
    code = first_of(*(data.get(name) for name in _CODE_NAMES))
    message = first_of(*(data.get(name) for name in _MESSAGE_NAMES))
    if code is not None and str(code).lower() not in _GOOD_CODES and isinstance(message, str):
        return True
    is_said = data.get("success") is False or str(data.get("status")).lower() in _BAD_STATUSES
    return bool(detail_text(data.get("detail"))) or (is_said and isinstance(message, str))


def unwrapped(value: JsonObject) -> JsonObject:
    """An error in the form of a vendor, with the members that others use."""
    base = _base_response(value)
    if base:
        return {"error": {"message": base.get("status_msg"), "code": base["status_code"]}}
    if value.get("error"):
        return value
    nested = _nested(value)
    if nested is not None:
        code = first_of(nested.get("Code"), nested.get("code"))
        said = first_of(*(nested.get(name) for name in ("Message", "Msg", "message")))
        named = {"code": code, "message": said}
        return {"error": {**nested, **{k: v for k, v in named.items() if v is not None}}}
    code = first_of(*(value.get(name) for name in _CODE_NAMES))
    message = first_of(*(value.get(name) for name in _MESSAGE_NAMES))
    added = {"code": code, "message": message}
    return {**value, **{name: found for name, found in added.items() if found is not None}}


def kind_of_vendor(value: Json, message: str) -> ErrorKind | None:
    """The kind that a vendor's own code says."""
    at_the_end = _NUMBER_AT_THE_END.search(message)
    kind = _MINIMAX.get(int(at_the_end[1])) if at_the_end else None
    # 1000 and 1024 are numbers of other things, too.
    if kind not in (None, "server"):
        return kind
    if not isinstance(value, dict):
        return None
    base = _base_response(value)
    if base:
        return _MINIMAX.get(base["status_code"])
    nested = _nested(value) or {}
    if "Response" in value:
        return _TENCENT.get(str(nested.get("Code")))
    if "errors" in value and "success" in value:
        return _in(_CLOUDFLARE, nested.get("code"))
    return _in(_BAIDU, value.get("error_code")) if "error_msg" in value else None


def _in(table: Mapping[int, ErrorKind], code: Json) -> ErrorKind | None:
    return table.get(int(code)) if re.fullmatch(r"\d{1,9}", str(code)) else None


def _base_response(value: Json) -> JsonObject | None:
    """MiniMax's member that says how the request went, if it failed."""
    base = value.get("base_resp") if isinstance(value, dict) else None
    code = base.get("status_code") if isinstance(base, dict) else None
    return base if isinstance(code, int) and code else None


def _nested(value: JsonObject) -> JsonObject | None:
    """The error of Tencent's two forms, or the first of Cloudflare's list."""
    errors = value.get("errors")
    if isinstance(errors, list) and errors:
        return errors[0] if isinstance(errors[0], dict) else {"message": stripped(errors[0])}
    response = value.get("Response")
    inner = response if isinstance(response, dict) else value
    for name in ("Error", "ErrorMsg"):
        nested = inner.get(name)
        if isinstance(nested, dict) and nested:
            return nested
    return None


def detail_text(value: Json) -> str:
    if isinstance(value, list):
        messages = (stripped(entry.get("msg")) for entry in value if isinstance(entry, dict))
        return "; ".join(message for message in messages if message)
    return stripped(value)


def stripped(value: Json) -> str:
    return value.strip() if isinstance(value, str) else ""


def first_of(*values: Json) -> Json:
    """The first value that is a text or a number."""
    return next(
        (value for value in values if isinstance(value, str | int | float) and value != ""), None
    )
