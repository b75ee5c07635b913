"""Reads one short answer and records how this server really sends it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from django.utils.formats import number_format
from django.utils.translation import gettext

from chat.dialects.base import Parser
from chat.dialects.event_counts import COMMENT, DONE, WHOLE_BODY, EventCounter, Seen, name_of
from chat.dialects.reading import NotJson, read_json
from chat.events import (
    Ending,
    Error,
    ErrorInfo,
    Event,
    Json,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallStart,
)
from chat.upstreams.client import UpstreamAnswer
from chat.upstreams.failures import UpstreamBroken, failure
from chat.wire.sse import Decoder, Frame

MAX_BODY_BYTES = 8 * 1024 * 1024
# These show how a server sends. A model that does not stop is cut off here.
ENOUGH_DELTAS = 400
ENOUGH_SECONDS = 20.0
# How much of the raw text is searched for reasoning in tags.
MAX_TEXT_CHARACTERS = 64 * 1024
# Token counts are searched to this depth, as in ``response.usage``.
_DEPTH = 3
_USAGE_MEMBERS = ("usage", "stats")
_HEARTBEATS = ("ping", "heartbeat", "keepalive", "keep-alive")


@dataclass(kw_only=True)
class ProbeObservation:
    """Observations of one answer. Seconds count from the moment the request was sent."""

    content_type: str = ""
    is_event_stream: bool = False
    first_event_seconds: float | None = None
    first_token_seconds: float | None = None
    # Canonical deltas, and the reads from the socket that contained them.
    deltas: int = 0
    reads_with_deltas: int = 0
    is_cut_short: bool = False
    ending: Ending | None = None
    error: ErrorInfo | None = None
    has_done_marker: bool = False
    # The upstream's name of the event after which the dialect knows that the answer is complete.
    terminal_name: str = ""
    usage_names: Counter[str] = field(default_factory=Counter)
    reasoning_name: str = ""
    text: str = ""
    heartbeats: Counter[str] = field(default_factory=Counter)
    # Pieces of argument text of each tool call, by its item number.
    calls: dict[int, int] = field(default_factory=dict)
    first_object: dict[str, Json] = field(default_factory=dict)
    types: Counter[str] = field(default_factory=Counter)
    seen: list[Seen] = field(default_factory=list)

    @property
    def has_output(self) -> bool:
        return self.first_token_seconds is not None or bool(self.calls)

    @property
    def unknown(self) -> list[Seen]:
        return [kind for kind in self.seen if not kind.is_known]

    @property
    def is_lump(self) -> bool | None:
        """True if everything came at once; ``None`` if there was too little."""
        if self.deltas < 5:
            return None
        return self.reads_with_deltas == 1

    def summary(self) -> str:
        """Technical details: how many of each canonical event."""
        told = ", ".join(f"{name} × {count}" for name, count in self.types.items())
        if self.first_token_seconds is None:
            return told
        first_token = gettext("Time to first token: %(seconds)s s") % {
            "seconds": number_format(round(self.first_token_seconds, 1), 1)
        }
        return f"{first_token}; {told}" if told else first_token


class StreamProbe:
    """Reads one answer through the dialect's parser. Parts before an error are kept."""

    def __init__(self, parser: Parser) -> None:
        self.heard = ProbeObservation()
        self._parser = parser
        self._tally = EventCounter(keeps_content=True)
        self._started = time.monotonic()
        self._texts: list[str] = []
        self._text_size = 0

    async def listen(self, answer: UpstreamAnswer) -> ProbeObservation:
        """Reads the answer. Raises ``UpstreamError`` and ``EventTooLarge`` after recording the part
        before."""
        self.heard.content_type = answer.headers.get("content-type", "")
        self.heard.is_event_stream = answer.is_event_stream
        try:
            if answer.is_event_stream:
                await self._listen_to_stream(answer)
            else:
                self._take_body(await answer.body(MAX_BODY_BYTES))
        finally:
            self._end()
        return self.heard

    async def _listen_to_stream(self, answer: UpstreamAnswer) -> None:
        decoder = Decoder(MAX_BODY_BYTES)
        size = 0
        async with aclosing(answer.chunks()) as chunks:
            async for data in chunks:
                size += len(data)
                if size > MAX_BODY_BYTES:
                    raise UpstreamBroken(failure("too_large"))
                self._take_frames(decoder.feed(data))
                if self._parser.is_done or self._has_heard_enough():
                    return
        self._take_frames(decoder.close())

    def _has_heard_enough(self) -> bool:
        first = self.heard.first_token_seconds
        is_late = first is not None and self._elapsed() - first > ENOUGH_SECONDS
        self.heard.is_cut_short = self.heard.deltas >= ENOUGH_DELTAS or is_late
        return self.heard.is_cut_short

    def _take_frames(self, frames: list[Frame]) -> None:
        before = self.heard.deltas
        for frame in frames:
            was_done = self._parser.is_done
            events = self._parser.feed(frame)
            self._tally.add(frame, events)
            self._note_frame(frame, events)
            if self._parser.is_done and not was_done:
                self.heard.terminal_name = name_of(frame)
        self.heard.reads_with_deltas += self.heard.deltas > before

    def _take_body(self, body: bytes) -> None:
        events = self._parser.feed_body(body)
        frame = Frame(event=WHOLE_BODY, data=body.decode("utf-8", "replace"))
        self._tally.add(frame, events)
        self._note_frame(frame, events)

    def _end(self) -> None:
        self._note_events(self._parser.close("stopped" if self.heard.is_cut_short else "eof"))
        self.heard.ending = self._parser.ending
        self.heard.seen = self._tally.result(self._parser)
        self.heard.text = "".join(self._texts)

    # --- recording -------------------------------------------------------------------------

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _note_frame(self, frame: Frame, events: list[Event]) -> None:
        name = name_of(frame)
        if frame.is_comment:
            self.heard.heartbeats[COMMENT] += 1
            return
        if self.heard.first_event_seconds is None:
            self.heard.first_event_seconds = self._elapsed()
        if name == DONE:
            self.heard.has_done_marker = True
        if not events and any(word in name.lower() for word in _HEARTBEATS):
            self.heard.heartbeats[name] += 1
        if not self.heard.reasoning_name and any(isinstance(e, ReasoningDelta) for e in events):
            self.heard.reasoning_name = name
        self._note_value(name, frame)
        self._note_events(events)

    def _note_value(self, name: str, frame: Frame) -> None:
        try:
            value = read_json(frame.data)[0]
        except NotJson:
            return
        if not isinstance(value, dict):
            return
        self.heard.first_object = self.heard.first_object or value
        if _has_usage(value, _DEPTH):
            self.heard.usage_names[name] += 1
        for text in _texts_in(value):
            if self._text_size < MAX_TEXT_CHARACTERS:
                self._texts.append(text)
                self._text_size += len(text)

    def _note_events(self, events: list[Event]) -> None:
        for event in events:
            name = str(event.__struct_config__.tag)
            self.heard.types[name] += 1
            if name.endswith(".delta"):
                self.heard.deltas += 1
                if self.heard.first_token_seconds is None:
                    self.heard.first_token_seconds = self._elapsed()
            if isinstance(event, Error):
                self.heard.error = self.heard.error or event.error
            elif isinstance(event, ToolCallStart | ToolCallArguments):
                self.heard.calls.setdefault(event.item, 0)
            elif isinstance(event, ToolCallDelta):
                self.heard.calls[event.item] = self.heard.calls.get(event.item, 0) + 1


def _has_usage(value: dict[str, Json], depth: int) -> bool:
    if any(isinstance(value.get(name), dict) and value[name] for name in _USAGE_MEMBERS):
        return True
    inner = (member for member in value.values() if isinstance(member, dict))
    return depth > 0 and any(_has_usage(member, depth - 1) for member in inner)


def _texts_in(value: dict[str, Json]) -> Iterator[str]:
    """The pieces of visible text in a payload, where the known APIs put them."""
    choices = value.get("choices")
    places: list[Json] = [value, value.get("delta")]
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict):
            places += [choice.get("delta"), choice.get("message"), choice]
    for place in places:
        if isinstance(place, str):
            yield place
        elif isinstance(place, dict):
            yield from (
                text for name in ("content", "text") if isinstance(text := place.get(name), str)
            )
