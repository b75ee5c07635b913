"""What the parsers of all dialects share: frames in, events out, exactly one ending."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from chat.dialects.base import Parser
from chat.dialects.errors import NO_WORDS, error_from, plain_text, unescaped_error
from chat.dialects.items import ItemTracker
from chat.dialects.reading import NotJson, Payload, read_frame, read_json, repair_text, scrub
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
from chat.wire.sse import Frame

CUT_MESSAGE = "The connection ended before the answer was complete."
NOT_JSON_MESSAGE = "The server's answer is neither an event stream nor JSON."
ANOTHER_BODY_MESSAGE = "The server's answer is JSON, but no answer of this API."
# The reasons with which calls of ours that are whole wait to be answered: a word that no table
# knows does not say that they must not.
CALLS_WAIT: frozenset[StopReason] = frozenset(("tool_use", "unknown"))
_ENDS_OF_INPUT: frozenset[ErrorKind] = frozenset(("cut", "idle_timeout"))


class StreamParser(Parser):
    """Base of the dialects' parsers: they say what a payload means and when it was the last.

    ``on_payload`` handles one JSON object, ``on_done`` the ``[DONE]`` marker, ``on_body`` a
    complete JSON answer, ``natural_ending`` tells how a finished stream ended (``None``:
    no terminator came), ``on_close`` reports last facts once everything is closed.
    """

    # Whether the text of messages and reasoning is looked at again, once it was reported.
    looks_back: ClassVar[bool] = True

    def __init__(self, *, dialect: str, model: str, endpoint: str) -> None:
        self.is_done = False
        self.ending: Ending | None = None
        self.dialect = dialect
        self.model = model
        self.endpoint = endpoint
        self.tracker = ItemTracker(keeps_text=self.looks_back)
        self.error: ErrorInfo | None = None
        # The text of the payload being handled, for members whose spelling is kept.
        self.source = ""
        self._has_surrogates = False
        self._noted: set[tuple[str, str]] = set()
        self._unknown_members: dict[str, int] = {}
        # Frames that are no JSON: words of the answer may be in them. The last one of a stream that
        # was cut does not count: that answer says so anyway.
        self._unreadable_frames = 0
        self._is_trailing = False

    @property
    def unknown_members(self) -> Mapping[str, int]:
        """Members that no table knows, as ``owner.name``, and how often each came."""
        return self._unknown_members

    # --- for subclasses ----------------------------------------------------------

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        raise NotImplementedError

    def on_body(self, data: JsonObject) -> None:
        raise NotImplementedError

    def natural_ending(self) -> Ending | None:
        raise NotImplementedError

    def said_reason(self) -> str | None:
        """The word with which the upstream ended the answer, if it did before it failed."""
        return None

    def on_done(self) -> None:
        """``[DONE]``; means nothing to dialects that do not know it."""

    def on_late(self, data: JsonObject) -> None:
        """An object that came after the terminator."""

    def on_close(self, *, is_complete: bool) -> None:
        """Everything is closed; the ending is set next."""

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
        else:
            self.start()
            self.raw(None, text=plain_text(text))
            self.fail(ErrorInfo(message=NOT_JSON_MESSAGE, kind="protocol"))
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
        """``chat.start``, unless it was given; ``model`` is what the upstream says it uses."""
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
        """Reports an error; the first one decides that the run has failed."""
        self.error = self.error or info
        self.tracker.emit(Error(error=info))

    def fail_with(self, value: Json) -> None:
        self.fail(error_from(scrub(value)))

    def fail_with_body(self, data: JsonObject) -> None:
        """A complete body that is no answer: an error in words of its own, or something else
        that stands at this address."""
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
        """Keeps what no table knows."""
        self.tracker.emit(VendorRaw(dialect=self.dialect, event=event, data=data, text=text))

    def unknown_member(self, owner: str, name: str, value: Json) -> None:
        """Keeps the first value of a member that no table knows, and counts the others."""
        key = f"{owner}.{name}"
        count = self._unknown_members.get(key, 0)
        self._unknown_members[key] = count + 1
        if count == 0:
            self.raw(owner, data={name: value})

    def note_once(self, name: str, value: Json) -> None:
        """A ``meta.update`` that is given once per name and value."""
        key = (name, repr(value))
        if key not in self._noted:
            self._noted.add(key)
            self.meta({name: value})

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
        """No object: kept, and an error if it is called one or is the ruin of one."""
        self.start()
        text = repair_text(payload.text) if payload.kind == "text" else None
        self.raw(payload.event, data=payload.value, text=text)
        info = unescaped_error(text) if text else None
        if info is None and payload.event == "error":
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
        """A terminator that came before our side ended the stream still counts. Silence is an end
        of input too: some servers keep the connection open after their last word."""
        is_end_of_input = cause == "eof" or (error is not None and error.kind in _ENDS_OF_INPUT)
        return self.natural_ending() if is_end_of_input or self.is_done else None

    def _forced_ending(self, cause: Cause, error: ErrorInfo | None) -> Ending:
        if cause == "stopped":
            return ending_of("stopped", "stopped")
        if cause == "interrupted":
            return ending_of("interrupted", "interrupted")
        if cause == "eof":
            error = ErrorInfo(message=CUT_MESSAGE, kind="cut", retryable=True)
        info = error or ErrorInfo(message=CUT_MESSAGE)
        self.fail(info)
        return ending_of("cut", "cut") if info.kind == "cut" else ending_of("failed", "error")

    def _report_unknown_members(self) -> None:
        repeated = {name: count for name, count in self._unknown_members.items() if count > 1}
        if repeated:
            self.meta({"unknown_members": repeated})

    def _take(self) -> list[Event]:
        events = self.tracker.take()
        return [scrub_event(event) for event in events] if self._has_surrogates else events


def ending_of(status: Status, reason: StopReason, *, raw: str | None = None) -> Ending:
    return Ending(status=status, stop=Stop(reason=reason, raw=raw))


def scrub_event(event: Event) -> Event:
    """The event with every text in it fit to be encoded."""
    return msgspec.convert(scrub(msgspec.to_builtins(event)), type(event))


def whole_of(data: Mapping[str, Json], name: str) -> int | None:
    """A whole number, such as an index. To Python true and false are numbers too."""
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text_of(data: Mapping[str, Json], name: str) -> str:
    """A member if it is text, else the empty text."""
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
    """What a request cost, where a server says so; also a round sum has the form of a fraction,
    which is how it is read again."""
    value = number_of(usage, "cost")
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None


def count_of(data: Mapping[str, Json], name: str) -> int | None:
    """A token count: a whole number that is not negative."""
    value = number_of(data, name)
    return int(value) if value is not None and value >= 0 else None
