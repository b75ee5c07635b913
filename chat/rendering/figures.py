"""Formats numbers for people: grouped digits, durations, sizes, percentages."""

from chat.events import MessageItem, Result


def count(number: int) -> str:
    return f"{number:,}"


def duration(milliseconds: int) -> str:
    """``40 ms``, ``0.4 s``, ``12 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if milliseconds < 95:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def elapsed(milliseconds: int) -> str:
    """A running time in whole seconds, so that it changes once a second."""
    seconds = milliseconds // 1000
    return f"{seconds} s" if seconds < 60 else duration(seconds * 1000)


def percent(progress: float) -> int:
    """A progress of 0 to 1 as a percentage, clamped to 0 to 100."""
    return round(100 * min(max(progress, 0.0), 1.0)) if progress == progress else 0


def size(number: int) -> str:
    if number < 1024:
        return f"{number} bytes"
    return f"{number / 1024:.1f} kB" if number < 1024 * 1024 else f"{number / 1024**2:.1f} MB"


def milliseconds_of(seconds: float) -> int:
    """Seconds of an upstream as whole milliseconds, clamped to a year."""
    return round(1000 * min(max(seconds, 0.0), 365 * 86400.0)) if seconds == seconds else 0


def _tokens(result: Result) -> list[tuple[str, str]]:
    """Token counts as reported. Reasoning and cached tokens are left out if they are 0."""
    stats, usage = result.stats, result.ext.usage
    cached = (usage.cache_read_tokens or None) if usage else None
    named = [
        (stats.input_tokens, "tokens in"),
        (cached, "from cache"),
        (stats.total_output_tokens, "tokens out"),
        (stats.reasoning_output_tokens or None, "for thinking"),
    ]
    return [(count(number), name) for number, name in named if number is not None]


def _times(result: Result) -> list[tuple[str, str]]:
    stats = result.stats
    pairs: list[tuple[str, str]] = []
    if stats.tokens_per_second is not None:
        pairs.append((f"{stats.tokens_per_second:.1f}", "tokens/s"))
    if stats.time_to_first_token_seconds is not None:
        first = milliseconds_of(stats.time_to_first_token_seconds)
        pairs.append((duration(first), "to first token"))
    if stats.model_load_time_seconds is not None:
        pairs.append((duration(milliseconds_of(stats.model_load_time_seconds)), "loading"))
    return pairs


def _probabilities(result: Result) -> list[tuple[str, str]]:
    """How many tokens have log probabilities; the run's details show them."""
    known = sum(len(item.logprobs or ()) for item in result.output if type(item) is MessageItem)
    return [(count(known), "with probabilities")] if known else []


def figures_of(
    result: Result, total_milliseconds: int, *, has_output: bool
) -> list[tuple[str, str]]:
    """Figure and name, in reading order. What nobody reported or measured is left out, and so is
    the whole time where nothing came: the failure's card says what there is to say."""
    pairs = [*_tokens(result), *_probabilities(result), *_times(result)]
    if total_milliseconds > 0 and (pairs or has_output):
        pairs.append((duration(total_milliseconds), "in total"))
    return pairs
