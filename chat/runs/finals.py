"""The object with which a server ended its stream, where only the kept bytes have it."""

from __future__ import annotations

import msgspec

from chat.events import Json
from chat.models import Run
from chat.runs.segments import read_raw
from chat.wire.sse import Decoder, EventTooLarge

# A page looks through so much for it: what came last stands at the end.
SEARCHED_BYTES = 8 * 1024 * 1024
_ENDINGS = ("response.completed", "response.incomplete")


def final_response(run: Run) -> Json:
    """The ``response`` of the Responses API's last event; ``None`` where none is kept."""
    if run.dialect != "openai_responses":
        return None
    raw = read_raw(run, limit_bytes=SEARCHED_BYTES + 1)
    if len(raw) > SEARCHED_BYTES:
        return None
    decoder = Decoder(may_repeat=True)
    try:
        frames = [*decoder.feed(raw), *decoder.close()]
    except EventTooLarge:
        return None
    for frame in reversed(frames):
        # Some other event may speak of them.
        if any(ending in frame.data for ending in _ENDINGS) and (said := _response_in(frame.data)):
            return said
    return None


def _response_in(data: str) -> Json:
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    is_end = isinstance(event, dict) and event.get("type") in _ENDINGS
    return event.get("response") if is_end else None
