"""The form of a logged event that may leave the server."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chat import events as canonical
from chat.runs.event_buffer import LogEntry

_RESPONSE_ID = "resp_"
# Types that are checked before they leave; all others are sent as logged.
_GUARDED = (b'{"type":"replay.data"', b'{"type":"meta.update"')


def response_id_of(run_id: UUID) -> str:
    """The id with which a program continues from this run, whatever the upstream's own id is."""
    return f"{_RESPONSE_ID}{run_id.hex}"


def run_of(response_id: str) -> UUID | None:
    """The run that a response id names; ``None`` for an id that is not ours."""
    name = response_id.removeprefix(_RESPONSE_ID)
    try:
        run_id = UUID(hex=name)
    except ValueError:
        return None
    return run_id if response_id == response_id_of(run_id) else None


def public_event(event: canonical.Event, run_id: UUID) -> canonical.Event:
    """The event without what only the next request may carry: signatures, encrypted reasoning, the
    turn in the upstream's own form. That they exist is not hidden. The upstream's response id is
    replaced by ours, because theirs means nothing here."""
    if isinstance(event, canonical.ReplayData):
        return msgspec.structs.replace(event, data=None)
    if isinstance(event, canonical.ChatEnd):
        return msgspec.structs.replace(event, result=public_result(event.result, run_id))
    if isinstance(event, canonical.MetaUpdate) and "response_id" in event.values:
        values = {**event.values, "response_id": response_id_of(run_id)}
        return msgspec.structs.replace(event, values=values)
    return event


def public_result(result: canonical.Result, run_id: UUID) -> canonical.Result:
    return msgspec.structs.replace(
        result,
        response_id=response_id_of(run_id),
        ext=msgspec.structs.replace(result.ext, native=None),
    )


def public_body(entry: LogEntry, run_id: UUID) -> bytes:
    """The encoded event as it may leave the server."""
    if entry.is_end or entry.body.startswith(_GUARDED):
        return canonical.encode(public_event(canonical.decode(entry.body), run_id))
    return entry.body


def public_json(entry: LogEntry, run_id: UUID) -> bytes:
    """One line of ASCII JSON with the run's id in it."""
    return with_run(public_body(entry, run_id), run_id)


def with_run(body: bytes, run_id: UUID) -> bytes:
    """The event as ASCII JSON on one line, with the run's id in it."""
    return canonical.to_ascii(b'{"run":"%s",%s' % (run_id.hex.encode(), body[1:]))
