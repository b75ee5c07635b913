"""The upstream frame of each event, found by parsing the raw frames again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from chat import events as canonical
from chat.dialects import DIALECTS
from chat.dialects.base import Parser
from chat.events import Json
from chat.models import Run, RunSegment
from chat.run_details.log_pages import entries_behind
from chat.runs.resume import ContinuingParser
from chat.runs.segments import read_raw
from chat.wire.sse import Decoder, EventTooLarge

# How much a page searches: the last events are at the end.
SEARCHED_BYTES = 8 * 1024 * 1024
_ENDINGS = ("response.completed", "response.incomplete")


def final_response(run: Run) -> Json:
    """The ``response`` of the Responses API's last event; ``None`` if none is stored."""
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
        # Some other event may contain these words in its text.
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


# --- the frames of an event, found by parsing the frames again ------------------------------------
# The log does not store them, because deltas merge while they wait for the database. But the same
# bytes give the same events, and walking along both tells which frames went into which event. If
# that is too much work, or the two do not match, the bytes of the event's segment are all that is
# known.

# About a fifth of a second of parsing. In a longer answer an event is shown without frames, or with
# those of its segment.
TRACED_BYTES = 512 * 1024

# exact: these frames and no others. segment: somewhere in these bytes. own: made here, from no
# frame. unknown: bytes are stored, and it is not known which. gone: no bytes are stored. hidden: they are
# not for this reader.
How = Literal["exact", "segment", "own", "unknown", "gone", "hidden"]

# The member of each delta that grows.
TEXT_MEMBERS = {
    canonical.MessageDelta: "content",
    canonical.ReasoningDelta: "content",
    canonical.RefusalDelta: "content",
    canonical.ToolCallDelta: "fragment",
}
_LATEST = (canonical.ModelLoadProgress, canonical.PromptProcessingProgress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    how: How
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class _Made:
    """An event made by parsing again, and the number of its frame."""

    frame: int
    event: canonical.Event


def trace(run: Run, seq: int) -> Trace:
    """The frames that the event with this number was made from. The options of ``run.upstream`` are used for
    parsing."""
    raw = read_raw(run, limit_bytes=TRACED_BYTES + 1)
    if not raw:
        return Trace(how="gone")
    if len(raw) <= TRACED_BYTES and (found := _parsed_again(run, raw, seq)) is not None:
        return found
    beside = _beside_segment(run, seq)
    return Trace(how="segment", raw=beside) if beside else Trace(how="unknown")


def _beside_segment(run: Run, seq: int) -> bytes:
    """The raw frames of the segment with ``seq``; none if the log is compacted: its frames are one piece."""
    segments = RunSegment.objects.filter(run=run, first_seq__lte=seq, last_seq__gte=seq)
    return b"".join(bytes(raw) for raw in segments.values_list("raw", flat=True) if raw)


def _parsed_again(run: Run, raw: bytes, seq: int) -> Trace | None:
    """``None`` if the frames and the log do not match."""
    dialect = DIALECTS.get(run.dialect)
    if dialect is None:
        return None
    log = [canonical.decode(entry.body) for entry in entries_behind(run.pk)]
    options = {
        **(run.upstream.options if run.upstream else {}),
        **run.parameters,
        "run_id": run.public_id.hex,
    }
    endpoint = run.upstream.name if run.upstream else ""
    parser = dialect.parser(model=run.model, endpoint=endpoint, options=options)
    if run.position and log and isinstance(log[0], canonical.ChatStart):
        given = (canonical.ToolCallSuccess, canonical.ToolCallFailure)
        opening = sum(isinstance(event, given) and event.t == 0 for event in log)
        parser = ContinuingParser(parser, first_item=opening, model=log[0].model_instance_id)
    frames, made = _parse(parser, raw)
    if frames is None:
        return None
    numbers = _frames_by_seq(log, made)
    if numbers is None or seq not in numbers:
        return None
    if not numbers[seq]:
        return Trace(how="own")
    return Trace(how="exact", raw=b"".join(frames[number] for number in numbers[seq]))


def _parse(parser: Parser, raw: bytes) -> tuple[list[bytes] | None, list[_Made]]:
    """The frames' bytes, and their events."""
    if raw.lstrip()[:1] == b"{":
        return [raw], [_Made(0, event) for event in parser.feed_body(raw)]
    decoder = Decoder(may_repeat=True)
    try:
        frames = [*decoder.feed(raw), *decoder.close()]
    except EventTooLarge:
        return None, []
    made = [
        _Made(number, event) for number, frame in enumerate(frames) for event in parser.feed(frame)
    ]
    return [frame.raw for frame in frames], made


def _frames_by_seq(
    log: Sequence[canonical.Event], made: Sequence[_Made]
) -> dict[int, list[int]] | None:
    """The frames of each event of the log; ``None`` if the event of some frame is missing."""
    numbers: dict[int, list[int]] = {}
    place = 0
    for event in log:
        taken = _length(event, made, place)
        # Searching for a missing event again and again would cost the product of both lengths.
        if taken is None:
            return None
        numbers[event.seq] = list(dict.fromkeys(one.frame for one in made[place : place + taken]))
        place += taken
    return numbers if place == len(made) else None


def _length(event: canonical.Event, made: Sequence[_Made], place: int) -> int | None:
    """How many of the events from ``place`` on were merged into this one; 0 for an event made here,
    ``None`` if there are events of its kind but it was not made from them."""
    if place >= len(made) or not _is_kin(event, made[place].event):
        return 0
    member = TEXT_MEMBERS.get(type(event))
    if member is not None:
        return _merged(event, made, place, member)
    if isinstance(event, _LATEST):
        kin, plain = _kin_from(event, made, place), _plain(event)
        return next((n for n, one in enumerate(kin, start=1) if _plain(one.event) == plain), None)
    return 1


def _merged(event: canonical.Event, made: Sequence[_Made], place: int, member: str) -> int | None:
    text = str(getattr(event, member))
    start = 0
    for taken, one in enumerate(_kin_from(event, made, place), start=1):
        piece = str(getattr(one.event, member))
        if not text.startswith(piece, start):
            return None
        start += len(piece)
        if start == len(text):
            return taken
    return None


def _kin_from(event: canonical.Event, made: Sequence[_Made], place: int) -> Iterator[_Made]:
    for index in range(place, len(made)):
        if not _is_kin(event, made[index].event):
            return
        yield made[index]


def _is_kin(one: canonical.Event, other: canonical.Event) -> bool:
    if type(one) is not type(other):
        return False
    names = ("item", "choice", "call_id", "category")
    return all(getattr(one, name, None) == getattr(other, name, None) for name in names)


def _plain(event: canonical.Event) -> bytes:
    return canonical.encode(msgspec.structs.replace(event, seq=0, t=0))
