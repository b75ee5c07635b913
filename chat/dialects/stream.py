"""The base class of the parsers of all dialects: frames in, events out, exactly one ending."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from chat.dialects.base import Parser
from chat.dialects.errors import NO_WORDS, error_from, error_of, plain_text, unescaped_error
from chat.dialects.finish_reasons import error_kind_of
from chat.dialects.items import ItemTracker
from chat.dialects.reading import NotJson, Payload, read_frame, read_json, repair_text, scrub
from chat.dialects.vendor_errors import is_bare_error
from chat.events import (
    Cause,
    ChatStart,
    Ending,
    Error,
    ErrorInfo,
    ErrorKind,
    Event,
    Json,
    JsonObject,
    MetaUpdate,
    Status,
    Stop,
    StopReason,
    VendorRaw,
)
from chat.events.translation import gettext_noop
from chat.wire.sse import Frame

CUT_MESSAGE = gettext_noop("The connection was lost before the answer was complete.")
STOPPED_MESSAGE = gettext_noop("The server stopped with an error.")
NOT_JSON_MESSAGE = gettext_noop("The server’s answer is neither an event stream nor JSON.")
ANOTHER_BODY_MESSAGE = gettext_noop(
    "The server’s answer is JSON, but not in the format of this API type."
)
# Stop reasons after which complete calls of our tools wait for results. An unknown reason does not
# rule that out.
CALLS_WAIT: frozenset[StopReason] = frozenset(("tool_use", "unknown"))
_ENDS_OF_INPUT: frozenset[ErrorKind] = frozenset(("cut", "idle_timeout"))


class EventRule(NamedTuple):
    """How a parser reads an event of this name. ``handle`` returns whether it could; ``members`` are
    those that it reads, others are kept. Without ``members`` it reads all."""

    handle: Callable[[Any, JsonObject], bool]
    members: Collection[str] | None = None


def reads(handle: Callable[[Any, JsonObject], bool], *members: str) -> EventRule:
    return EventRule(handle, frozenset(("type", *members)))


class StreamParser(Parser):
    """Subclasses define what a payload means and which one was the last.

    ``on_payload`` handles one JSON object, ``on_done`` the ``[DONE]`` marker, ``on_body`` a
    complete JSON answer, ``natural_ending`` tells how a finished stream ended (``None``:
    no terminator came), ``on_close`` reports last facts once everything is closed.
    """

    # True if the text of messages and reasoning is read again after it was reported.
    looks_back: ClassVar[bool] = True

    def __init__(self, *, dialect: str, model: str, endpoint: str) -> None:
        self.is_done = False
        self.ending: Ending | None = None
        self.dialect = dialect
        self.model = model
        self.endpoint = endpoint
        self.tracker = ItemTracker(keeps_text=self.looks_back)
        self.error: ErrorInfo | None = None
        # The text of the current payload, for members whose original spelling is kept.
        self.source = ""
        self._has_surrogates = False
        self._suggested: JsonObject = {}
        self._noted: set[tuple[str, str]] = set()
        # Unknown members as ``owner.name``, and how often each was received.
        self.unknown_members: dict[str, int] = {}
        # Frames that are not JSON: text of the answer may be lost in them. The last frame of a stream that
        # was cut does not count, because the answer is marked as cut anyway.
        self._unreadable_frames = 0
        self._is_trailing = False

    # --- for subclasses ----------------------------------------------------------

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        raise NotImplementedError

    def on_body(self, data: JsonObject) -> None:
        raise NotImplementedError

    def natural_ending(self) -> Ending | None:
        raise NotImplementedError

    def said_reason(self) -> str | None:
        """The upstream's own stop reason, if it sent one before it failed."""
        return None

    def on_done(self) -> None:
        """The ``[DONE]`` marker; ignored by dialects without one."""

    def on_late(self, data: JsonObject) -> None:
        """An object that was received after the terminator."""

    def on_close(self, *, is_complete: bool) -> None:
        """Called when all items are closed, right before the ending is set."""

    # --- the contract of Parser ----------------------------------------------------

    def feed(self, frame: Frame) -> list[Event]:
        self._is_trailing = frame.is_trailing
        for payload in read_frame(frame):
            self._has_surrogates = self._has_surrogates or payload.has_surrogates
            self._handle(payload)
        return self._take()

    def feed_body(self, body: bytes) -> list[Event]:
        if self.is_done:
            return []
        text = body.decode("utf-8", "replace")
        try:
            data, self._has_surrogates = read_json(text)
        except NotJson:
            data = None
        if isinstance(data, dict):
            self.source = text
            self._body(data)
        elif _is_list_of_errors(data):
            self.start()
            self.fail_with(data)
        else:
            self.start()
            self.raw(None, text=plain_text(text))
            self.fail(error_of("protocol", NOT_JSON_MESSAGE))
        self.is_done = True
        return self._take()

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]:
        if self.ending is not None:
            return []
        self.start()
        ending = None if self.error else self.ending_after(cause, error)
        is_complete = ending is not None
        self.tracker.close_all(is_complete=is_complete)
        if ending is None and self.error is None:
            ending = self._forced_ending(cause, error)
        self._report_unknown_members()
        if self._unreadable_frames:
            self.meta({"unreadable_frames": self._unreadable_frames})
        self.on_close(is_complete=is_complete)
        self.ending = ending or ending_of("failed", "error", raw=self.said_reason())
        self.is_done = True
        return self._take()

    # --- helpers ---------------------------------------------------------------------

    def start(self, model: str = "") -> None:
        """Emits ``chat.start`` once. ``model`` is the name that the upstream gives."""
        if not self.tracker.has_started:
            self.tracker.start(
                ChatStart(
                    model_instance_id=model or self.model or self.endpoint,
                    dialect=self.dialect,
                    endpoint=self.endpoint,
                    requested_model=self.model,
                )
            )

    def fail(self, info: ErrorInfo) -> None:
        """Emits an error; the first one makes the run fail."""
        self.error = self.error or info
        self.tracker.emit(Error(error=info))

    def fail_with(self, value: Json) -> None:
        self.fail(error_from(scrub(value)))

    def fail_for_reason(self, reason: str) -> None:
        """Fails for a finish reason that is an error, unless an error has said more."""
        kind = error_kind_of(reason)
        if kind is not None and self.error is None:
            code = None if kind == "server" and reason in ("error", "failed") else reason
            self.fail(error_of(kind, STOPPED_MESSAGE, code=code))

    def fail_with_body(self, data: JsonObject) -> None:
        """Fails for a complete body that is not an answer: an error in an unknown form, or the response of
        something else at this address."""
        self.start()
        info = error_from(scrub(data))
        if info.message == NO_WORDS:
            info.message = ANOTHER_BODY_MESSAGE
        if info.kind == "unknown":
            info.kind = "protocol"
        self.fail(info)

    def meta(self, values: JsonObject) -> None:
        if values:
            self.tracker.emit(MetaUpdate(values=values))

    def raw(self, event: str | None, *, data: Json = None, text: str | None = None) -> None:
        """Emits unknown data as ``vendor.raw``."""
        self.tracker.emit(VendorRaw(dialect=self.dialect, event=event, data=data, text=text))

    def unknown_member(self, owner: str, name: str, value: Json) -> None:
        """Emits the first value of an unknown member and counts the others."""
        key = f"{owner}.{name}"
        count = self.unknown_members.get(key, 0)
        self.unknown_members[key] = count + 1
        if count == 0:
            self.raw(owner, data={name: value})

    def handle_event(
        self, name: str, event: str | None, data: JsonObject, rule: EventRule | None
    ) -> None:
        """Reads an event of an API whose payloads repeat the name of their ``event``."""
        if rule is None or not rule.handle(self, data):
            self.raw(name or None, data=data)
        elif rule.members is not None:
            for member, value in data.items():
                if member not in rule.members:
                    self.unknown_member(name, member, value)
        if event and name != event:
            self.note_once("event_name_mismatch", {"event": event, "type": name})

    def unknown_members_of(
        self, owner: str, data: JsonObject, known: Collection[str], *, keeps_null: bool = True
    ) -> None:
        """Keeps the members that nobody reads; a null says nothing in some APIs (``keeps_null``)."""
        for name, value in data.items():
            if name not in known and (keeps_null or value is not None):
                self.unknown_member(owner, name, value)

    def note_once(self, name: str, value: Json) -> None:
        """Emits a ``meta.update`` once per name and value."""
        key = (name, repr(value))
        if key not in self._noted:
            self._noted.add(key)
            self.meta({name: value})

    def suggest(self, option: str, value: Json) -> None:
        """Offers an option of the server with which this answer would have been read better."""
        if option not in self._suggested:
            self._suggested[option] = value
            self.meta({"suggested_options": dict(self._suggested)})

    def _handle(self, payload: Payload) -> None:
        if payload.kind == "done":
            if not self.is_done:
                self.start()
                self.on_done()
        elif self.is_done:
            if isinstance(payload.value, dict):
                self.on_late(payload.value)
        elif payload.kind == "json" and isinstance(payload.value, dict):
            self.source = payload.text
            self.on_payload(payload.event, payload.value)
        else:
            self._handle_other(payload)

    def _handle_other(self, payload: Payload) -> None:
        """A payload that is not an object: kept, and an error if it is named or looks like a broken one."""
        self.start()
        text = repair_text(payload.text) if payload.kind == "text" else None
        self.raw(payload.event, data=payload.value, text=text)
        info = unescaped_error(text) if text else None
        if info is None and (payload.event == "error" or _is_list_of_errors(payload.value)):
            info = error_from(scrub(payload.value) if text is None else plain_text(text))
        if info is not None:
            self.fail(info)
        elif text is not None and not self._is_trailing:
            self._unreadable_frames += 1

    def _body(self, data: JsonObject) -> None:
        if data.get("error"):
            self.start()
            self.fail_with(data)
        else:
            self.on_body(data)

    def ending_after(self, cause: Cause, error: ErrorInfo | None) -> Ending | None:
        """A terminator that was received before our side ended the stream still counts. An idle timeout is an
        end of input, too: some servers keep the connection open after the last event."""
        is_end_of_input = cause == "eof" or (error is not None and error.kind in _ENDS_OF_INPUT)
        return self.natural_ending() if is_end_of_input or self.is_done else None

    def _forced_ending(self, cause: Cause, error: ErrorInfo | None) -> Ending:
        if cause == "stopped":
            return ending_of("stopped", "stopped")
        if cause == "interrupted":
            return ending_of("interrupted", "interrupted")
        if cause == "eof":
            error = error_of("cut", CUT_MESSAGE)
        info = error or error_of("unknown", CUT_MESSAGE)
        self.fail(info)
        return ending_of("cut", "cut") if info.kind == "cut" else ending_of("failed", "error")

    def _report_unknown_members(self) -> None:
        repeated = {name: count for name, count in self.unknown_members.items() if count > 1}
        if repeated:
            self.meta({"unknown_members": repeated})

    def _take(self) -> list[Event]:
        events = self.tracker.take_events()
        return [scrub_event(event) for event in events] if self._has_surrogates else events


def says_error(event: str | None, data: JsonObject) -> bool:
    """Returns whether an object that is no event of its API tells of a failure."""
    return bool(data.get("error")) or (not event and is_bare_error(data))


def _is_list_of_errors(value: Json) -> bool:
    """Google's servers put an error into a list."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and bool(value[0].get("error"))
    )


def ending_of(status: Status, reason: StopReason, *, raw: str | None = None) -> Ending:
    return Ending(status=status, stop=Stop(reason=reason, raw=raw))


def scrub_event(event: Event) -> Event:
    """The event with lone surrogates replaced in all texts, so that it can be encoded."""
    return msgspec.convert(scrub(msgspec.to_builtins(event)), type(event))


def whole_of(data: Mapping[str, Json], name: str) -> int | None:
    """An integer member. Booleans, which are integers in Python, do not count."""
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_of(data: Mapping[str, Json], name: str) -> str:
    """A string member, or an empty string."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def object_of(data: Mapping[str, Json], name: str) -> JsonObject:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(data: Mapping[str, Json], name: str) -> list[JsonObject]:
    """The members of a list that are objects."""
    value = data.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def number_of(data: Mapping[str, Json], name: str) -> float | None:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def cost_of(usage: Mapping[str, Json]) -> float | None:
    """The cost of a request as a float (also for whole numbers, so that it reads back as written), if the
    server sends one."""
    value = number_of(usage, "cost")
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None


def count_of(data: Mapping[str, Json], name: str) -> int | None:
    """A token count: an integer of 0 or more."""
    value = number_of(data, name)
    return int(value) if value is not None and value >= 0 else None
