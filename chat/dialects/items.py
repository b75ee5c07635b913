"""Tracks output items: each has a number in order of appearance, is opened once and closed once."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from chat.dialects.reading import as_object, join_surrogates, repair_text
from chat.events import (
    UNFINISHED_CALL,
    ChatStart,
    Event,
    Executor,
    FailureMetadata,
    JsonObject,
    MessageDelta,
    MessageEnd,
    MessageStart,
    ProviderInfo,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningKind,
    ReasoningStart,
    RefusalDelta,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallFailure,
    ToolCallStart,
    ToolCallSuccess,
)
from chat.events.text_buffer import add_piece
from chat.events.translation import gettext_noop

TextKind = Literal["message", "reasoning", "refusal"]
Kind = Literal["message", "reasoning", "refusal", "tool_call", "media"]
TEXT_KINDS: tuple[TextKind, ...] = ("message", "reasoning", "refusal")

# Servers send these for a call without arguments, or before the arguments.
NO_ARGUMENTS = ("", "{}", "null")

# Arguments longer than this are an error of the model or the server.
MAX_ARGUMENT_CHARACTERS = 8 * 1024 * 1024

NOT_JSON = gettext_noop("The arguments of this call aren’t a JSON object.")
TOO_LONG = gettext_noop("The arguments of this call are too long.")
TORN = gettext_noop(
    "Parts of the tool calls were lost, so the arguments of this call may be missing."
)
NO_NAME = gettext_noop("The server sent a call without a tool name.")


class Item(Struct, kw_only=True, eq=False):
    """An item that was opened, and the text that was reported for it so far, if its tracker keeps it.

    ``held`` is a high surrogate that waits for its other half. Pieces before ``kept_pieces`` stay
    as they are; those behind it may become one.
    """

    kind: Kind
    number: int
    choice: int = 0
    is_open: bool = True
    held: str = ""
    pieces: list[str] = []
    kept_pieces: int = 0

    def joined(self) -> str:
        return "".join(self.pieces)


class Call(Item, kw_only=True, eq=False):
    """A tool call being received. It is announced when its name is complete."""

    tool: str = ""
    call_id: str | None = None
    id_synthesised: bool = False
    # The id of the program whose code made this call.
    caller: str | None = None
    executes: Executor = "client"
    provider_info: ProviderInfo | None = None
    is_announced: bool = False
    has_arguments: bool = False
    arguments: JsonObject | None = None
    arguments_raw: str | None = None
    # The result of the tool, or the reason of its failure.
    output: str | None = None
    failure: str = ""
    piece_characters: int = 0
    # True if each fragment so far began with the previous one: the server may resend the whole text.
    is_cumulative: bool = True


class ItemTracker:
    """Emits the events of a parser. ``take_events`` returns those since the last call.

    Items are addressed by the object that opening gave, or by kind through the ``text``
    methods, which open what is missing. Adjacent surrogate halves are joined over deltas.
    Messages and reasoning keep their text for a parser that looks at it again, unless ``keeps_text``
    is off: it would be one more copy of the whole answer.
    """

    def __init__(self, *, keeps_text: bool = True) -> None:
        self._keeps_text = keeps_text
        self._events: list[Event] = []
        self._items: dict[int, list[Item]] = {}
        self._current: dict[tuple[int, TextKind], Item] = {}
        self._last: dict[tuple[int, Kind], Item] = {}
        self._unannounced: dict[int, Call] = {}
        self.has_started = False
        # The name of the model in ``chat.start``.
        self.model = ""

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def start(self, event: ChatStart) -> None:
        """Emits ``chat.start`` once; further calls are ignored."""
        if not self.has_started:
            self.has_started = True
            self.model = event.model_instance_id
            self._events.append(event)

    def items(self, choice: int = 0) -> list[Item]:
        return self._items.get(choice, [])

    def last(self, kind: Kind, *, choice: int = 0) -> Item | None:
        """The newest item of this kind, open or closed."""
        return self._last.get((choice, kind))

    def choices(self) -> list[int]:
        return sorted(self._items)

    def has_output(self) -> bool:
        return bool(self._items)

    def has_reasoned(self, text: str, *, choice: int = 0) -> bool:
        """Some servers send reasoning twice: True if there is an item with just this one. Joins the text of
        all reasoning, so it is for the beginning of an item, not for each delta."""
        text = text.strip()
        return any(
            item.kind == "reasoning" and item.joined().strip() == text
            for item in self.items(choice)
        )

    # --- text ------------------------------------------------------------------

    def open_text(
        self, kind: TextKind, *, choice: int = 0, reasoning: ReasoningKind = "full"
    ) -> Item:
        """Opens an item of this kind and closes an open one of the same kind."""
        self.close_text(kind, choice=choice)
        item = self.open_block(kind, choice=choice, reasoning=reasoning)
        self._current[choice, kind] = item
        return item

    def open_block(
        self,
        kind: TextKind,
        *,
        choice: int = 0,
        phase: str | None = None,
        reasoning: ReasoningKind = "full",
    ) -> Item:
        """Opens an item without closing others, for dialects whose deltas name their block. Only ``block_text``
        and ``close`` refer to it."""
        item = Item(kind=kind, number=0)
        self._place(item, choice)
        if kind == "message":
            self.emit(MessageStart(item=item.number, choice=choice, phase=phase))
        elif kind == "reasoning":
            self.emit(ReasoningStart(item=item.number, choice=choice, kind=reasoning))
        return item

    def name_reasoning(self, item: Item, kind: ReasoningKind) -> None:
        """Sets the kind of reasoning that was opened before its kind was known."""
        self.emit(ReasoningStart(item=item.number, choice=item.choice, kind=kind))

    def text(
        self, kind: TextKind, content: str, *, choice: int = 0, category: str | None = None
    ) -> None:
        """Emits a delta of the open item of this kind; opens one if there is none."""
        if not content:
            return
        item = self._current.get((choice, kind)) or self.open_text(kind, choice=choice)
        self._delta(item, content, category)

    def block_text(self, item: Item, content: str, *, category: str | None = None) -> None:
        """Emits a delta of this item; ignored after the item was closed."""
        if content and item.is_open:
            self._delta(item, content, category)

    def close(self, item: Item, *, is_complete: bool = True) -> None:
        """Closes this item if it is open."""
        self._announce_pending(item.choice)
        self._close(item, is_complete=is_complete)

    def switch_text(self, kind: TextKind, content: str, *, choice: int = 0) -> None:
        """Like ``text``, but closes open text of other kinds first; for dialects without block markers."""
        if not content:
            return
        item = self._current.get((choice, kind))
        if item is None:
            self.close_texts(choice=choice)
            item = self.open_text(kind, choice=choice)
        self._delta(item, content)

    def current(self, kind: TextKind, *, choice: int = 0) -> Item | None:
        return self._current.get((choice, kind))

    def close_text(self, kind: TextKind, *, choice: int = 0) -> bool:
        """Closes the open item of this kind. Returns whether there was one."""
        item = self._current.get((choice, kind))
        if item is None:
            return False
        self._close(item)
        return True

    def close_texts(self, *, choice: int = 0) -> None:
        for kind in TEXT_KINDS:
            self.close_text(kind, choice=choice)

    def _delta(self, item: Item, content: str, category: str | None = None) -> None:
        # Nearly all text passes, so it is asked here and not with a call for each delta.
        if item.held or not content.isascii() or "\x00" in content:
            content = self._whole_characters(item, content)
            if not content:
                return
        number, choice = item.number, item.choice
        if self._keeps_text or item.kind == "refusal":
            add_piece(item.pieces, content, first=item.kept_pieces)
        if item.kind == "message":
            self._events.append(MessageDelta(item=number, choice=choice, content=content))
        elif item.kind == "reasoning":
            self._events.append(ReasoningDelta(item=number, choice=choice, content=content))
        else:
            self._events.append(
                RefusalDelta(item=number, choice=choice, content=content, category=category)
            )

    def _whole_characters(self, item: Item, content: str) -> str:
        if content.isascii() and not item.held:
            return content.replace("\x00", "\u2400") if "\x00" in content else content
        content = join_surrogates(item.held + content)
        item.held = ""
        if "\ud800" <= content[-1] <= "\udbff":
            item.held = content[-1]
            content = content[:-1]
        return repair_text(content)

    # --- tool calls --------------------------------------------------------------

    def open_call(
        self,
        *,
        choice: int = 0,
        tool: str = "",
        call_id: str | None = None,
        executes: Executor = "client",
        provider_info: ProviderInfo | None = None,
        caller: str | None = None,
        is_named: bool = False,
    ) -> Call:
        """Opens a call. One whose name may be incomplete (not ``is_named``) is announced with its first
        argument text, by ``announce``, or before the next item opens."""
        call = Call(
            kind="tool_call",
            number=0,
            tool=tool,
            call_id=call_id,
            executes=executes,
            provider_info=provider_info,
            caller=caller,
        )
        self._place(call, choice)
        self._unannounced[choice] = call
        if is_named:
            self.announce(call)
        return call

    def announce(self, call: Call) -> None:
        if call.is_announced:
            return
        call.is_announced = True
        self._unannounced.pop(call.choice, None)
        self.emit(
            ToolCallStart(
                item=call.number,
                choice=call.choice,
                tool=call.tool,
                provider_info=call.provider_info,
                call_id=call.call_id,
                executes=call.executes,
                id_synthesised=call.id_synthesised,
                caller=call.caller,
            )
        )
        if call.pieces:
            self._fragment(call, call.joined())

    def call_text(self, call: Call, fragment: str) -> None:
        """Adds a fragment of argument text. If the server resends the whole text, only the new part is emitted."""
        if not fragment or not call.is_open:
            return
        fragment = self._whole_characters(call, fragment)
        addition = self._new_part(call, fragment)
        call.piece_characters += len(addition)
        if not addition or call.piece_characters > MAX_ARGUMENT_CHARACTERS:
            return
        call.pieces.append(addition)
        if call.is_announced:
            self._fragment(call, addition)
        elif call.tool:
            self.announce(call)

    def call_whole_text(self, call: Call, text: str) -> None:
        """Sets the whole argument text. It overrides fragments that were emitted before."""
        if call.pieces:
            call.pieces[:] = [text]
            call.piece_characters = len(text)
        else:
            self.call_text(call, text)

    def call_arguments(self, call: Call, arguments: JsonObject, raw: str | None) -> None:
        """Emits the whole arguments, from the upstream or from the buffer; ignored after the call was
        closed. A call without a name cannot be run and fails."""
        if not call.is_open:
            return
        self.announce(call)
        call.arguments = arguments
        call.arguments_raw = raw
        if call.executes == "client" and not call.tool:
            self.fail_call(call, NO_NAME, "invalid_name")
            return
        call.has_arguments = True
        self.emit(
            ToolCallArguments(
                item=call.number,
                choice=call.choice,
                tool=call.tool,
                arguments=arguments,
                provider_info=call.provider_info,
                call_id=call.call_id,
                arguments_raw=raw,
                id_synthesised=call.id_synthesised,
            )
        )

    def call_success(self, call: Call, output: str, arguments: JsonObject | None = None) -> None:
        self.announce(call)
        call.is_open = False
        call.output = output
        if arguments is not None:
            call.arguments = arguments
        self.emit(
            ToolCallSuccess(
                item=call.number,
                choice=call.choice,
                tool=call.tool,
                arguments=arguments if arguments is not None else call.arguments or {},
                output=output,
                provider_info=call.provider_info,
                call_id=call.call_id,
            )
        )

    def call_failure(self, call: Call, reason: str, metadata: FailureMetadata) -> None:
        self.announce(call)
        call.is_open = False
        call.failure = reason
        # The spelling of other arguments would contradict these.
        known = (metadata.arguments, call.arguments)
        is_theirs = None in known or known[0] == known[1]
        raw = call.arguments_raw or call.joined() or None
        self.emit(
            ToolCallFailure(
                item=call.number,
                choice=call.choice,
                reason=reason,
                metadata=metadata,
                call_id=call.call_id,
                arguments_raw=raw if is_theirs else None,
            )
        )

    def finish_arguments(self, call: Call) -> None:
        """The arguments of a call are complete; the call stays open until the answer ends."""
        self.announce(call)
        if call.is_open and not call.has_arguments:
            self._read_arguments(call)

    def fail_empty_calls(
        self, is_torn: Callable[[Call], bool] = lambda call: not call.tool, *, choice: int = 0
    ) -> None:
        """Fails the calls without arguments of a choice in which a call ``is_torn``: that call's arguments may
        be theirs."""
        calls = [call for call in self.items(choice) if isinstance(call, Call)]
        empty = [call for call in calls if _is_offered_empty(call)]
        if empty and any(map(is_torn, calls)):
            for call in empty:
                call.has_arguments = False
                self.fail_call(call, TORN, "incomplete")

    def _fragment(self, call: Call, fragment: str) -> None:
        self.emit(
            ToolCallDelta(
                item=call.number, choice=call.choice, fragment=fragment, call_id=call.call_id
            )
        )

    def _new_part(self, call: Call, fragment: str) -> str:
        """The new part of a fragment: all of it, unless the server resends the whole text."""
        if not call.pieces:
            return fragment
        if call.is_cumulative and not fragment.startswith(call.pieces[0]):
            call.is_cumulative = False
        if not call.is_cumulative or len(fragment) < call.piece_characters:
            return fragment
        received = call.joined()
        if fragment.startswith(received) and as_object(fragment) is not None:
            return fragment[len(received) :]
        return fragment

    def _finish_call(self, call: Call, *, is_complete: bool) -> None:
        """Parses the argument text once. Calls of an unfinished answer are not offered to be run."""
        if call.has_arguments or (call.executes == "upstream" and not call.pieces):
            if not is_complete:
                self.fail_call(call, UNFINISHED_CALL, "incomplete")
            call.is_open = False
            return
        if not is_complete:
            call.arguments = read_arguments(call)[1]
            self.fail_call(call, UNFINISHED_CALL, "incomplete")
            return
        self._read_arguments(call)
        call.is_open = False

    def _read_arguments(self, call: Call) -> None:
        """Emits the parsed arguments, or the failure of the call."""
        raw, arguments = read_arguments(call)
        if call.piece_characters > MAX_ARGUMENT_CHARACTERS:
            self.fail_call(call, TOO_LONG, "invalid_arguments")
        elif arguments is None:
            self.fail_call(call, NOT_JSON, "invalid_arguments")
        else:
            self.call_arguments(call, arguments, raw)

    def fail_call(self, call: Call, reason: str, kind: str = "execution_failed") -> None:
        """Reports the failure of a call with what is known of it."""
        metadata = FailureMetadata(
            type=kind,
            tool_name=call.tool,
            arguments=call.arguments,
            provider_info=call.provider_info,
        )
        self.call_failure(call, reason, metadata)

    # --- media, and the end --------------------------------------------------------

    def open_media(self, *, choice: int = 0) -> Item:
        """Opens an item for a picture, sound or file. The caller emits its ``media.update``."""
        item = Item(kind="media", number=0)
        self._place(item, choice)
        return item

    def close_choice(self, choice: int, *, is_complete: bool = True) -> None:
        """The open items of a choice, in order."""
        self._announce_pending(choice)
        for item in self.items(choice):
            self._close(item, is_complete=is_complete)

    def close_all(self, *, is_complete: bool = True) -> None:
        for choice in self.choices():
            self.close_choice(choice, is_complete=is_complete)

    def _place(self, item: Item, choice: int) -> None:
        self._announce_pending(choice)
        items = self._items.setdefault(choice, [])
        item.choice = choice
        item.number = len(items)
        items.append(item)
        self._last[choice, item.kind] = item

    def _announce_pending(self, choice: int) -> None:
        pending = self._unannounced.get(choice)
        if pending is not None:
            self.announce(pending)

    def _close(self, item: Item, *, is_complete: bool = True) -> None:
        if not item.is_open:
            return
        if isinstance(item, Call):
            self._finish_call(item, is_complete=is_complete)
            return
        item.is_open = False
        if item.held:
            # The other half of the surrogate pair was not received.
            item.held = ""
            self._delta(item, "\ufffd")
        if item.kind == "message":
            self.emit(MessageEnd(item=item.number, choice=item.choice))
        elif item.kind == "reasoning":
            self.emit(ReasoningEnd(item=item.number, choice=item.choice))
        if item.kind not in ("message", "reasoning", "refusal"):
            return
        if self._current.get((item.choice, item.kind)) is item:
            del self._current[item.choice, item.kind]


def _is_offered_empty(call: Call) -> bool:
    if call.executes != "client" or not call.tool:
        return False
    if call.has_arguments:
        return not call.arguments
    return call.is_open and call.joined().strip() in NO_ARGUMENTS


def read_arguments(call: Call) -> tuple[str, JsonObject | None]:
    """The argument text of a call, and the object that it stands for."""
    if call.held:
        # The other half of a surrogate pair was not received.
        call.pieces.append("\ufffd")
        call.held = ""
    raw = repair_text(call.joined())
    if not raw.strip():
        return raw, {}
    arguments = as_object(raw)
    if arguments is None:
        # Some servers send an empty object before the arguments.
        for prefix in NO_ARGUMENTS:
            if prefix and raw.startswith(prefix) and (found := as_object(raw[len(prefix) :])):
                return raw[len(prefix) :], found
    if arguments is None and call.is_cumulative and len(call.pieces) > 1:
        last = repair_text(call.pieces[-1])
        arguments = as_object(last)
        raw = raw if arguments is None else last
    return raw, arguments
