"""LM Studio's nineteen streaming events, written by hand from its documentation.

https://lmstudio.ai/docs/developer/rest/streaming-events describes them; the items of a result are
on the page about complete answers. Nothing here knows our own types: what an event has beyond the
documentation is only collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Any
ALTERNATIVE = "alternative."


@dataclass(frozen=True)
class Text:
    """A text; with ``words``, one of these."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number:
    most: float = float("inf")


@dataclass(frozen=True)
class Anything:
    """An object with any members."""


@dataclass(frozen=True)
class Maybe:
    """We send null where there is no value yet, or none was reported."""

    shape: Shape
    place: str


@dataclass(frozen=True)
class ListOf:
    shape: Shape


@dataclass(frozen=True)
class Record:
    place: str
    required: Mapping[str, Shape] = field(default_factory=dict)
    optional: Mapping[str, Shape] = field(default_factory=dict)


@dataclass(frozen=True)
class OneOf:
    """The ``type`` of the object says which of these it is."""

    place: str
    types: Mapping[str, Record]
    # The members of our own types. Without it, they are listed under the name of the type.
    others: Record | None = None


Shape = Text | Number | Anything | Maybe | ListOf | Record | OneOf

TEXT, NUMBER, FRACTION, OBJECT = Text(), Number(), Number(most=1), Anything()
PROVIDER = OneOf(
    "provider_info",
    {
        "plugin": Record("provider_info", {"plugin_id": TEXT}),
        "ephemeral_mcp": Record("provider_info", {"server_label": TEXT}),
    },
    Record("provider_info"),
)
CALL_FAILED = Record(
    "metadata", {"tool_name": TEXT}, {"arguments": OBJECT, "provider_info": PROVIDER}
)
FAILURE = OneOf(
    "metadata",
    {
        "invalid_name": Record("metadata", {"tool_name": TEXT}),
        "invalid_arguments": CALL_FAILED,
    },
    CALL_FAILED,
)
ERROR = Record(
    "error",
    {
        "type": Text(
            (
                *("invalid_request", "unknown", "mcp_connection_error", "plugin_connection_error"),
                *("not_implemented", "model_not_found", "job_not_found", "internal_error"),
            )
        ),
        "message": TEXT,
    },
    {"code": TEXT, "param": TEXT},
)
FIGURES = (
    *("input_tokens", "total_output_tokens", "reasoning_output_tokens"),
    *("tokens_per_second", "time_to_first_token_seconds"),
)
FIGURE = Maybe(NUMBER, "stats")
RESULT = Record(
    "result",
    {
        "model_instance_id": TEXT,
        "output": ListOf(
            OneOf(
                "output",
                {
                    "message": Record("message", {"content": TEXT}),
                    "reasoning": Record("reasoning", {"content": TEXT}),
                    "tool_call": Record(
                        "tool_call",
                        {
                            "tool": TEXT,
                            "arguments": OBJECT,
                            "output": Maybe(TEXT, "tool_call"),
                            "provider_info": PROVIDER,
                        },
                    ),
                    "invalid_tool_call": Record(
                        "invalid_tool_call", {"reason": TEXT, "metadata": FAILURE}
                    ),
                },
            )
        ),
        "stats": Record(
            "stats", dict.fromkeys(FIGURES, FIGURE), {"model_load_time_seconds": FIGURE}
        ),
    },
    {"response_id": TEXT},
)
CALL: Mapping[str, Shape] = {"tool": TEXT, "provider_info": PROVIDER}
EVENTS: Mapping[str, Mapping[str, Shape]] = {
    "chat.start": {"model_instance_id": TEXT},
    "model_load.start": {"model_instance_id": TEXT},
    "model_load.progress": {"model_instance_id": TEXT, "progress": FRACTION},
    "model_load.end": {"model_instance_id": TEXT, "load_time_seconds": NUMBER},
    "prompt_processing.start": {},
    "prompt_processing.progress": {"progress": FRACTION},
    "prompt_processing.end": {},
    "reasoning.start": {},
    "reasoning.delta": {"content": TEXT},
    "reasoning.end": {},
    "tool_call.start": CALL,
    "tool_call.arguments": {**CALL, "arguments": OBJECT},
    "tool_call.success": {**CALL, "arguments": OBJECT, "output": TEXT},
    "tool_call.failure": {"reason": TEXT, "metadata": FAILURE},
    "message.start": {},
    "message.delta": {"content": TEXT},
    "message.end": {},
    "error": {"error": ERROR},
    "chat.end": {"result": RESULT},
}


@dataclass
class Findings:
    """``wrong`` contradicts the documentation; ``further`` are members and types beyond it, by the
    place where they were."""

    wrong: list[str] = field(default_factory=list)
    further: set[tuple[str, str]] = field(default_factory=set)


def check_stream(events: Sequence[tuple[str | None, Json]], found: Findings) -> None:
    """``events`` are the name of each frame and its data."""
    for name, event in events:
        if event["type"] != name:
            found.wrong.append(f"{name}: the type is {event['type']}")
        _check_event(event, found)
    names = [event["type"] for _, event in events]
    if names[:1] != ["chat.start"] or names[-1:] != ["chat.end"]:
        found.wrong.append(f"not from chat.start to chat.end: {names}")
    if names.count("chat.start") != 1 or names.count("chat.end") != 1:
        found.wrong.append("begun or ended twice")
    _check_order([event for _, event in events], found)


def _check_event(event: Json, found: Findings) -> None:
    name = event["type"]
    members = {key: value for key, value in event.items() if key != "type"}
    if name.startswith(ALTERNATIVE):
        # Its shape is that of the event about the answer itself.
        name = name.removeprefix(ALTERNATIVE)
        members.pop("choice")
    shape = Record(name, EVENTS.get(name, {}))
    _check(members, shape, name, found)


def _check_order(events: Sequence[Json], found: Findings) -> None:
    """Each text is begun and ended once, and its deltas are in between. A server may write two items
    at once; what tells them apart is in a member of ours."""
    begun: set[tuple[str, int]] = set()
    for event in events:
        kind, _, step = event["type"].rpartition(".")
        if kind not in ("message", "reasoning") or event["type"] not in EVENTS:
            continue
        place = (kind, event["item"])
        if (step == "start") == (place in begun):
            found.wrong.append(f"{event} while {sorted(begun)} are begun")
        if step == "start":
            begun.add(place)
        elif step == "end":
            begun.discard(place)
    if begun:
        found.wrong.append(f"never ended: {sorted(begun)}")


def _check(value: Json, shape: Shape, path: str, found: Findings) -> None:
    match shape:
        case Text(words):
            is_right = isinstance(value, str) and (not words or value in words)
        case Number(most):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_right = is_number and 0 <= value <= most
        case Anything():
            is_right = isinstance(value, dict)
        case Maybe(inner, place):
            if value is None:
                found.further.add((place, "null"))
            else:
                _check(value, inner, path, found)
            return
        case ListOf(inner):
            is_right = isinstance(value, list)
            for number, each in enumerate(value if is_right else []):
                _check(each, inner, f"{path}[{number}]", found)
        case OneOf():
            is_right = isinstance(value, dict) and isinstance(value.get("type"), str)
            if is_right:
                _check_type(value, shape, path, found)
        case Record():
            is_right = isinstance(value, dict)
            if is_right:
                _check_members(value, shape, path, found)
    if not is_right:
        found.wrong.append(f"{path}: {value!r}")


def _check_type(value: Json, shape: OneOf, path: str, found: Findings) -> None:
    name = value["type"]
    members = {key: each for key, each in value.items() if key != "type"}
    record = shape.types.get(name)
    if record is None:
        found.further.add((shape.place, name))
        record = shape.others or Record(name)
    _check_members(members, record, f"{path}:{name}", found)


def _check_members(value: Json, record: Record, path: str, found: Findings) -> None:
    for name in record.required:
        if name not in value:
            found.wrong.append(f"{path}.{name} is missing")
    for name, each in value.items():
        known = record.required.get(name) or record.optional.get(name)
        if known is None:
            found.further.add((record.place, name))
        else:
            _check(each, known, f"{path}.{name}", found)
