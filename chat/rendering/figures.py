"""Formats numbers for people: grouped digits, durations, sizes, percentages."""

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from chat.events import Result


def count(number: int) -> str:
    return number_format(number, force_grouping=True)


def decimal(number: float, places: int = 1) -> str:
    return number_format(round(number, places), decimal_pos=places)


def duration(milliseconds: int) -> str:
    """``40 ms``, ``0.4 s``, ``12 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if milliseconds < 95:
        return gettext("%(milliseconds)d ms") % {"milliseconds": milliseconds}
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return gettext("%(seconds)s s") % {"seconds": decimal(seconds)}
    whole = round(seconds)
    if whole < 60:
        return _seconds(whole)
    if whole < 3600:
        words = gettext("%(minutes)d min %(seconds)d s")
        return words % {"minutes": whole // 60, "seconds": whole % 60}
    words = gettext("%(hours)d h %(minutes)d min")
    return words % {"hours": whole // 3600, "minutes": whole % 3600 // 60}


def _seconds(whole: int) -> str:
    return gettext("%(seconds)s s") % {"seconds": whole}


def clock(milliseconds: int) -> str:
    """A time on a scale: ``1.234 s``. The space does not break."""
    words = gettext("%(seconds)s s") % {"seconds": decimal(milliseconds / 1000, 3)}
    return words.replace(" ", "\u00a0")


def elapsed(milliseconds: int) -> str:
    """A running time in whole seconds, so that it changes once a second."""
    seconds = milliseconds // 1000
    return _seconds(seconds) if seconds < 60 else duration(seconds * 1000)


def percent(progress: float) -> int:
    """A progress of 0 to 1 as a percentage, clamped to 0 to 100."""
    return round(100 * min(max(progress, 0.0), 1.0)) if progress == progress else 0


def percentage(whole: int) -> str:
    return gettext("%(percent)d%%") % {"percent": whole}


def size(number: int) -> str:
    if number < 1024:
        return ngettext("%(count)d byte", "%(count)d bytes", number) % {"count": number}
    if number < 1024 * 1024:
        return gettext("%(size)s KB") % {"size": decimal(number / 1024)}
    return gettext("%(size)s MB") % {"size": decimal(number / 1024**2)}


def milliseconds_of(seconds: float) -> int:
    """Seconds of an upstream as whole milliseconds, clamped to a year."""
    return round(1000 * min(max(seconds, 0.0), 365 * 86400.0)) if seconds == seconds else 0


def summary_of(result: Result, total_milliseconds: int, *, has_output: bool) -> list[str]:
    """The tokens and time of an answer, as parts of a short line. Unknown figures are left out. An
    answer without output has no time, because the card of its failure matters more. The run's
    details have all other figures."""
    tokens = result.stats.total_output_tokens
    parts = []
    if tokens is not None:
        words = ngettext("%(tokens)s token", "%(tokens)s tokens", tokens)
        parts.append(words % {"tokens": count(tokens)})
    if total_milliseconds > 0 and (parts or has_output):
        parts.append(duration(total_milliseconds))
    return parts
