"""What an answer's headers tell about it: how much may still be asked, and its ids."""

from collections.abc import Mapping

from chat.events import JsonObject

# The families of OpenAI and most others, of Anthropic, and of the standard's drafts.
_RATE_LIMITS = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit")
_IDS = {
    "x-request-id": "request_id",
    "request-id": "request_id",
    "x-generation-id": "generation_id",
}
MAX_HEADERS = 40
MAX_VALUE_CHARACTERS = 200


def facts_of(headers: Mapping[str, str]) -> JsonObject:
    """The members of a ``meta.update``; nothing where no header says anything.

    Figures stay texts as they were sent: servers write their resets as dates, seconds or "12ms".
    """
    lowered = {name.lower(): value[:MAX_VALUE_CHARACTERS] for name, value in headers.items()}
    limits = {name: value for name, value in lowered.items() if name.startswith(_RATE_LIMITS)}
    facts: JsonObject = {_IDS[name]: value for name, value in lowered.items() if name in _IDS}
    if limits:
        facts["rate_limit"] = dict(sorted(limits.items())[:MAX_HEADERS])
    return facts
