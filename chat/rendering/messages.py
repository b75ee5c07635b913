"""Messages about the end of an answer and about errors: what happened, what was kept, what to do."""

from dataclasses import dataclass

from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from chat.events import ErrorInfo, Extension, Stop
from chat.rendering.components import Card, fill, name_of, safe
from chat.rendering.figures import duration, milliseconds_of
from chat.rendering.safety import reveal, storable

# Error kind -> what happened, what to do.
ERRORS: dict[str, tuple[str, str]] = {
    "auth": (
        gettext_noop("The server rejected the API key"),
        gettext_noop("Ask an administrator to enter the key again in Settings → Servers."),
    ),
    "permission": (
        gettext_noop("The API key doesn’t allow this"),
        gettext_noop("Choose another model, or ask an administrator to check the key."),
    ),
    "billing": (
        gettext_noop("The server’s account is out of credit"),
        gettext_noop("Choose another server, or ask an administrator to add credit."),
    ),
    "bad_request": (
        gettext_noop("The server rejected the request"),
        gettext_noop("Change the message or the parameters and try again."),
    ),
    "not_found": (
        gettext_noop("The server doesn’t have this model"),
        gettext_noop("Choose another model, or ask an administrator to reload the model list."),
    ),
    "too_large": (
        gettext_noop("The request or the answer is too large"),
        gettext_noop("Shorten the message, or attach fewer images."),
    ),
    "answer_limit": (
        gettext_noop("The answer was stopped because it reached the size limit"),
        gettext_noop("Ask for a shorter answer, or ask an administrator to raise the limit."),
    ),
    "context_length": (
        gettext_noop("The conversation is too long for this model"),
        gettext_noop(
            "Leave out older messages, shorten your message, or choose a model with a larger context."
        ),
    ),
    "rate_limit": (
        gettext_noop("The server is receiving too many requests"),
        gettext_noop("Wait a moment and try again."),
    ),
    "quota": (
        gettext_noop("The quota of this server is used up"),
        gettext_noop("Choose another server, or ask an administrator to raise the quota."),
    ),
    "overloaded": (
        gettext_noop("The server is overloaded"),
        gettext_noop("Try again in a minute, or choose another server."),
    ),
    "timeout": (
        gettext_noop("The server didn’t answer in time"),
        gettext_noop("Try again: the model may have been loading."),
    ),
    "idle_timeout": (
        gettext_noop("The server stopped sending"),
        gettext_noop("Try again. If this keeps happening, ask an administrator."),
    ),
    "network": (
        gettext_noop("The server can’t be reached"),
        gettext_noop(
            "Try again. If this keeps happening, ask an administrator to test the connection."
        ),
    ),
    "cut": (
        gettext_noop("The connection was lost before the answer was complete"),
        gettext_noop("Try again to get a complete answer."),
    ),
    "protocol": (
        gettext_noop("The server’s reply couldn’t be read"),
        gettext_noop("Ask an administrator to check the server’s address and API type."),
    ),
    "cancelled": (
        gettext_noop("The server canceled the answer"),
        gettext_noop("Try again. Someone may have stopped it on the server."),
    ),
    "policy": (
        gettext_noop("The server’s policy doesn’t allow this"),
        gettext_noop("Rephrase the message, or choose another model."),
    ),
    "server": (
        gettext_noop("The server reported an internal error"),
        gettext_noop("Try again. If this keeps happening, choose another model or server."),
    ),
    "unknown": (
        gettext_noop("The server reported an unknown error"),
        gettext_noop("Try again. If this keeps happening, show this message to an administrator."),
    ),
}

# Event type -> label in the run's details.
EVENTS: dict[str, str] = {
    "chat.start": gettext_noop("Start"),
    "model_load.start": gettext_noop("Model loading started"),
    "model_load.progress": gettext_noop("Model loading progress"),
    "model_load.end": gettext_noop("Model loaded"),
    "prompt_processing.start": gettext_noop("Prompt reading started"),
    "prompt_processing.progress": gettext_noop("Prompt reading progress"),
    "prompt_processing.end": gettext_noop("Prompt reading finished"),
    "reasoning.start": gettext_noop("Thinking started"),
    "reasoning.delta": gettext_noop("Thinking text"),
    "reasoning.end": gettext_noop("Thinking finished"),
    "tool_call.start": gettext_noop("Tool call started"),
    "tool_call.delta": gettext_noop("Tool argument text"),
    "tool_call.arguments": gettext_noop("Tool arguments"),
    "tool_call.success": gettext_noop("Tool result"),
    "tool_call.failure": gettext_noop("Tool error"),
    "message.start": gettext_noop("Message started"),
    "message.delta": gettext_noop("Message text"),
    "message.end": gettext_noop("Message finished"),
    "error": gettext_noop("Error"),
    "chat.end": gettext_noop("End"),
    "refusal.delta": gettext_noop("Refusal text"),
    "replay.data": gettext_noop("Data for the next request"),
    "citation.add": gettext_noop("Source"),
    "logprobs.add": gettext_noop("Token probabilities"),
    "usage.update": gettext_noop("Usage"),
    "media.update": gettext_noop("Media"),
    "artifact.update": gettext_noop("Artifact"),
    "mockup.update": gettext_noop("Mockup"),
    "ask.question": gettext_noop("Question"),
    "activity.step": gettext_noop("Step"),
    "context.fork": gettext_noop("Branch"),
    "meta.update": gettext_noop("Metadata"),
    "vendor.raw": gettext_noop("Other server event"),
}


def error_title(kind: str) -> str:
    return gettext(ERRORS.get(kind, ERRORS["unknown"])[0])


def event_label(kind: str) -> str:
    """The name of a type of events; the type itself where there is none."""
    return gettext(EVENTS[kind]) if kind in EVENTS else kind


@dataclass(frozen=True, slots=True)
class Notice:
    """One card: its tone is ``bad``, ``wait`` or ``calm``."""

    icon: str
    tone: str
    title: str
    kept: str
    advice: str


_CONTINUE = gettext_noop("Ask it to continue.")
_REPHRASE = gettext_noop("Rephrase the message and try again.")
_TRY_AGAIN = gettext_noop("Try again.")

# Reason of the stop -> title, advice.
_INCOMPLETE: dict[str, tuple[str, str]] = {
    "length": (
        gettext_noop("The answer reached its length limit"),
        gettext_noop("Ask it to continue, or raise “Max tokens” and try again."),
    ),
    "content_filter": (gettext_noop("The server’s content filter ended the answer"), _REPHRASE),
    "refusal": (gettext_noop("The model declined to continue"), _REPHRASE),
    "pause": (gettext_noop("The model paused"), _CONTINUE),
    "compaction": (gettext_noop("The server shortened the conversation and paused"), _CONTINUE),
    "steered": (gettext_noop("A new instruction interrupted the answer"), _CONTINUE),
}

# Status -> icon, tone, title, advice.
_STATUSES: dict[str, tuple[str, str, str, str]] = {
    "waiting": (
        "hourglass",
        "wait",
        gettext_noop("Needs input"),
        gettext_noop("The answer continues once every open question and tool call has a response."),
    ),
    "incomplete": ("triangle-alert", "wait", gettext_noop("The answer is incomplete"), _CONTINUE),
    "stopped": ("circle-stop", "calm", gettext_noop("Stopped"), _TRY_AGAIN),
    "failed": ("triangle-alert", "bad", gettext_noop("The answer failed"), _TRY_AGAIN),
    "cut": ("unplug", "bad", *ERRORS["cut"]),
    "interrupted": (
        "unplug",
        "bad",
        gettext_noop("The answer was interrupted because Tributary restarted"),
        _TRY_AGAIN,
    ),
}
_UNKNOWN_STATUS = (
    "triangle-alert",
    "bad",
    gettext_noop("The answer ended for an unknown reason"),
    _TRY_AGAIN,
)


# Option of the server with which an answer would have been read better -> what to do.
_SUGGESTIONS: dict[str, str] = {
    "cumulative_text": gettext_noop(
        "If this answer repeats itself, turn on “Cumulative chunks” in the server’s settings"
    ),
    "inline_think": gettext_noop(
        "If this answer begins with thinking, set “Thinking tags” to “Assume an opening "
        "tag” in the server’s settings"
    ),
}


def suggestions_of(ext: Extension) -> list[str]:
    options = ext.meta.get("suggested_options")
    names = options if isinstance(options, dict) else {}
    return [gettext(_SUGGESTIONS[name]) for name in names if name in _SUGGESTIONS]


def _kept(has_output: bool) -> str:
    if has_output:
        return gettext("The text above is saved.")
    return gettext("Nothing was received.")


# Codes of errors whose message is ours.
_OWN_CODES = frozenset(("files_unavailable", "document_refused"))


def error_notice(error: ErrorInfo) -> Notice:
    title, advice = map(gettext, ERRORS.get(error.kind, ERRORS["unknown"]))
    if error.kind == "answer_limit" or error.code in _OWN_CODES:
        # Our own message, not the server's.
        title = error.message.removesuffix(".") or title
    if error.code == "document_refused":
        advice = gettext("Edit the message to remove the file, or to attach another one.")
    if error.retry_after_seconds and error.retryable:
        pause = duration(milliseconds_of(error.retry_after_seconds))
        advice = gettext("Wait %(duration)s and try again.") % {"duration": pause}
    return Notice("triangle-alert", "bad", title, "", advice)


def ending_notice(ext: Extension, *, has_output: bool) -> Notice | None:
    """The card at the end; a completed answer has none."""
    status = ext.status
    if status == "completed":
        return None if has_output else _empty_notice()
    icon, tone, title, advice = _STATUSES.get(status, _UNKNOWN_STATUS)
    if status == "stopped" and ext.stop.raw == "cancelled":
        # Some servers report this as an end, others as an error.
        title, advice = ERRORS["cancelled"]
    if status == "incomplete":
        title, advice = _INCOMPLETE.get(ext.stop.reason, (title, advice))
    title, advice = gettext(title), gettext(advice)
    model = _recommended_model(ext)
    if model:
        advice = gettext("Try again with %(model)s.") % {"model": model}
    if status == "waiting":
        return Notice(icon, tone, title, "", advice)
    if status == "stopped" and ext.stop.by:
        title = gettext("Stopped by %(name)s") % {"name": ext.stop.by}
    return Notice(icon, tone, title, _kept(has_output), advice)


def choice_notice(stop: Stop) -> Notice | None:
    """The notice of a further answer that is not complete."""
    found = _INCOMPLETE.get(stop.reason)
    if stop.reason == "error":
        found = _STATUSES["failed"][2], _STATUSES["failed"][3]
    if found is None:
        return None
    return Notice("triangle-alert", "wait", gettext(found[0]), "", gettext(found[1]))


class ChoiceEnding(Card):
    """The card at the end of a further answer."""

    classes = "item card verdict wait"

    def __init__(self, id: str, seq: int, notice: Notice) -> None:
        super().__init__(id, seq)
        self._notice = notice

    def content(self) -> str:
        return fill("notice", notice=self._notice)


def _recommended_model(ext: Extension) -> str:
    """The model that the server says would answer what this one declined."""
    details = ext.stop.details
    model = details.get("recommended_model") if isinstance(details, dict) else None
    return name_of(model) if isinstance(model, str) and ext.stop.reason == "refusal" else ""


def _empty_notice() -> Notice:
    return Notice(
        "triangle-alert",
        "wait",
        gettext("The model returned an empty answer"),
        "",
        gettext("Try again, or rephrase the message."),
    )


class ErrorCard(Card):
    """A card with what happened and what to do; the server's message is in the fold."""

    classes = "item card verdict bad"

    def __init__(self, id: str, seq: int, error: ErrorInfo) -> None:
        super().__init__(id, seq)
        self._error = error
        self._retry = ""

    def offer_retry(self, run_id: str, seq: int) -> None:
        """The answer has ended with this error."""
        self._retry = run_id
        self.touch(seq)

    def content(self) -> str:
        return error_content(self._error, self._retry)


# Statuses that the card of an error explains.
ERROR_STATUSES = ("failed", "cut")


# After these the card of the ending has the button to try again; the page has its form.
RETRY_STATUSES = (*ERROR_STATUSES, "interrupted")


def error_content(error: ErrorInfo, retry: str) -> SafeString:
    """``retry`` is the run of the button to try again."""
    named = (error.type, error.kind, error.code, error.param)
    # A cut connection has no message of the server, and the title is sufficient.
    message = "" if error.kind == "cut" else reveal(storable(error.message))
    return fill(
        "notice",
        notice=error_notice(error),
        message=message,
        facts=[name_of(fact) for fact in dict.fromkeys(named) if fact and fact != "unknown"],
        status=error.status or "",
        retry=retry,
    )


def ending_content(
    ext: Extension, run_id: str, *, has_output: bool, has_error_card: bool
) -> SafeString:
    """The card at the end of an answer."""
    notice = ending_notice(ext, has_output=has_output)
    if notice is None:
        return safe("")
    if ext.status in ERROR_STATUSES and ext.error is not None:
        # The card of the error already says what went wrong.
        return _kept_content(ext.error, run_id, has_output, has_error_card)
    retry = run_id if ext.status in RETRY_STATUSES else ""
    return fill("verdict", tone=notice.tone, notice=fill("notice", notice=notice, retry=retry))


def _kept_content(
    error: ErrorInfo, run_id: str, has_output: bool, has_error_card: bool
) -> SafeString:
    shown = safe("")
    if not has_error_card:
        shown = fill("verdict", tone="bad", notice=error_content(error, run_id))
    return shown + fill("kept") if has_output else shown
