"""Token counts of OpenAI's three APIs, and of servers with variations of them."""

from chat.dialects.stream import cost_of, count_of, object_of
from chat.events import JsonObject, Usage


def read_usage(value: JsonObject) -> Usage:
    """Token counts under the names of chat completions or of Responses, because some gateways mix
    them."""
    prompt = object_of(value, "prompt_tokens_details") or object_of(value, "input_tokens_details")
    answer = object_of(value, "completion_tokens_details") or object_of(
        value, "output_tokens_details"
    )
    details: JsonObject = {}
    if prompt:
        details["input"] = prompt
    if answer:
        details["output"] = answer
    return Usage(
        input_tokens=_count(value, "prompt_tokens", "input_tokens"),
        output_tokens=_count(value, "completion_tokens", "output_tokens"),
        total_tokens=count_of(value, "total_tokens"),
        reasoning_tokens=_count(answer, "reasoning_tokens"),
        cache_read_tokens=_cached(value, prompt),
        cache_write_tokens=_count(prompt, "cache_write_tokens"),
        details=details or None,
        cost=cost_of(value),
        raw=value,
    )


def _cached(value: JsonObject, details: JsonObject) -> int | None:
    """DeepSeek reports cached tokens beside the prompt's tokens, not among their details."""
    cached = count_of(details, "cached_tokens")
    return count_of(value, "prompt_cache_hit_tokens") if cached is None else cached


def _count(value: JsonObject, *names: str) -> int | None:
    return next((count for name in names if (count := count_of(value, name)) is not None), None)
