"""Compares what LM Studio streamed with the complete answer that it sends at the end."""

from collections.abc import Mapping

import msgspec

from chat.dialects.items import Call, Item, ItemTracker, TextKind
from chat.dialects.reading import as_text, repair_text, scrub
from chat.dialects.stream import object_of, text_of
from chat.dialects.thinking import Mode, split
from chat.events import FailureMetadata, Json, JsonObject, ProviderInfo

_TEXT_KINDS: Mapping[str, TextKind] = {"message": "message", "reasoning": "reasoning"}


def reconcile(tracker: ItemTracker, output: list[JsonObject]) -> list[JsonObject]:
    """Reports what the stream lacked. Returns what differs in another way.

    The streamed items are the record. The missing rest of an item that is still open is reported
    before it closes, and so are whole items after the last streamed one.
    """
    differences: list[JsonObject] = []
    streamed = list(tracker.items())
    final = [entry for entry in output if not _is_empty_text(entry)]
    streamed_filled = [item for item in streamed if item.kind == "tool_call" or item.pieces]
    for item, entry in zip(streamed_filled, final, strict=False):
        if not _is_same_kind(item, entry):
            differences.append(_difference(item, "kind", item.kind, text_of(entry, "type")))
            return differences
        differences += _complete(tracker, item, entry)
    for entry in final[len(streamed_filled) :]:
        _add(tracker, entry)
    for item in streamed_filled[len(final) :]:
        differences.append(_difference(item, "presence", item.kind, None))
    return differences


def with_thinking(output: list[JsonObject], mode: Mode) -> list[JsonObject]:
    """The output with reasoning between marks as entries of its own, unless it repeats one."""
    entries: list[JsonObject] = []
    for number, entry in enumerate(output, 1):
        is_followed = number < len(output)
        text = text_of(entry, "content")
        pieces = split(text, mode, is_strict=True, is_followed=is_followed)
        if entry.get("type") != "message" or all(kind == "message" for kind, _ in pieces):
            entries.append(entry)
            continue
        known = [
            text_of(each, "content").strip() for each in entries if each["type"] == "reasoning"
        ]
        for kind in ("reasoning", "message"):
            text = "".join(content for which, content in pieces if which == kind)
            if text and (kind == "message" or text.strip() not in known):
                entries.append({**entry, "type": kind, "content": text})
    return entries


def _is_empty_text(entry: JsonObject) -> bool:
    return text_of(entry, "type") in _TEXT_KINDS and not text_of(entry, "content")


def _is_same_kind(item: Item, entry: JsonObject) -> bool:
    kind = text_of(entry, "type")
    return item.kind == ("tool_call" if kind == "invalid_tool_call" else kind)


def _difference(item: Item, about: str, streamed: Json, final: Json) -> JsonObject:
    return {"item": item.number, "about": about, "streamed": streamed, "final": final}


def _complete(tracker: ItemTracker, item: Item, entry: JsonObject) -> list[JsonObject]:
    if isinstance(item, Call):
        return _complete_call(tracker, item, entry)
    streamed, final = item.joined(), repair_text(text_of(entry, "content"))
    if streamed == final:
        return []
    if item.is_open and final.startswith(streamed):
        tracker.text(_TEXT_KINDS[item.kind], final[len(streamed) :])
        return []
    # The lengths are sufficient: the whole text is in the upstream's own result.
    return [_difference(item, "characters", len(streamed), len(final))]


def _complete_call(tracker: ItemTracker, call: Call, entry: JsonObject) -> list[JsonObject]:
    metadata = object_of(entry, "metadata")
    provider = provider_of(entry.get("provider_info") or metadata.get("provider_info"))
    has_failed = text_of(entry, "type") == "invalid_tool_call"
    output = None if has_failed else entry.get("output")
    pairs = (
        ("tool", call.tool, text_of(entry, "tool") or text_of(metadata, "tool_name")),
        ("arguments", call.arguments, entry.get("arguments") or metadata.get("arguments")),
        ("output", call.output, None if output is None else as_text(output)),
        ("provider", _provider(call.provider_info), _provider(provider)),
        ("reason", call.failure, text_of(entry, "reason") if has_failed else ""),
    )
    # A value that the final object leaves out says nothing, except whether the call has failed.
    # An open call may lack values.
    differences = [
        _difference(call, about, streamed, final)
        for about, streamed, final in pairs
        if scrub(streamed) != final and (final or (about == "reason" and streamed))
        if streamed or not (call.is_open or about == "arguments")
    ]
    if call.is_open:
        _finish_call(tracker, call, entry)
    return differences


def _provider(info: ProviderInfo | None) -> JsonObject | None:
    return msgspec.to_builtins(info) if info is not None else None


def _finish_call(tracker: ItemTracker, call: Call, entry: JsonObject) -> None:
    if text_of(entry, "type") == "invalid_tool_call":
        metadata = failure_of(object_of(entry, "metadata"))
        tracker.call_failure(call, text_of(entry, "reason"), metadata)
        return
    arguments = object_of(entry, "arguments")
    if not call.has_arguments:
        tracker.call_arguments(call, arguments, None)
    if entry.get("output") is not None:
        tracker.call_success(call, as_text(entry["output"]), arguments)


def _add(tracker: ItemTracker, entry: JsonObject) -> None:
    """An item that was not streamed; or every item of an answer without a stream."""
    kind = text_of(entry, "type")
    if kind in _TEXT_KINDS:
        tracker.open_text(_TEXT_KINDS[kind])
        tracker.text(_TEXT_KINDS[kind], text_of(entry, "content"))
        tracker.close_text(_TEXT_KINDS[kind])
    elif kind in ("tool_call", "invalid_tool_call"):
        metadata = object_of(entry, "metadata")
        call = tracker.open_call(
            tool=text_of(entry, "tool") or text_of(metadata, "tool_name"),
            executes="upstream",
            provider_info=provider_of(entry.get("provider_info") or metadata.get("provider_info")),
            is_named=True,
        )
        _finish_call(tracker, call, entry)


# --- values in LM Studio's events and results ------------------------------------


def provider_of(value: Json) -> ProviderInfo | None:
    if not isinstance(value, dict) or not text_of(value, "type"):
        return None
    return ProviderInfo(
        type=text_of(value, "type"),
        plugin_id=text_of(value, "plugin_id") or None,
        server_label=text_of(value, "server_label") or None,
    )


def failure_of(metadata: JsonObject) -> FailureMetadata:
    arguments = metadata.get("arguments")
    return FailureMetadata(
        type=text_of(metadata, "type") or "invalid_arguments",
        tool_name=text_of(metadata, "tool_name"),
        arguments=arguments if isinstance(arguments, dict) else None,
        provider_info=provider_of(metadata.get("provider_info")),
    )
