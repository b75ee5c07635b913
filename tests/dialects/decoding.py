"""Decodes frames as a run does, and checks what holds for every log of events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from chat.dialects.base import Dialect
from chat.events import Cause, ChatEnd, ChatStart, ErrorInfo, Event, encode
from chat.result import Fold, finish, fold
from chat.wire.sse import Decoder, Frame

# An escaped U+0000; behind an odd number of backslashes it is the text of an escape.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
OPENING = ("message.start", "reasoning.start", "tool_call.start")
CONTINUING = ("message.delta", "reasoning.delta", "tool_call.delta")
CLOSING = ("message.end", "reasoning.end", "tool_call.failure", "tool_call.success")


def data_frame(payload: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(payload).encode()


def named_frame(name: str, **members: object) -> bytes:
    """An event whose payload repeats its name, as LM Studio and Anthropic send them."""
    return b"event: %b\n" % name.encode() + data_frame({"type": name, **members})


def frames_in(*parts: bytes) -> list[Frame]:
    decoder = Decoder()
    return decoder.feed(b"".join(parts)) + decoder.close()


def decode(
    dialect: Dialect, frames: Iterable[Frame], cause: Cause = "eof", **options: object
) -> list[Event]:
    """All events of a run that ends for this cause; the last is ``chat.end``."""
    parser = dialect.parser(model="m", options=options)
    state = Fold()
    events = [event for frame in frames for event in parser.feed(frame)]
    state.extend(events)
    error = ErrorInfo(message="Too slow.", kind="timeout") if cause == "failed" else None
    return events + finish(parser, state, cause, error=error)


def check_log(events: list[Event]) -> None:
    """One start first, one end last, every item opened before and closed after its deltas, and
    nothing that PostgreSQL cannot store."""
    is_open: dict[tuple[object, object], bool] = {}
    for event in events:
        name = str(type(event).__struct_config__.tag)
        key = (getattr(event, "choice", 0), getattr(event, "item", None))
        if name == "reasoning.start" and is_open.get(key):
            # Which kind of reasoning it is was not known before.
            continue
        if name in OPENING:
            assert key not in is_open
            is_open[key] = True
        if name in CONTINUING:
            assert is_open.get(key)
        if name in CLOSING:
            assert is_open.get(key)
            is_open[key] = False
    assert not any(NUL.search(encode(event)) for event in events)
    assert isinstance(events[0], ChatStart)
    assert sum(isinstance(event, ChatEnd) for event in events) == 1
    end = events[-1]
    assert isinstance(end, ChatEnd)
    assert fold(events) == end.result
