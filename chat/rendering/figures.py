"""Formats numbers for people: grouped digits, durations, sizes, percentages."""

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from chat.events import MessageItem, Result


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
        return gettext("%(size)s kB") % {"size": decimal(number / 1024)}
    return gettext("%(size)s MB") % {"size": decimal(number / 1024**2)}


def milliseconds_of(seconds: float) -> int:
    """Seconds of an upstream as whole milliseconds, clamped to a year."""
    return round(1000 * min(max(seconds, 0.0), 365 * 86400.0)) if seconds == seconds else 0


def _tokens(result: Result) -> list[tuple[str, str]]:
    """Token counts as reported. Reasoning and cached tokens are left out if they are 0."""
    stats, usage = result.stats, result.ext.usage
    cached = (usage.cache_read_tokens or None) if usage else None
    thinking = stats.reasoning_output_tokens or None
    pairs: list[tuple[str, str]] = []
    if (number := stats.input_tokens) is not None:
        pairs.append((count(number), ngettext("input token", "input tokens", number)))
    if cached is not None:
        pairs.append((count(cached), gettext("cached")))
    if (number := stats.total_output_tokens) is not None:
        pairs.append((count(number), ngettext("output token", "output tokens", number)))
    if thinking is not None:
        pairs.append((count(thinking), ngettext("thinking token", "thinking tokens", thinking)))
    return pairs


def _times(result: Result) -> list[tuple[str, str]]:
    stats = result.stats
    pairs: list[tuple[str, str]] = []
    if stats.tokens_per_second is not None:
        pairs.append((decimal(stats.tokens_per_second), gettext("tokens/s")))
    if stats.time_to_first_token_seconds is not None:
        first = milliseconds_of(stats.time_to_first_token_seconds)
        pairs.append((duration(first), gettext("to first token")))
    if stats.model_load_time_seconds is not None:
        pairs.append(
            (duration(milliseconds_of(stats.model_load_time_seconds)), gettext("loading the model"))
        )
    return pairs


def _probabilities(result: Result) -> list[tuple[str, str]]:
    """How many tokens have log probabilities; the run's details show them."""
    known = sum(len(item.logprobs or ()) for item in result.output if type(item) is MessageItem)
    if not known:
        return []
    name = ngettext("token with probabilities", "tokens with probabilities", known)
    return [(count(known), name)]


def figures_of(
    result: Result, total_milliseconds: int, *, has_output: bool
) -> list[tuple[str, str]]:
    """Figure and name, in reading order. What nobody reported or measured is left out, and so is
    the whole time where nothing came: the failure's card says what there is to say."""
    pairs = [*_tokens(result), *_probabilities(result), *_times(result)]
    if total_milliseconds > 0 and (pairs or has_output):
        pairs.append((duration(total_milliseconds), gettext("in total")))
    return pairs
