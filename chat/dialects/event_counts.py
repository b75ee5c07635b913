"""Counts the events of one stream by their names on the wire."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct

from chat.dialects.base import Parser
from chat.dialects.reading import NotJson, read_json, repair_text, write_json
from chat.events import (
    Event,
    Json,
    MessageDelta,
    ReasoningDelta,
    RefusalDelta,
    ToolCallDelta,
    VendorRaw,
)
from chat.wire.sse import Frame

NAME_CHARACTERS = 200
SAMPLE_CHARACTERS = 2000
# A server that invents names cannot fill the memory; further kinds are counted as one.
MAX_NAMES = 100
OTHERS = "(other names)"

# Deeper values are left out of an outline.
OUTLINE_DEPTH = 12
_KIND_MEMBERS = frozenset(("type", "object", "event"))
_PLACEHOLDERS: dict[type, Json] = {int: 0, float: 0.0}

COMMENT = ": comment"
DONE = "[DONE]"
WHOLE_BODY = "(one JSON answer)"
NOT_JSON = "(text that is no JSON)"
_UNNAMED = "(object without a name)"
# Members of a delta that do not matter for the kind of its chunk.
_DULL_MEMBERS = frozenset(("role", "index", "id", "type"))
_DELTAS = frozenset((MessageDelta, ReasoningDelta, RefusalDelta, ToolCallDelta))


class Seen(Struct, frozen=True, kw_only=True):
    """One kind of event: its name on the wire, how often it came, and whether the dialect knows it.
    ``sample`` is the first of an unknown kind as JSON or text, cut; of a conversation only its outline."""

    name: str
    count: int
    is_known: bool = True
    sample: str = ""


class EventCounter:
    """Call ``add`` for each frame with the events that the parser made of it. For nearly every
    frame this is a look-up: only a frame without a name that is more than a delta is parsed a
    second time.

    ``keeps_content`` is for streams that are no part of a conversation: samples are shown to
    administrators, who may not read conversations without a reason.
    """

    def __init__(self, *, keeps_content: bool = False) -> None:
        self._keeps_content = keeps_content
        self._counts: dict[str, int] = {}
        self._delta_names: dict[type[Event], str] = {}
        self._strange: dict[str, int] = {}
        self._samples: dict[str, str] = {}

    def add(self, frame: Frame, events: list[Event]) -> None:
        name = frame.event or self._name_of(frame, events)
        counts = self._counts
        if name in counts:
            counts[name] += 1
        else:
            _count(counts, repair_text(name)[:NAME_CHARACTERS])
        for event in events:
            if type(event) is VendorRaw:
                self._add_strange(name, event)

    def result(self, parser: Parser | None = None) -> list[Seen]:
        """The counts. The parser has counted frequent members itself."""
        members: Mapping[str, int] = getattr(parser, "unknown_members", {})
        found: list[Seen] = []
        for name, count in self._counts.items():
            if self._strange.get(name, 0) < count:
                found.append(Seen(name=name, count=count))
        for name, count in self._strange.items():
            is_part = count < self._counts.get(name, 0)
            found.append(
                Seen(
                    name=f"{name}, in part" if is_part else name,
                    count=max(count, members.get(name, 0)),
                    is_known=False,
                    sample=self._samples.get(name, ""),
                )
            )
        return found

    def _name_of(self, frame: Frame, events: list[Event]) -> str:
        if frame.is_comment:
            return COMMENT
        if len(events) == 1 and (kind := type(events[0])) in _DELTAS:
            name = self._delta_names.get(kind)
            if name is None:
                name = self._delta_names[kind] = name_of(frame)
            return name
        return name_of(frame)

    def _add_strange(self, name: str, event: VendorRaw) -> None:
        if isinstance(event.data, dict) and len(event.data) == 1 and event.event != name:
            (member,) = event.data
            name = f"{event.event}.{member}"
        name = _count(self._strange, name[:NAME_CHARACTERS])
        if name not in self._samples and name != OTHERS:
            self._samples[name] = self._sample_of(event)[:SAMPLE_CHARACTERS]

    def _sample_of(self, event: VendorRaw) -> str:
        if self._keeps_content:
            return event.text if event.text is not None else write_json(event.data)
        return "" if event.text is not None else write_json(outline(event.data))


def outline(value: Json, depth: int = 0) -> Json:
    """The structure without the content: names of members, and values of the same types. Only what
    names the kind of the whole event is kept."""
    if isinstance(value, dict) and depth < OUTLINE_DEPTH:
        return {
            name: member
            if depth == 0 and name in _KIND_MEMBERS and isinstance(member, str)
            else outline(member, depth + 1)
            for name, member in value.items()
        }
    if isinstance(value, list) and depth < OUTLINE_DEPTH:
        return [outline(member, depth + 1) for member in value[:1]]
    return (
        value if value is None or isinstance(value, bool) else _PLACEHOLDERS.get(type(value), "…")
    )


def _count(counts: dict[str, int], name: str) -> str:
    """Counts one more of ``name``, or of the others if there are too many. Returns which."""
    if name not in counts and len(counts) >= MAX_NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1
    return name


def name_of(frame: Frame) -> str:
    """The event's name, the payload's type, or what kind of chunk it is."""
    if frame.is_comment:
        return COMMENT
    if frame.event:
        return repair_text(frame.event)[:NAME_CHARACTERS]
    if frame.data.lstrip().startswith(DONE):
        return DONE
    try:
        value = read_json(frame.data)[0]
    except NotJson:
        return NOT_JSON
    name = _name_of_object(value) if isinstance(value, dict) else _UNNAMED
    return repair_text(name)[:NAME_CHARACTERS]


def _name_of_object(value: Mapping[str, Json]) -> str:
    kind = value.get("type")
    if isinstance(kind, str) and kind:
        return kind
    if value.get("error"):
        return "error"
    choices = value.get("choices")
    if isinstance(choices, list):
        return f"chunk: {_chunk_kind(choices, value)}"
    kind = value.get("object")
    return kind if isinstance(kind, str) and kind else _UNNAMED


def _chunk_kind(choices: list[Json], value: Mapping[str, Json]) -> str:
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    delta = first.get("delta") or first.get("message")
    members = delta if isinstance(delta, dict) else {}
    told = [name for name, content in members.items() if content and name not in _DULL_MEMBERS]
    if isinstance(first.get("text"), str) and first["text"]:
        told.append("text")
    if not told and first.get("finish_reason"):
        told = ["finish_reason"]
    if not told and value.get("usage"):
        told = ["usage"]
    return ", ".join(sorted(map(str, told))) or "without content"


def cleaned_kind(kind: Seen, clean: Callable[[str], str]) -> Seen:
    """The kind with secrets removed from its name and sample."""
    return msgspec.structs.replace(kind, name=clean(kind.name), sample=clean(kind.sample))


def merged(parts: Iterable[Seen]) -> list[Seen]:
    """The same kinds of several streams added up."""
    found: dict[str, Seen] = {}
    for part in parts:
        before = found.get(part.name)
        if before is None:
            found[part.name] = part
            continue
        found[part.name] = msgspec.structs.replace(
            before,
            count=before.count + part.count,
            is_known=before.is_known and part.is_known,
            sample=before.sample or part.sample,
        )
    return list(found.values())
