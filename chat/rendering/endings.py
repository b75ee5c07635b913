"""What an answer ends with: the card of an error, the card of the ending."""

from django.utils.safestring import SafeString

from chat.events import ErrorInfo, Result
from chat.rendering.anatomy import Card, fill, name_of, safe
from chat.rendering.visible import reveal, storable
from chat.rendering.wording import ending_notice, error_notice


class ErrorCard(Card):
    """What happened, what to do; the server's own words in the fold."""

    classes = "item card verdict bad"

    def __init__(self, id: str, seq: int, error: ErrorInfo) -> None:
        super().__init__(id, seq)
        self._error = error

    def content(self) -> str:
        return error_content(self._error)


# Endings that an error explains.
ERROR_STATUSES = ("failed", "cut")


def error_content(error: ErrorInfo) -> SafeString:
    named = (error.type, error.kind, error.code, error.param)
    # Of a connection that broke off nobody but us tells, and the title says it all.
    message = "" if error.kind == "cut" else reveal(storable(error.message))
    return fill(
        "notice",
        notice=error_notice(error),
        message=message,
        facts=[name_of(fact) for fact in named if fact and fact != "unknown"],
        status=error.status or "",
    )


def ending_content(result: Result, *, has_output: bool, has_error_card: bool) -> SafeString:
    """The card of the ending and the line of figures belong together: both come last."""
    notice = ending_notice(result, has_output=has_output)
    if notice is None:
        return safe("")
    if result.ext.status in ERROR_STATUSES and result.ext.error is not None:
        # One card says what went wrong; a second one would only say it again.
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
