"""Refusals of a program's request, in LM Studio's shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from django.utils.translation import gettext_lazy

from chat.core.errors import ActionRefused, AnswerLive, QueueFull, StorageBusy, StorageFull
from chat.events import ErrorInfo, ErrorKind, ErrorType, JsonObject

# A refused client should wait at least this long, if trying again can help.
RETRY_SECONDS = 5
# A client's own text is repeated in an error up to this length.
QUOTED_LENGTH = 200


class ApiError(Exception):
    """A request that is refused; nothing was changed."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        type: ErrorType = "invalid_request",
        param: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.type = type
        self.param = param
        self.retry_after_seconds = retry_after_seconds

    @property
    def error(self) -> JsonObject:
        return {"type": self.type, "message": str(self), "code": self.code, "param": self.param}

    @property
    def body(self) -> bytes:
        return msgspec.json.encode({"error": self.error})


def invalid(message: str, *, param: str | None, code: str = "invalid_type") -> ApiError:
    return ApiError(400, message, code=code, param=param)


def quoted(text: str) -> str:
    """A client's own text in a response to it."""
    shown = text if len(text) <= QUOTED_LENGTH else f"{text[:QUOTED_LENGTH]}…"
    return shown.encode("utf-8", "replace").decode()


# The text is the same for unknown, expired and revoked tokens and for disabled users, so that
# trying reveals nothing.
UNKNOWN_TOKEN = gettext_lazy(
    "This access token isn’t valid. Create one in Settings, under Access tokens."
)
NOT_FOUND = gettext_lazy("Run not found.")
TOO_MANY_STREAMS = gettext_lazy("You have too many open streams. Close one, then try again.")


def bad_token() -> ApiError:
    return ApiError(401, str(UNKNOWN_TOKEN), code="invalid_api_key")


def no_such_run() -> ApiError:
    return ApiError(404, str(NOT_FOUND), code="job_not_found", type="job_not_found")


_REFUSALS: Mapping[type[ActionRefused], tuple[int, str]] = {
    QueueFull: (429, "too_many_runs"),
    AnswerLive: (409, "response_in_progress"),
    StorageFull: (507, "storage_full"),
    StorageBusy: (503, "storage_busy"),
}


def of_status(status: int, message: str, *, code: str) -> ApiError:
    return ApiError(
        status,
        message,
        code=code,
        type="internal_error" if status >= 500 else "invalid_request",
        retry_after_seconds=RETRY_SECONDS if status in (429, 503) else None,
    )


def of_refusal(refusal: ActionRefused) -> ApiError:
    """The refusal of an action; its text is written for the client."""
    status, code = _REFUSALS.get(type(refusal), (400, "refused"))
    return of_status(status, str(refusal), code=code)


# The status of an answer without a stream that failed at its server. If the server refuses our key,
# that is not the client's fault.
_STATUS_OF_KIND: Mapping[ErrorKind, int] = {
    "bad_request": 400,
    "context_length": 400,
    "not_found": 404,
    "too_large": 413,
    "rate_limit": 429,
    "quota": 429,
    "overloaded": 503,
    "timeout": 504,
    "idle_timeout": 504,
}
BAD_GATEWAY = 502


def status_of(error: ErrorInfo) -> int:
    return _STATUS_OF_KIND.get(error.kind, BAD_GATEWAY)
