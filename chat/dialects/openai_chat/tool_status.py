"""Calls that the server runs itself and reports in events of their own, as Friendli does."""

from collections.abc import Callable, Mapping
from typing import Literal

from chat.dialects.items import Call
from chat.dialects.reading import as_text
from chat.dialects.stream import StreamParser, object_of, objects_of, text_of
from chat.events import (
    ActivityStep,
    Json,
    JsonObject,
    MediaUpdate,
    ProviderInfo,
)
from chat.events.translation import gettext_noop

EVENT = "tool_status"

Phase = Literal["progress", "done", "failed"]

_FAMILY = "tool"
_NO_REASON = gettext_noop("The tool failed without giving a reason.")
_MEMBERS = frozenset(
    (
        *("tool_call_id", "name", "status", "parameters", "result", "files", "message", "error"),
        *("usage", "timestamp", "type"),
    )
)


class ToolStatuses:
    """The calls of one answer, by the id that every event about them carries."""

    def __init__(self, parser: StreamParser) -> None:
        self._parser = parser
        self._tracker = parser.tracker
        self._calls: dict[str, Call] = {}
        # Calls that already have a step in the activity.
        self._underway: set[int] = set()

    def read_status(self, data: JsonObject) -> bool:
        """Returns whether this was about a call."""
        handler = _HANDLERS.get(text_of(data, "status").upper())
        if handler is None or not text_of(data, "tool_call_id"):
            return False
        call = self._call(data)
        if not call.is_open:
            # The call's end was reported before.
            return False
        handler(self, call, data)
        self._parser.unknown_members_of(EVENT, data, _MEMBERS, keeps_null=False)
        return True

    def _call(self, data: JsonObject) -> Call:
        identity = text_of(data, "tool_call_id")
        call = self._calls.get(identity)
        if call is not None:
            return call
        tool = text_of(data, "name")
        self._tracker.close_texts()
        call = self._tracker.open_call(
            tool=tool,
            call_id=identity,
            executes="upstream",
            provider_info=ProviderInfo(type="builtin", name=tool or None),
            is_named=True,
        )
        self._calls[identity] = call
        return call

    def _on_progress(self, call: Call, data: JsonObject) -> None:
        """Arguments are reported once, as soon as there are any; everything else is a step."""
        is_news = call.has_arguments or bool(data.get("message"))
        if not call.has_arguments:
            self._give_arguments(call, data)
        if not is_news:
            return
        found = {name: data[name] for name in ("parameters", "files") if data.get(name)}
        self._step(call, "progress", label=text_of(data, "message"), detail=found or None)
        self._underway.add(call.number)

    def _on_end(self, call: Call, data: JsonObject) -> None:
        self._give_arguments(call, data)
        self._tracker.call_success(call, as_text(data.get("result")))
        self._end_step(call, "done")
        for number, file in enumerate(objects_of(data, "files")):
            self._on_file(call, number, file)

    def _on_error(self, call: Call, data: JsonObject) -> None:
        error = object_of(data, "error")
        reason = text_of(error, "msg") or text_of(error, "message") or text_of(data, "message")
        self._give_arguments(call, data)
        self._tracker.fail_call(call, reason or _NO_REASON)
        self._end_step(call, "failed")

    def _give_arguments(self, call: Call, data: JsonObject) -> None:
        parameters = objects_of(data, "parameters")
        if not call.has_arguments:
            arguments = {text_of(each, "name"): each.get("value") for each in parameters}
            self._tracker.call_arguments(call, arguments, None)

    def _on_file(self, call: Call, number: int, file: JsonObject) -> None:
        url = text_of(file, "url")
        if not url:
            self._parser.raw(EVENT, data={"files": [file]})
            return
        item = self._tracker.open_media()
        self._tracker.emit(
            MediaUpdate(
                item=item.number,
                media_id=f"{call.call_id}-{number}",
                media_type=text_of(file, "media_type") or "application/octet-stream",
                url=url,
                transcript=text_of(file, "name") or None,
            )
        )

    def _end_step(self, call: Call, phase: Phase) -> None:
        if call.number in self._underway:
            self._step(call, phase)

    def _step(self, call: Call, phase: Phase, *, label: str = "", detail: Json = None) -> None:
        self._tracker.emit(
            ActivityStep(
                family=_FAMILY,
                step=call.tool,
                phase=phase,
                label=label,
                ref=call.call_id,
                detail=detail,
            )
        )


_HANDLERS: Mapping[str, Callable[[ToolStatuses, Call, JsonObject], None]] = {
    "STARTED": ToolStatuses._on_progress,
    "UPDATING": ToolStatuses._on_progress,
    "ENDED": ToolStatuses._on_end,
    "ERRORED": ToolStatuses._on_error,
}
