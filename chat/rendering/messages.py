"""Messages about the end of an answer and about errors: what happened, what was kept, what to do."""

from dataclasses import dataclass

from django.utils.safestring import SafeString

from chat.events import ErrorInfo, Result
from chat.rendering.components import Card, fill, name_of, safe
from chat.rendering.figures import duration, milliseconds_of
from chat.rendering.safety import reveal, storable

# Error kind -> what happened, what to do.
ERRORS: dict[str, tuple[str, str]] = {
    "auth": (
        "The server refused the key.",
        "An administrator can enter the key again in Settings → Servers, and test it there.",
    ),
    "permission": (
        "The key is not allowed to do this.",
        "Choose another model; an administrator can check at the server what the key permits.",
    ),
    "billing": (
        "The account of this server has no credit.",
        "An administrator can look at the account; another server may answer meanwhile.",
    ),
    "bad_request": (
        "The server did not accept the request.",
        "Its own words name the reason: change the message or the parameters.",
    ),
    "not_found": (
        "The server does not have this model.",
        "Choose another model; an administrator can load the server's list again.",
    ),
    "too_large": (
        "This is larger than the server accepts, or than is read of it.",
        "Shorten the message, or attach less.",
    ),
    "context_length": (
        "The conversation is longer than this model can read.",
        "Start a new conversation, shorten the message, or choose a model with a larger context.",
    ),
    "rate_limit": (
        "The server is asked too often at the moment.",
        "Wait a little and try again.",
    ),
    "quota": (
        "The quota of this server is used up.",
        "Another server may answer meanwhile; an administrator can raise the quota there.",
    ),
    "overloaded": (
        "The server is overloaded.",
        "Try again in a minute, or choose another server.",
    ),
    "timeout": (
        "The server did not answer in time.",
        "Try again; a model that is being loaded answers faster the second time.",
    ),
    "idle_timeout": (
        "The server stopped sending.",
        "Try again; if it happens often, an administrator can look at the server.",
    ),
    "network": (
        "The server cannot be reached.",
        "Try again; if it stays so, an administrator can test the connection.",
    ),
    "cut": (
        "The connection broke off before the answer was complete.",
        "Try again for a whole answer.",
    ),
    "protocol": (
        "The server sent something that is not an answer.",
        "An administrator can test the connection; the address or the dialect may be wrong.",
    ),
    "cancelled": (
        "The server cancelled the answer.",
        "Somebody may have ended it there. Try again.",
    ),
    "server": (
        "The server failed while it worked on this.",
        "Try again; if it fails again, choose another model or server.",
    ),
    "unknown": (
        "The server reported an error that is not known here.",
        "Its own words may help; try again, or show them to an administrator.",
    ),
}

# Event type -> label in the run's details.
EVENTS: dict[str, str] = {
    "chat.start": "Beginning",
    "model_load.start": "Loading begun",
    "model_load.progress": "Loading, progress",
    "model_load.end": "Loading done",
    "prompt_processing.start": "Reading begun",
    "prompt_processing.progress": "Reading, progress",
    "prompt_processing.end": "Reading done",
    "reasoning.start": "Thinking begun",
    "reasoning.delta": "Pieces of thinking",
    "reasoning.end": "Thinking done",
    "tool_call.start": "Tool calls",
    "tool_call.delta": "Pieces of tool arguments",
    "tool_call.arguments": "Tool arguments",
    "tool_call.success": "Tool results",
    "tool_call.failure": "Tool failures",
    "message.start": "Text begun",
    "message.delta": "Pieces of text",
    "message.end": "Text done",
    "error": "Errors",
    "chat.end": "End",
    "refusal.delta": "Pieces of a refusal",
    "replay.data": "Material for the next request",
    "citation.add": "Sources",
    "logprobs.add": "Probabilities",
    "usage.update": "Figures",
    "media.update": "Media",
    "artifact.update": "Artifacts",
    "mockup.update": "Mockups",
    "ask.question": "Questions",
    "activity.step": "Steps",
    "context.fork": "Branches",
    "meta.update": "Facts about the answer",
    "vendor.raw": "The server’s own events",
}


def error_title(kind: str) -> str:
    """What happened, in a sentence."""
    return ERRORS.get(kind, ERRORS["unknown"])[0]


@dataclass(frozen=True, slots=True)
class Notice:
    """One card: its tone is ``bad``, ``wait`` or ``calm``."""

    icon: str
    tone: str
    title: str
    kept: str
    advice: str


_INCOMPLETE: dict[str, tuple[str, str]] = {
    "length": (
        "The answer reached the length limit.",
        "Ask it to go on, or raise the limit and try again.",
    ),
    "content_filter": (
        "The server's content filter ended the answer.",
        "Rephrase the message and try again.",
    ),
    "refusal": ("The model declined to go on.", "Rephrase the message and try again."),
    "pause": ("The model paused.", "Ask it to go on."),
    "compaction": ("The server condensed the conversation and paused.", "Ask it to go on."),
}

_STATUSES: dict[str, tuple[str, str, str, str]] = {
    "waiting": (
        "hourglass",
        "wait",
        "The answer waits.",
        "It goes on when the open question or tool call is answered.",
    ),
    "incomplete": ("triangle-alert", "wait", "The answer is not complete.", "Ask it to go on."),
    "stopped": ("circle-stop", "calm", "Stopped.", "Try again for a new answer."),
    "failed": ("triangle-alert", "bad", "The answer failed.", "Try again."),
    "cut": (
        "unplug",
        "bad",
        "The connection broke off before the answer was complete.",
        "Try again.",
    ),
    "interrupted": (
        "unplug",
        "bad",
        "The answer was interrupted because our server stopped.",
        "Try again for a new answer.",
    ),
}
_UNKNOWN_STATUS = ("triangle-alert", "bad", "The answer ended in an unknown way.", "Try again.")


def _kept(has_output: bool) -> str:
    return "Everything above was kept." if has_output else "Nothing had arrived yet."


def error_notice(error: ErrorInfo) -> Notice:
    title, advice = ERRORS.get(error.kind, ERRORS["unknown"])
    if error.retry_after_seconds and error.retryable:
        advice = f"Wait {duration(milliseconds_of(error.retry_after_seconds))} and try again."
    return Notice("triangle-alert", "bad", title, "", advice)


def ending_notice(result: Result, *, has_output: bool) -> Notice | None:
    """The card at the end; a completed answer has none."""
    status = result.ext.status
    if status == "completed":
        return None if has_output else _empty_notice()
    icon, tone, title, advice = _STATUSES.get(status, _UNKNOWN_STATUS)
    if status == "incomplete":
        title, advice = _INCOMPLETE.get(result.ext.stop.reason, (title, advice))
    if status == "waiting":
        return Notice(icon, tone, title, "", advice)
    if status == "stopped" and result.ext.stop.by:
        title = f"Stopped by {result.ext.stop.by}."
    return Notice(icon, tone, title, _kept(has_output), advice)


def _empty_notice() -> Notice:
    return Notice(
        "triangle-alert",
        "wait",
        "The model ended its turn without writing anything.",
        "",
        "Try again, or rephrase the message.",
    )


class ErrorCard(Card):
    """A card with what happened and what to do; the server's message is in the fold."""

    classes = "item card verdict bad"

    def __init__(self, id: str, seq: int, error: ErrorInfo) -> None:
        super().__init__(id, seq)
        self._error = error

    def content(self) -> str:
        return error_content(self._error)


# Statuses that the card of an error explains.
ERROR_STATUSES = ("failed", "cut")


def error_content(error: ErrorInfo) -> SafeString:
    named = (error.type, error.kind, error.code, error.param)
    # For a cut connection there is no message of the server, and the title is sufficient.
    message = "" if error.kind == "cut" else reveal(storable(error.message))
    return fill(
        "notice",
        notice=error_notice(error),
        message=message,
        facts=[name_of(fact) for fact in named if fact and fact != "unknown"],
        status=error.status or "",
    )


def ending_content(result: Result, *, has_output: bool, has_error_card: bool) -> SafeString:
    """The end of an answer: the card of the ending and the line of figures."""
    notice = ending_notice(result, has_output=has_output)
    if notice is None:
        return safe("")
    if result.ext.status in ERROR_STATUSES and result.ext.error is not None:
        # The card of the error already says what went wrong.
        return _kept_content(result.ext.error, has_output, has_error_card)
    return safe(f'<div class="item card verdict {notice.tone}">') + (
        fill("notice", notice=notice) + safe("</div>")
    )


def _kept_content(error: ErrorInfo, has_output: bool, has_error_card: bool) -> SafeString:
    card = safe("")
    if not has_error_card:
        card = safe('<div class="item card verdict bad">') + error_content(error) + safe("</div>")
    kept = safe('<p class="kept">Everything above was kept.</p>' if has_output else "")
    return card + kept
