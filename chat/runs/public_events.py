"""The form of a logged event that may leave the server."""

from __future__ import annotations

from uuid import UUID

import msgspec

from chat import events as canonical
from chat.runs.event_buffer import LogEntry

_RESPONSE_ID = "resp_"
# Types that are checked before they leave; all others are sent as logged.
_GUARDED = (b'{"type":"replay.data"', b'{"type":"meta.update"')
# Types in which servers may repeat settings of the request, or which have settings of the tool.
_WITH_SETTINGS = (
    *(b'{"type":"vendor.raw"', b'{"type":"meta.update"', b'{"type":"error"'),
    *(b'{"type":"tool_call.success"', b'{"type":"tool_call.failure"'),
)

# Facts that are no part of a request. Others, such as the echo of a request that OpenRouter sends for
# debugging, may be.
_HARMLESS_FACTS = frozenset(
    (
        *("request_id", "generation_id", "upstream_id", "response_id", "model", "provider"),
        *("service_tier", "system_fingerprint", "native_finish_reason", "rate_limit", "perf"),
        *("stats", "context_budget", "alternative_stops", "unreadable_frames"),
    )
)
# The members that are shown of an event that nothing here interprets.
_OF_UNKNOWN = ("dialect", "event")


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


def public_event(
    event: canonical.Event, run_id: UUID, *, with_settings: bool = True
) -> canonical.Event:
    """The event without what only the next request may carry: signatures, encrypted reasoning, the
    turn in the upstream's own form. That they exist is not hidden. The upstream's response id is
    replaced by ours, because theirs means nothing here. ``with_settings``: for somebody who may see
    them (`chat.access.may_see_settings`)."""
    if not with_settings:
        event = without_settings(event)
    if isinstance(event, canonical.ReplayData):
        return msgspec.structs.replace(event, data=None)
    if isinstance(event, canonical.ChatEnd):
        return msgspec.structs.replace(event, result=public_result(event.result, run_id))
    if isinstance(event, canonical.MetaUpdate) and "response_id" in event.values:
        values = {**event.values, "response_id": response_id_of(run_id)}
        return msgspec.structs.replace(event, values=values)
    return event


def without_settings(event: canonical.Event) -> canonical.Event:
    """The event without the members in which a server may repeat its request, with the system prompt,
    the parameters and the tools (data that nothing here interprets), and without the server and the rule of a
    tool that was run."""
    match event:
        case canonical.VendorRaw():
            return msgspec.structs.replace(event, data=None, text=None)
        case canonical.MetaUpdate():
            return msgspec.structs.replace(event, values=_harmless(event.values))
        case canonical.Error():
            return msgspec.structs.replace(event, error=_error_without_data(event.error))
        case canonical.ToolCallSuccess() | canonical.ToolCallFailure():
            return msgspec.structs.replace(event, execution=_without_place(event.execution))
        case canonical.ChatEnd():
            return msgspec.structs.replace(event, result=result_without_settings(event.result))
    return event


def result_without_settings(result: canonical.Result) -> canonical.Result:
    error, vendor = result.ext.error, result.ext.vendor
    ext = msgspec.structs.replace(
        result.ext,
        upstream_result=None,
        meta=_harmless(result.ext.meta),
        vendor=[{name: each[name] for name in _OF_UNKNOWN if name in each} for each in vendor],
        error=_error_without_data(error) if error is not None else None,
    )
    output = [
        msgspec.structs.replace(item, execution=_without_place(item.execution))
        if isinstance(item, canonical.ToolCallItem)
        else item
        for item in result.output
    ]
    return msgspec.structs.replace(result, output=output, ext=ext)


def _without_place(execution: canonical.ToolExecution | None) -> canonical.ToolExecution | None:
    """Without the server, the owner of the credential, and the rule of the tool."""
    return execution and msgspec.structs.replace(execution, server="", credential="", rule="")


def _harmless(meta: canonical.JsonObject) -> canonical.JsonObject:
    return {name: value for name, value in meta.items() if name in _HARMLESS_FACTS}


def _error_without_data(error: canonical.ErrorInfo) -> canonical.ErrorInfo:
    return msgspec.structs.replace(error, upstream=None)


def body_without_settings(entry: LogEntry) -> bytes:
    """The encoded event without them."""
    if entry.is_end or entry.body.startswith(_WITH_SETTINGS):
        return canonical.encode(without_settings(canonical.decode(entry.body)))
    return entry.body


def public_result(result: canonical.Result, run_id: UUID) -> canonical.Result:
    return msgspec.structs.replace(
        result,
        response_id=response_id_of(run_id),
        ext=msgspec.structs.replace(result.ext, native=None),
    )


def public_body(entry: LogEntry, run_id: UUID, *, with_settings: bool = True) -> bytes:
    """The encoded event as it may leave the server, with settings as in `public_event`."""
    guarded = _GUARDED if with_settings else (*_GUARDED, *_WITH_SETTINGS)
    if entry.is_end or entry.body.startswith(guarded):
        event = canonical.decode(entry.body)
        return canonical.encode(public_event(event, run_id, with_settings=with_settings))
    return entry.body


def with_run(body: bytes, run_id: UUID) -> bytes:
    """The event as ASCII JSON on one line, with the run's id in it."""
    return canonical.to_ascii(b'{"run":"%s",%s' % (run_id.hex.encode(), body[1:]))
