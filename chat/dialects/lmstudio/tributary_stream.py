"""Parses our own stream: LM Studio's events with item numbers, and the types that we added.

Such an event becomes what the log of that Tributary has (`client_events`). Its item gets a number of
this run, and the life of each item is tracked as for any other upstream.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from chat.dialects.items import Call, Item, TextKind
from chat.dialects.lmstudio.client_events import as_logged
from chat.dialects.reading import repair_text
from chat.dialects.stream import StreamParser
from chat.events import (
    EVENT_TYPES,
    ActivityStep,
    ChatEnd,
    ChatStart,
    CitationAdd,
    Ending,
    Error,
    EventBase,
    ItemEvent,
    JsonObject,
    LogprobsAdd,
    MediaUpdate,
    MessageDelta,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    ReplayData,
    Result,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallFailure,
    ToolCallStart,
    ToolCallSuccess,
)
from chat.events.translation import gettext_noop

Place = tuple[int, int]

# The kind of our own notes about replies, and what it becomes in a log that is read back.
REPLIES = "question"
RELAYED = "reply"
LABEL_LENGTH = 200


class Relay:
    """The items of one relayed run, by their numbers in its log."""

    def __init__(self, parser: StreamParser) -> None:
        self.ending: Ending | None = None
        self._parser = parser
        self._tracker = parser.tracker
        self._items: dict[Place, Item] = {}
        self._is_waiting = False

    def read_event(self, data: JsonObject) -> bool:
        """Returns whether the event could be read."""
        logged = as_logged(data)
        if logged is None:
            return True
        try:
            event: EventBase = msgspec.convert(logged, EVENT_TYPES[logged["type"]])
        except msgspec.ValidationError:
            return False
        event.seq = event.t = 0
        handler = _HANDLERS.get(type(event))
        if handler is None:
            self._pass(event)
            return True
        return handler(self, event)

    # --- events without an item -----------------------------------------------------------

    def _pass(self, event: EventBase) -> None:
        self._parser.start()
        # Every type without a handler is in the union as it is.
        self._tracker.emit(event)  # type: ignore[arg-type]

    def _on_start(self, event: ChatStart) -> bool:
        has_started = self._tracker.has_started
        self._parser.start(event.model_instance_id)
        if has_started and event.model_instance_id not in ("", self._parser.model):
            self._parser.meta({"model": event.model_instance_id})
        if self._is_waiting:
            self._is_waiting = False
            self._tracker.emit(_queue_step("done", gettext_noop("Queued on the server")))
        return True

    def waits(self, message: str) -> None:
        """The answer waits in the queue of that server, which is reported before its log begins."""
        self._parser.start()
        self._is_waiting = True
        label = repair_text(message)[:LABEL_LENGTH]
        label = f"{label} on the server" if label else gettext_noop("Queued on the server")
        self._tracker.emit(_queue_step("progress", label))

    def _on_error(self, event: Error) -> bool:
        self._parser.start()
        self._parser.fail(event.error)
        return True

    def _on_step(self, event: ActivityStep) -> bool:
        """Notes of users' replies are only written here: a server that sent one could claim that
        somebody of this team had approved something."""
        is_note_of_reply = event.family == REPLIES
        self._pass(msgspec.structs.replace(event, family=RELAYED) if is_note_of_reply else event)
        return True

    def _on_replay(self, event: ReplayData) -> bool:
        """Reports that there is data to be sent back; the data itself stays at that server."""
        item = self._items.get((event.choice, event.item or 0))
        if event.kind != "native" and event.item is not None and item is not None:
            self._pass(msgspec.structs.replace(event, item=item.number, data=None))
        return True

    def _on_end(self, event: ChatEnd) -> bool:
        """Uses only what no earlier event has told of the result."""
        self._parser.start(event.result.model_instance_id)
        self._tracker.close_all()
        # A user of that installation may have stopped it; here the name would look like one of
        # ours.
        stop = msgspec.structs.replace(event.result.ext.stop, by=None)
        self.ending = Ending(status=event.result.ext.status, stop=stop)
        self._parser.meta(_told_at_the_end(event.result))
        self._parser.is_done = True
        return True

    # --- text ------------------------------------------------------------------------------

    def _on_message_start(self, event: MessageStart) -> bool:
        self._open_text(event, "message", phase=event.phase)
        return True

    def _on_reasoning_start(self, event: ReasoningStart) -> bool:
        self._parser.start()
        place = (event.choice, event.item)
        known = self._items.get(place)
        if known is not None and known.is_open and known.kind == "reasoning":
            self._tracker.name_reasoning(known, event.kind)
        else:
            self._items[place] = self._tracker.open_block(
                "reasoning", choice=event.choice, reasoning=event.kind
            )
        return True

    def _on_text_delta(self, event: MessageDelta | ReasoningDelta | RefusalDelta) -> bool:
        kind = _TEXTS[type(event)]
        item = self._items.get((event.choice, event.item)) or self._open_text(event, kind)
        if item.kind != kind or not item.is_open:
            return False
        category = event.category if isinstance(event, RefusalDelta) else None
        self._tracker.block_text(item, event.content, category=category)
        return True

    def _on_text_end(self, event: MessageEnd | ReasoningEnd) -> bool:
        item = self._items.get((event.choice, event.item))
        if item is None or not item.is_open:
            return False
        self._tracker.close(item)
        return True

    def _open_text(self, event: ItemEvent, kind: TextKind, *, phase: str | None = None) -> Item:
        self._parser.start()
        item = self._tracker.open_block(kind, choice=event.choice, phase=phase)
        self._items[event.choice, event.item] = item
        return item

    # --- tool calls --------------------------------------------------------------------------

    def _on_call_start(self, event: ToolCallStart) -> bool:
        self._parser.start()
        call = self._tracker.open_call(
            choice=event.choice,
            tool=event.tool,
            call_id=event.call_id,
            executes=event.executes,
            provider_info=event.provider_info,
            caller=event.caller,
        )
        call.id_synthesised = event.id_synthesised
        self._tracker.announce(call)
        self._items[event.choice, event.item] = call
        return True

    def _on_call_delta(self, event: ToolCallDelta) -> bool:
        call = self._open_call(event)
        if call is not None:
            self._tracker.call_text(call, event.fragment)
        return call is not None

    def _on_call_arguments(self, event: ToolCallArguments) -> bool:
        call = self._named_call(event, event.call_id, event.tool)
        if call is None:
            return False
        call.id_synthesised = event.id_synthesised or call.id_synthesised
        call.provider_info = event.provider_info or call.provider_info
        self._tracker.call_arguments(call, event.arguments, event.arguments_raw)
        return True

    def _on_call_success(self, event: ToolCallSuccess) -> bool:
        call = self._named_call(event, event.call_id, event.tool)
        if call is None:
            return False
        call.provider_info = event.provider_info or call.provider_info
        self._tracker.call_success(call, event.output, event.arguments)
        return True

    def _on_call_failure(self, event: ToolCallFailure) -> bool:
        call = self._named_call(event, event.call_id, event.metadata.tool_name)
        if call is None:
            return False
        call.arguments_raw = event.arguments_raw or call.arguments_raw
        self._tracker.call_failure(call, event.reason, event.metadata)
        return True

    def _named_call(self, event: ItemEvent, call_id: str | None, tool: str) -> Call | None:
        """Name and id may have come after the call was opened."""
        call = self._open_call(event, tool)
        if call is not None:
            call.tool = call.tool or tool
            call.call_id = call_id or call.call_id
        return call

    def _open_call(self, event: ItemEvent, tool: str = "") -> Call | None:
        """The call, which need not have been opened if the log continues an answer; ``None`` if the
        number belongs to something else, or to a call that has ended."""
        place = (event.choice, event.item)
        if place not in self._items:
            self._parser.start()
            self._items[place] = self._tracker.open_call(
                choice=event.choice, tool=tool, executes="upstream"
            )
        item = self._items[place]
        return item if isinstance(item, Call) and item.is_open else None

    # --- other events -----------------------------------------------------------------------------

    def _on_addition(self, event: CitationAdd | LogprobsAdd) -> bool:
        item = self._items.get((event.choice, event.item))
        if item is not None:
            self._pass(msgspec.structs.replace(event, item=item.number))
        return item is not None

    def _on_media(self, event: MediaUpdate) -> bool:
        self._parser.start()
        place = (event.choice, event.item)
        if place not in self._items:
            self._items[place] = self._tracker.open_media(choice=event.choice)
        if self._items[place].kind != "media":
            return False
        self._pass(msgspec.structs.replace(event, item=self._items[place].number))
        return True


def _queue_step(phase: Literal["progress", "done"], label: str) -> ActivityStep:
    return ActivityStep(family="queue", step="place", phase=phase, label=label, ref="queue")


def _told_at_the_end(result: Result) -> JsonObject:
    """The figures, some of which were measured there, and the id of the answer."""
    figures = msgspec.structs.asdict(result.stats)
    values: JsonObject = {
        "stats": {name: value for name, value in figures.items() if value is not None}
    }
    if result.response_id is not None:
        values["response_id"] = result.response_id
    return values


_TEXTS: Mapping[type, TextKind] = {
    MessageDelta: "message",
    ReasoningDelta: "reasoning",
    RefusalDelta: "refusal",
}
# Each handler gets the type that it is listed under. Other types pass unchanged.
_HANDLERS: Mapping[type, Callable[..., bool]] = {
    ChatStart: Relay._on_start,
    Error: Relay._on_error,
    ActivityStep: Relay._on_step,
    ReplayData: Relay._on_replay,
    ChatEnd: Relay._on_end,
    MessageStart: Relay._on_message_start,
    MessageDelta: Relay._on_text_delta,
    MessageEnd: Relay._on_text_end,
    ReasoningStart: Relay._on_reasoning_start,
    ReasoningDelta: Relay._on_text_delta,
    ReasoningEnd: Relay._on_text_end,
    RefusalDelta: Relay._on_text_delta,
    ToolCallStart: Relay._on_call_start,
    ToolCallDelta: Relay._on_call_delta,
    ToolCallArguments: Relay._on_call_arguments,
    ToolCallSuccess: Relay._on_call_success,
    ToolCallFailure: Relay._on_call_failure,
    CitationAdd: Relay._on_addition,
    LogprobsAdd: Relay._on_addition,
    MediaUpdate: Relay._on_media,
}
