"""Handlers of events about output items: text, reasoning, calls, sound."""

from typing import Literal, cast

from msgspec import Struct

from chat.dialects.items import Item
from chat.dialects.openai_responses.calls import CallState, McpState
from chat.dialects.openai_responses.hosted_tools import ImageState, ShellState
from chat.dialects.openai_responses.item_index import Directory, ToolListState
from chat.dialects.openai_responses.items import MessageState, Phase, ReasoningState, Surroundings
from chat.dialects.openai_responses.values import Received, part_index
from chat.dialects.parameters import Values
from chat.dialects.reading import as_text
from chat.dialects.stream import StreamParser, object_of, text_of, whole_of
from chat.dialects.thinking import Mode
from chat.events import ActivityStep, JsonObject, MediaUpdate, ReasoningKind
from chat.events.translation import gettext_noop


class Target(Struct, gc=False):
    """The target of the last text delta, and its keys; a delta with the same keys goes there at
    once."""

    type: str
    item_id: str
    output_index: int | None
    content_index: int | None
    summary_index: int | None
    pieces: list[str]
    item: Item


class ItemEvents(StreamParser):
    """Items are found by their id, else by their position. Each handler returns whether it could
    read the event."""

    def __init__(self, *, model: str, endpoint: str, options: Values) -> None:
        super().__init__(dialect="openai_responses", model=model, endpoint=endpoint)
        self._around = Surroundings(self, cast(Mode, options.get("inline_think", "auto")))
        self._directory = Directory(self._around)
        self._target: Target | None = None
        self._audio: Item | None = None
        self._sounds = 0

    # --- finding items --------------------------------------------------------------------

    def message(self, data: JsonObject) -> MessageState:
        return cast(MessageState, self._directory.item("message", data))

    def reasoning(self, data: JsonObject) -> ReasoningState:
        return cast(ReasoningState, self._directory.item("reasoning", data))

    def call(self, kind: str, data: JsonObject) -> CallState:
        return cast(CallState, self._directory.item(kind, data))

    # --- items ---------------------------------------------------------------------------------

    def _on_item_added(self, data: JsonObject) -> bool:
        item = data.get("item")
        if not isinstance(item, dict):
            return False
        kind, identity = text_of(item, "type"), text_of(item, "id")
        index = whole_of(data, "output_index")
        found = self._directory.with_id(kind, identity)
        found = found or self._directory.create(kind, identity, index)
        found.add(item)
        self._directory.note_call_id(found, item)
        return True

    def _on_item_done(self, data: JsonObject) -> bool:
        item = data.get("item")
        if not isinstance(item, dict):
            return False
        kind, identity = text_of(item, "type"), text_of(item, "id")
        index = whole_of(data, "output_index")
        found = self._directory.known(kind, {"item_id": identity, "output_index": index})
        if found is None or (found.is_done and not identity and index is None):
            found = self._directory.create(kind, identity, index)
        self._directory.index(found, identity, None)
        found.finish(item)
        self._directory.note_call_id(found, item)
        return True

    def _on_part_done(self, data: JsonObject) -> bool:
        """A part, or its announcement: that is usually empty, but text in it counts."""
        part, index = object_of(data, "part"), part_index(data, "content_index")
        if part.get("type") == "reasoning_text":
            return self._on_reasoning_part(data)
        return self.message(data).part(index, part)

    def _on_reasoning_part(self, data: JsonObject) -> bool:
        reasoning, index = self.reasoning(data), part_index(data, "content_index")
        reasoning.open("full")
        reasoning.announce_part(index)
        reasoning.text_whole("full", index, text_of(object_of(data, "part"), "text"))
        return True

    def _on_text_delta(self, data: JsonObject) -> bool:
        if not isinstance(data.get("delta"), str):
            return False
        message, index = self.message(data), part_index(data, "content_index")
        message.text(index, data["delta"])
        message.logprobs(index, data.get("logprobs"))
        if message.is_plain and message.message is not None:
            self._remember(data, message.received(index), message.message)
        return True

    def _on_text_done(self, data: JsonObject) -> bool:
        message, index = self.message(data), part_index(data, "content_index")
        message.text_whole(index, text_of(data, "text"))
        message.logprobs(index, data.get("logprobs"), is_whole=True)
        return True

    def _on_annotation(self, data: JsonObject) -> bool:
        annotation = data.get("annotation")
        if not isinstance(annotation, dict):
            return annotation is None
        index = part_index(data, "content_index")
        position = whole_of(data, "annotation_index")
        self.message(data).annotation(index, position or 0, annotation)
        return True

    def _on_refusal_delta(self, data: JsonObject) -> bool:
        self.message(data).refusal(part_index(data, "content_index"), text_of(data, "delta"))
        return isinstance(data.get("delta"), str)

    def _on_refusal_done(self, data: JsonObject) -> bool:
        index = part_index(data, "content_index")
        self.message(data).refusal_whole(index, text_of(data, "refusal"))
        return True

    def _remember(self, data: JsonObject, received: Received, item: Item) -> None:
        self._target = Target(
            type=text_of(data, "type"),
            item_id=text_of(data, "item_id"),
            output_index=whole_of(data, "output_index"),
            content_index=whole_of(data, "content_index"),
            summary_index=whole_of(data, "summary_index"),
            pieces=received.pieces,
            item=item,
        )

    # --- reasoning --------------------------------------------------------------------------------

    def reasoning_delta(self, kind: ReasoningKind, data: JsonObject) -> bool:
        if not isinstance(data.get("delta"), str):
            return False
        reasoning, index = self.reasoning(data), _part_index(kind, data)
        reasoning.text(kind, index, data["delta"])
        item = reasoning.open_item(kind)
        if item is not None:
            self._remember(data, reasoning.received(kind, index), item)
        return True

    def reasoning_whole(self, kind: ReasoningKind, data: JsonObject) -> bool:
        self.reasoning(data).text_whole(kind, _part_index(kind, data), text_of(data, "text"))
        return True

    def _on_summary_part_added(self, data: JsonObject) -> bool:
        self.reasoning(data).open("summary")
        return self._on_summary_part_done(data)

    def _on_summary_part_done(self, data: JsonObject) -> bool:
        text = text_of(object_of(data, "part"), "text")
        self.reasoning(data).text_whole("summary", _part_index("summary", data), text)
        if data.get("status") == "incomplete":
            self.note_once("reasoning_summary", "incomplete")
        return True

    # --- calls ----------------------------------------------------------------------------------------

    def arguments_delta(self, kind: str, data: JsonObject) -> bool:
        self.call(kind, data).fragment(data.get("delta"))
        return data.get("delta") is not None

    def arguments_whole(self, kind: str, member: str, data: JsonObject) -> bool:
        call = self.call(kind, data)
        if member == "arguments" and text_of(data, "name"):
            call.opened({"name": text_of(data, "name")})
        call.whole_arguments(data.get(member))
        return True

    def mcp_step(self, phase: Phase, data: JsonObject) -> bool:
        state = self._directory.latest("mcp_call", data)
        if not isinstance(state, McpState):
            self._step("mcp", "call", phase, gettext_noop("Calling a tool"), data)
            return True
        state.has_failed = state.has_failed or phase == "failed"
        tool = state.call.tool if state.call else ""
        state.step(
            "mcp", "call", phase, f"Calling {tool}" if tool else gettext_noop("Calling a tool")
        )
        return True

    def list_step(self, phase: Phase, data: JsonObject) -> bool:
        state = self._directory.latest("mcp_list_tools", data)
        if isinstance(state, ToolListState):
            state.has_failed = state.has_failed or phase == "failed"
            if phase == "progress" and not state.is_done:
                state.report(phase)
        else:
            self._step("mcp", "list_tools", phase, gettext_noop("Listing a server’s tools"), data)
        return True

    def call_step(
        self, kind: str, family: str, step: str, phase: Phase, label: str, data: JsonObject
    ) -> bool:
        state = self._directory.latest(kind, data)
        if state is not None:
            if not state.is_done:
                state.step(family, step, phase, label)
        else:
            self._step(family, step, phase, label, data)
        return True

    def _step(self, family: str, step: str, phase: Phase, label: str, data: JsonObject) -> None:
        """A step about an item that was not announced."""
        ref = text_of(data, "item_id") or None
        self.tracker.emit(ActivityStep(family=family, step=step, phase=phase, label=label, ref=ref))

    def _shell(self, data: JsonObject) -> ShellState:
        return cast(ShellState, self._directory.item("shell_call", data))

    def _on_command_delta(self, data: JsonObject) -> bool:
        """Pieces of a command; ``added`` may contain the first of them."""
        value = data.get("delta") if "delta" in data else data.get("command")
        self._shell(data).command(whole_of(data, "command_index") or 0, as_text(value))
        return True

    def _on_command_done(self, data: JsonObject) -> bool:
        index = whole_of(data, "command_index") or 0
        self._shell(data).whole_command(index, text_of(data, "command"))
        return True

    def _on_shell_output(self, data: JsonObject) -> bool:
        """Output of the commands; ids and position are those of the output item."""
        shell = self._directory.last("shell_call")
        output = data.get("delta") if "delta" in data else data.get("output")
        if not isinstance(shell, ShellState):
            return False
        if "delta" not in data:
            shell.printed(output)
        detail = output if isinstance(output, dict) else {"output": output}
        command = whole_of(data, "command_index")
        detail = detail if command is None else {**detail, "command_index": command}
        shell.step("shell", "output", "progress", gettext_noop("Running commands"), detail)
        return True

    def _on_partial_image(self, data: JsonObject) -> bool:
        return cast(ImageState, self._directory.item("image_generation_call", data)).partial(data)

    # --- sound ------------------------------------------------------------------------------------------

    def audio(
        self, member: str | None, state: Literal["partial", "final"], data: JsonObject
    ) -> bool:
        """Sound has neither item nor position: all sound of an answer is one medium."""
        text = None
        if member is not None:
            text = text_of(data, "delta") or text_of(data, member) or None
        if self._audio is None:
            self._audio = self.tracker.open_media()
        is_sound = member == "data" and text is not None
        self.tracker.emit(
            MediaUpdate(
                item=self._audio.number,
                media_id="audio",
                media_type="audio/*",
                state=state,
                index=self._sounds if is_sound else None,
                data=text if is_sound else None,
                transcript=text if member == "transcript" else None,
            )
        )
        self._sounds += is_sound
        return True


def _part_index(kind: ReasoningKind, data: JsonObject) -> int:
    name = "summary_index" if kind == "summary" else "content_index"
    return part_index(data, name)
