"""The stream of the Responses API: its 58 events, and the spellings that servers made of them."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, cast

import msgspec
from msgspec import Struct

from chat.dialects.items import Item
from chat.dialects.openai.usage import read_usage
from chat.dialects.openai_responses.calls import CallState, CustomState, FunctionState, McpState
from chat.dialects.openai_responses.hosted_tools import CodeState, ImageState, ShellState
from chat.dialects.openai_responses.item_index import ApprovalState, Directory, ToolListState
from chat.dialects.openai_responses.items import MessageState, Phase, ReasoningState, Surroundings
from chat.dialects.openai_responses.values import Received, index_of, text_in
from chat.dialects.reading import scrub
from chat.dialects.stream import StreamParser, ending_of, object_of, objects_of, text_of
from chat.dialects.thinking import Mode
from chat.events import (
    ActivityStep,
    Cause,
    Ending,
    ErrorInfo,
    Event,
    Json,
    JsonObject,
    MediaUpdate,
    ReasoningKind,
    ReplayData,
    Stop,
    StopReason,
    UsageUpdate,
)
from chat.wire.sse import Frame

# Members of the response object that say more than the request or its items do.
_FACTS = ("service_tier", "created_at", "conversation", "moderation", "tool_usage")
_RESPONSE_MEMBERS = frozenset(
    (
        *("id", "object", "model", "status", "output", "output_text", "usage", "error"),
        *("incomplete_details", "instructions", "metadata", "parallel_tool_calls", "temperature"),
        *("tool_choice", "tools", "top_p", "background", "completed_at", "max_output_tokens"),
        *("max_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "reasoning"),
        *("prompt_cache_retention", "prompt_cache_options", "safety_identifier", "text", "store"),
        *("top_logprobs", "truncation", "user", "input", "access_programs", "image"),
        *("frequency_penalty", "presence_penalty", "billing", *_FACTS),
    )
)
_EVENT_MEMBERS = frozenset(
    (
        *("type", "sequence_number", "item_id", "output_index", "content_index", "summary_index"),
        *("annotation_index", "command_index", "delta", "text", "refusal", "arguments", "name"),
        *("input", "code", "command", "part", "item", "annotation", "logprobs", "obfuscation"),
        *("response", "partial_image_b64", "partial_image_index", "background", "size"),
        *("output_format", "quality", "status", "output", "error", "message", "param"),
        *("response_id", "stream_id", "transcript", "call_id"),
    )
)
_ENDS = frozenset(
    (
        *("response.completed", "response.incomplete", "response.failed", "response.cancelled"),
        "error",
    )
)


class _QuickDelta(Struct, forbid_unknown_fields=True, gc=False):
    """Nearly every event of a long answer; what this refuses goes the general way."""

    type: Literal[
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
    ]
    delta: str
    item_id: str
    output_index: int
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    logprobs: tuple[()] | None = None
    obfuscation: str = ""


class _Target(Struct, gc=False):
    """Where the last delta of text went, and what its event said; one like it goes there at once."""

    type: str
    item_id: str
    output_index: int | None
    content_index: int | None
    summary_index: int | None
    pieces: list[str]
    item: Item


_quick_decoder = msgspec.json.Decoder(_QuickDelta)


class ResponsesParser(StreamParser):
    """Items are found by their id, else by their place; the streamed items are the record, and
    what is said about them again later only fills gaps."""

    has_fast_path: ClassVar[bool] = True

    def __init__(self, *, model: str, endpoint: str, options: Mapping[str, object]) -> None:
        super().__init__(dialect="openai_responses", model=model, endpoint=endpoint)
        self._around = Surroundings(self, cast(Mode, options.get("inline_think", "auto")))
        self._directory = Directory(self._around)
        self._facts: JsonObject = {}
        self._status = ""
        self._stop_details: JsonObject = {}
        self._number: int | None = None
        # The number that raises no question, once numbers are known to rise.
        self._next_number: int | None = None
        self._numbers_rise = False
        self._are_numbers_useless = False
        self._gaps = self._repeats = 0
        self._is_queued = False
        self._audio: Item | None = None
        self._sounds = 0
        self._target: _Target | None = None

    # --- frames -------------------------------------------------------------------------

    def feed(self, frame: Frame) -> list[Event]:
        target = self._target
        if target is None or self.is_done or not self.has_fast_path:
            return super().feed(frame)
        try:
            delta = _quick_decoder.decode(frame.data)
        except (msgspec.DecodeError, UnicodeError):
            return super().feed(frame)
        number, event = delta.sequence_number, frame.event
        if (
            delta.item_id != target.item_id
            or delta.type != target.type
            or (event != target.type and event is not None)
            or (number != self._next_number and number is not None)
            or delta.output_index != target.output_index
            or delta.content_index != target.content_index
            or delta.summary_index != target.summary_index
            or not target.item.is_open
            or "\x00" in delta.delta
        ):
            return super().feed(frame)
        if number is not None:
            self._number, self._next_number = number, number + 1
        target.pieces.append(delta.delta)
        self.tracker.block_text(target.item, delta.delta)
        return self._take()

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        name = text_of(data, "type") or event or ""
        if self._is_repeat(data, name):
            return
        if not text_of(data, "type") and _is_response(data):
            self._on_snapshot(data)
            return
        handler = HANDLERS.get(name)
        if handler is None and data.get("error"):
            handler = ResponsesParser._on_error
        if name != "response.created":
            self.start()
        if handler is not None and handler(self, data):
            for member, value in data.items():
                if member not in _EVENT_MEMBERS and handler is not ResponsesParser._on_error:
                    self.unknown_member(name, member, value)
        else:
            self.raw(name or None, data=data)
        if event and name != event:
            self.note_once("event_name_mismatch", {"event": event, "type": name})

    def _is_repeat(self, data: JsonObject, name: str) -> bool:
        """Numbers rise by one. A lower one is a repeat, unless they have never risen: some servers
        send the same number with everything. What ends the answer is heard in any case."""
        number = index_of(data, "sequence_number")
        if number is None or self._are_numbers_useless:
            return False
        last, self._number = self._number, number
        if last is None:
            return False
        if number > last:
            self._numbers_rise = True
            self._next_number = number + 1
            self._note_gap(last, number)
            return False
        if name in _ENDS:
            return False
        if not self._numbers_rise:
            self._are_numbers_useless = True
            self.note_once("sequence_numbers", "unusable")
            return False
        self._number = last
        self._repeats += 1
        return True

    def _note_gap(self, last: int, number: int) -> None:
        if number > last + 1:
            self._gaps += 1
            if self._gaps == 1:
                self.start()
                self.meta({"gap": {"after": last, "before": number}})

    def on_done(self) -> None:
        """Not part of this API. Without a terminal event it is the end of input, no more."""
        self.is_done = True

    def on_late(self, data: JsonObject) -> None:
        """After ``error`` some servers still send ``response.failed``, with the figures."""
        response = object_of(data, "response")
        if text_of(response, "status"):
            self._take_facts({"status": response["status"]})
        usage = response.get("usage")
        if isinstance(usage, dict) and usage:
            self.tracker.emit(UsageUpdate(usage=read_usage(usage), final=True))

    def _body(self, data: JsonObject) -> None:
        if _is_response(data):
            self.on_body(data)
        else:
            super()._body(data)

    def on_body(self, data: JsonObject) -> None:
        """The complete answer is the object that the terminal event carries."""
        data = object_of(data, "response") or data
        self._take_facts(data)
        if isinstance(data.get("output"), list) or data.get("status"):
            self._end_with(data, text_of(data, "status") or "completed")
        else:
            self.fail_with_body(data)

    # --- finding items --------------------------------------------------------------------

    def message(self, data: JsonObject) -> MessageState:
        return cast(MessageState, self._directory.item("message", data))

    def reasoning(self, data: JsonObject) -> ReasoningState:
        return cast(ReasoningState, self._directory.item("reasoning", data))

    def call(self, kind: str, data: JsonObject) -> CallState:
        return cast(CallState, self._directory.item(kind, data))

    # --- the response ----------------------------------------------------------------------

    def _take_facts(self, response: JsonObject) -> None:
        """What the response object says of the whole answer, when it is new."""
        model = text_of(response, "model")
        if not self.tracker.has_started:
            # ``chat.start`` names it; only another one is news.
            self._facts["model"] = model
            self.start(model)
        facts = {name: response.get(name) for name in ("model", *_FACTS)}
        identity = text_of(response, "id")
        facts |= {"response_id": identity, "upstream_id": identity}
        facts["upstream_status"] = text_of(response, "status")
        if isinstance(response.get("reasoning"), dict):
            # The request's own words come back.
            self._around.shows_summary = bool(response["reasoning"].get("summary"))
        changed = {
            name: value
            for name, value in facts.items()
            if value not in (None, "") and self._facts.get(name) != value
        }
        self._facts.update(changed)
        self.meta(changed)
        for name, value in response.items():
            if name not in _RESPONSE_MEMBERS and value is not None:
                self.unknown_member("response", name, value)

    def _on_created(self, data: JsonObject) -> bool:
        self._take_facts(object_of(data, "response"))
        return isinstance(data.get("response"), dict)

    def _on_queued(self, data: JsonObject) -> bool:
        self._take_facts(object_of(data, "response"))
        self._is_queued = True
        self._run_step("start")
        return True

    def _on_in_progress(self, data: JsonObject) -> bool:
        """Says nothing that ``created`` did not, unless the answer had to wait."""
        self._take_facts(object_of(data, "response"))
        if self._is_queued:
            self._is_queued = False
            self._run_step("done")
        return True

    def _run_step(self, phase: Phase) -> None:
        self.tracker.emit(ActivityStep(family="run", step="queued", phase=phase, label="Queued"))

    def _on_snapshot(self, response: JsonObject) -> None:
        """The response object itself, partial or final, as a server sends it that has no events."""
        self._take_facts(response)
        status = text_of(response, "status")
        if status in _END_STATUSES:
            self._end_with(response, status)
            return
        for index, item in enumerate(objects_of(response, "output")):
            kind, identity = text_of(item, "type"), text_of(item, "id")
            found = self._directory.known(kind, {"item_id": identity, "output_index": index})
            found = found or self._directory.create(kind, identity, index)
            found.grow(item)
            self._directory.note_call_id(found, item)

    # --- items ---------------------------------------------------------------------------------

    def _on_item_added(self, data: JsonObject) -> bool:
        item = data.get("item")
        if not isinstance(item, dict):
            return False
        kind, identity = text_of(item, "type"), text_of(item, "id")
        index = index_of(data, "output_index")
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
        index = index_of(data, "output_index")
        found = self._directory.known(kind, {"item_id": identity, "output_index": index})
        if found is None or (found.is_done and not identity and index is None):
            found = self._directory.create(kind, identity, index)
        self._directory.index(found, identity, None)
        found.finish(item)
        self._directory.note_call_id(found, item)
        return True

    def _on_part_added(self, data: JsonObject) -> bool:
        """Announces a part, usually empty; text in it counts."""
        return self._on_part_done(data)

    def _on_part_done(self, data: JsonObject) -> bool:
        part, index = object_of(data, "part"), index_of(data, "content_index") or 0
        if part.get("type") == "reasoning_text":
            return self._on_reasoning_part(data)
        return self.message(data).part(index, part)

    def _on_reasoning_part(self, data: JsonObject) -> bool:
        reasoning, index = self.reasoning(data), index_of(data, "content_index") or 0
        reasoning.open("full")
        reasoning.text_whole("full", index, text_of(object_of(data, "part"), "text"))
        return True

    def _on_text_delta(self, data: JsonObject) -> bool:
        if not isinstance(data.get("delta"), str):
            return False
        message, index = self.message(data), index_of(data, "content_index") or 0
        message.text(index, data["delta"])
        message.logprobs(index, data.get("logprobs"))
        if message.is_plain and message.message is not None:
            self._remember(data, message.received(index), message.message)
        return True

    def _on_text_done(self, data: JsonObject) -> bool:
        message, index = self.message(data), index_of(data, "content_index") or 0
        message.text_whole(index, text_of(data, "text"))
        message.logprobs(index, data.get("logprobs"), is_whole=True)
        return True

    def _on_annotation(self, data: JsonObject) -> bool:
        annotation = data.get("annotation")
        if not isinstance(annotation, dict):
            return annotation is None
        index = index_of(data, "content_index") or 0
        position = index_of(data, "annotation_index")
        self.message(data).annotation(index, position or 0, annotation)
        return True

    def _on_refusal_delta(self, data: JsonObject) -> bool:
        self.message(data).refusal(index_of(data, "content_index") or 0, text_of(data, "delta"))
        return isinstance(data.get("delta"), str)

    def _on_refusal_done(self, data: JsonObject) -> bool:
        index = index_of(data, "content_index") or 0
        self.message(data).refusal_whole(index, text_of(data, "refusal"))
        return True

    def _remember(self, data: JsonObject, received: Received, item: Item) -> None:
        self._target = _Target(
            type=text_of(data, "type"),
            item_id=text_of(data, "item_id"),
            output_index=index_of(data, "output_index"),
            content_index=index_of(data, "content_index"),
            summary_index=index_of(data, "summary_index"),
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

    def _on_function_done(self, data: JsonObject) -> bool:
        call = cast(FunctionState, self._directory.item("function_call", data))
        if text_of(data, "name"):
            call.opened({"name": text_of(data, "name")})
        call.whole_arguments(data.get("arguments"))
        return True

    def _on_mcp_done(self, data: JsonObject) -> bool:
        call = cast(McpState, self._directory.item("mcp_call", data))
        if text_of(data, "name"):
            call.opened({"name": text_of(data, "name")})
        call.whole_arguments(data.get("arguments"))
        return True

    def _on_custom_done(self, data: JsonObject) -> bool:
        cast(CustomState, self._directory.item("custom_tool_call", data)).whole_text(
            text_in(data.get("input"))
        )
        return True

    def _on_code_done(self, data: JsonObject) -> bool:
        code = cast(CodeState, self._directory.item("code_interpreter_call", data))
        code.whole_text(text_in(data.get("code")))
        return True

    def mcp_step(self, phase: Phase, data: JsonObject) -> bool:
        state = self._directory.latest("mcp_call", data)
        if not isinstance(state, McpState):
            self._step("mcp", "call", phase, "Calling a tool", data)
            return True
        state.has_failed = state.has_failed or phase == "failed"
        tool = state.call.tool if state.call else ""
        state.step("mcp", "call", phase, f"Calling {tool}" if tool else "Calling a tool")
        return True

    def list_step(self, phase: Phase, data: JsonObject) -> bool:
        state = self._directory.latest("mcp_list_tools", data)
        if isinstance(state, ToolListState):
            state.has_failed = state.has_failed or phase == "failed"
            if phase == "progress" and not state.is_done:
                state.report(phase)
        else:
            self._step("mcp", "list_tools", phase, "Reading the tools of a server", data)
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
        """A step about an item that nobody announced."""
        ref = text_of(data, "item_id") or None
        self.tracker.emit(ActivityStep(family=family, step=step, phase=phase, label=label, ref=ref))

    def _on_compacting(self, data: JsonObject) -> bool:
        return self.call_step(
            *("compaction", "context", "compaction", "progress", "Condensing the conversation"),
            data,
        )

    def _shell(self, data: JsonObject) -> ShellState:
        return cast(ShellState, self._directory.item("shell_call", data))

    def _on_command_delta(self, data: JsonObject) -> bool:
        """Pieces of a command; ``added`` may bring the first of them."""
        value = data.get("delta") if "delta" in data else data.get("command")
        self._shell(data).command(index_of(data, "command_index") or 0, text_in(value))
        return True

    def _on_command_done(self, data: JsonObject) -> bool:
        index = index_of(data, "command_index") or 0
        self._shell(data).whole_command(index, text_of(data, "command"))
        return True

    def _on_shell_output(self, data: JsonObject) -> bool:
        """What the commands write; the ids are those of the output, the place too."""
        shell = self._directory.last("shell_call")
        output = data.get("delta") if "delta" in data else data.get("output")
        if not isinstance(shell, ShellState):
            return False
        if "delta" not in data:
            shell.printed(output)
        detail = output if isinstance(output, dict) else {"output": output}
        command = index_of(data, "command_index")
        detail = detail if command is None else {**detail, "command_index": command}
        shell.step("shell", "output", "progress", "Running commands", detail)
        return True

    def _on_partial_image(self, data: JsonObject) -> bool:
        return cast(ImageState, self._directory.item("image_generation_call", data)).partial(data)

    # --- sound ------------------------------------------------------------------------------------------

    def audio(self, data: JsonObject, *, member: str | None, is_final: bool) -> bool:
        """Sound has neither item nor place: all of an answer is one medium."""
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
                state="final" if is_final else "partial",
                index=self._sounds if is_sound else None,
                data=text if is_sound else None,
                transcript=text if member == "transcript" else None,
            )
        )
        self._sounds += is_sound
        return True

    # --- the end --------------------------------------------------------------------------------------------

    def on_end_event(self, status: str, data: JsonObject) -> bool:
        response = object_of(data, "response")
        self._take_facts(response)
        # Some servers end everything with the same event, and only the status says how.
        said = text_of(response, "status")
        is_said = said in ("incomplete", "failed", "cancelled") and status == "completed"
        self._end_with(response, said if is_said else status)
        return True

    def _end_with(self, response: JsonObject, status: str) -> None:
        """The object at the end: it fills gaps, and alone has the figures."""
        if status in ("queued", "in_progress"):
            # A body of an answer that is still being made: there is no end to report.
            return
        self._status = status
        for item in objects_of(response, "output"):
            self._fill(item)
        if status == "failed":
            error = response.get("error")
            self.fail_with({"error": error} if error else {"message": ""})
        self._end_items(is_complete=status == "completed")
        if status in ("incomplete", "cancelled"):
            self._take_calls_back(keeps_done=status == "incomplete")
        if isinstance(response.get("usage"), dict) and response["usage"]:
            self.tracker.emit(UsageUpdate(usage=read_usage(response["usage"]), final=True))
        self._stop_details = scrub(object_of(response, "incomplete_details"))
        if self._around.differences:
            self.meta({"differences": self._around.differences})
        self.is_done = True

    def _fill(self, item: JsonObject) -> None:
        """An item of the object at the end: matched by id, else by type and order."""
        kind, identity = text_of(item, "type"), text_of(item, "id")
        found = self._directory.with_id(kind, identity)
        if found is None or found.is_matched:
            found = self._directory.candidate(kind, item)
        if found is None:
            found = self._directory.create(kind, identity, None)
        found.is_matched = True
        found.finish(item)
        self._directory.note_call_id(found, item)

    def _end_items(self, *, is_complete: bool) -> None:
        for item in self._directory.all:
            item.end(is_complete=is_complete)

    def _take_calls_back(self, *, keeps_done: bool) -> None:
        for item in self._directory.all:
            if isinstance(item, CallState):
                item.take_back(keeps_done=keeps_done)

    def _on_error(self, data: JsonObject) -> bool:
        """At the top level or nested; both have been seen."""
        self.fail_with({k: v for k, v in data.items() if k != "sequence_number"})
        self.is_done = True
        return True

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]:
        if self.ending is None:
            self.start()
            self._end_items(is_complete=False)
        return super().close(cause, error=error)

    def natural_ending(self) -> Ending | None:
        if self._status == "cancelled":
            return ending_of("stopped", "stopped", raw="cancelled")
        if self._status == "incomplete":
            raw = text_of(self._stop_details, "reason") or None
            reason = _INCOMPLETE.get(raw or "", "unknown")
            stop = Stop(reason=reason, raw=raw, details=self._stop_details or None)
            return Ending(status="incomplete", stop=stop)
        if not self._status:
            return None
        return self._ending_of_completed()

    def _ending_of_completed(self) -> Ending:
        raw = self._status
        if any(isinstance(item, ApprovalState) and item.is_asked for item in self._directory.all):
            return ending_of("waiting", "ask", raw=raw)
        if any(isinstance(item, CallState) and item.is_waiting for item in self._directory.all):
            return ending_of("waiting", "tool_use", raw=raw)
        if any(
            isinstance(item, CallState) and item.is_unanswerable for item in self._directory.all
        ):
            return ending_of("completed", "tool_use", raw=raw)
        if any(
            isinstance(item, MessageState) and item.has_refused() for item in self._directory.all
        ):
            return ending_of("incomplete", "refusal", raw=raw)
        return ending_of("completed", "stop", raw=raw)

    def on_close(self, *, is_complete: bool) -> None:
        if self._gaps > 1 or self._repeats:
            self.meta({"gaps": self._gaps, "repeats": self._repeats})
        if not is_complete or self._status == "cancelled":
            return
        # In the upstream's order, which is not that of their arrival.
        ordered = sorted(
            self._directory.all, key=lambda item: item.index if item.index is not None else 1 << 60
        )
        native: list[Json] = [wire for item in ordered if (wire := item.native()) is not None]
        if native:
            self.tracker.emit(ReplayData(kind="native", data=native))


_END_STATUSES = frozenset(("completed", "incomplete", "failed", "cancelled"))
_INCOMPLETE: Mapping[str, StopReason] = {
    "max_output_tokens": "length",
    "max_tool_calls": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def _is_response(data: JsonObject) -> bool:
    """Whether this is the response object, not an event about it."""
    return isinstance(data.get("output"), list) or data.get("object") == "response"


def _part_index(kind: ReasoningKind, data: JsonObject) -> int:
    name = "summary_index" if kind == "summary" else "content_index"
    return index_of(data, name) or 0


# --- the table --------------------------------------------------------------------------------

Handler = Callable[[ResponsesParser, JsonObject], bool]


def _steps(
    kind: str, family: str, step: str, label: str, phases: Mapping[str, Phase]
) -> dict[str, Handler]:
    """The events that only say how far a call is."""

    def handler(phase: Phase) -> Handler:
        return lambda parser, data: parser.call_step(kind, family, step, phase, label, data)

    return {f"response.{kind}.{name}": handler(phase) for name, phase in phases.items()}


def _mcp(phase: Phase) -> Handler:
    return lambda parser, data: parser.mcp_step(phase, data)


def _listing(phase: Phase) -> Handler:
    return lambda parser, data: parser.list_step(phase, data)


def _arguments(kind: str) -> Handler:
    return lambda parser, data: parser.arguments_delta(kind, data)


def _thought(kind: ReasoningKind) -> Handler:
    return lambda parser, data: parser.reasoning_delta(kind, data)


def _whole_thought(kind: ReasoningKind) -> Handler:
    return lambda parser, data: parser.reasoning_whole(kind, data)


def _sound(member: str | None, *, is_final: bool) -> Handler:
    return lambda parser, data: parser.audio(data, member=member, is_final=is_final)


def _end(status: str) -> Handler:
    return lambda parser, data: parser.on_end_event(status, data)


HANDLERS: Mapping[str, Handler] = {
    "response.created": ResponsesParser._on_created,
    "response.queued": ResponsesParser._on_queued,
    "response.in_progress": ResponsesParser._on_in_progress,
    "response.output_item.added": ResponsesParser._on_item_added,
    "response.output_item.done": ResponsesParser._on_item_done,
    "response.content_part.added": ResponsesParser._on_part_added,
    "response.content_part.done": ResponsesParser._on_part_done,
    "response.output_text.delta": ResponsesParser._on_text_delta,
    "response.output_text.done": ResponsesParser._on_text_done,
    "response.output_text.annotation.added": ResponsesParser._on_annotation,
    "response.refusal.delta": ResponsesParser._on_refusal_delta,
    "response.refusal.done": ResponsesParser._on_refusal_done,
    "response.reasoning_text.delta": _thought("full"),
    "response.reasoning_text.done": _whole_thought("full"),
    # A gateway's names of the two before.
    "response.reasoning.delta": _thought("full"),
    "response.reasoning.done": _whole_thought("full"),
    "response.reasoning_part.added": ResponsesParser._on_reasoning_part,
    "response.reasoning_part.done": ResponsesParser._on_reasoning_part,
    "response.reasoning_summary_part.added": ResponsesParser._on_summary_part_added,
    "response.reasoning_summary_part.done": ResponsesParser._on_summary_part_done,
    "response.reasoning_summary_text.delta": _thought("summary"),
    "response.reasoning_summary_text.done": _whole_thought("summary"),
    "response.function_call_arguments.delta": _arguments("function_call"),
    "response.function_call_arguments.done": ResponsesParser._on_function_done,
    "response.custom_tool_call_input.delta": _arguments("custom_tool_call"),
    "response.custom_tool_call_input.done": ResponsesParser._on_custom_done,
    "response.mcp_call_arguments.delta": _arguments("mcp_call"),
    "response.mcp_call_arguments.done": ResponsesParser._on_mcp_done,
    # Fireworks' spelling of the two before.
    "response.mcp_call.arguments.delta": _arguments("mcp_call"),
    "response.mcp_call.arguments.done": ResponsesParser._on_mcp_done,
    "response.mcp_call.in_progress": _mcp("progress"),
    "response.mcp_call.completed": _mcp("done"),
    "response.mcp_call.failed": _mcp("failed"),
    "response.mcp_list_tools.in_progress": _listing("progress"),
    "response.mcp_list_tools.completed": _listing("done"),
    "response.mcp_list_tools.failed": _listing("failed"),
    **_steps(
        *("web_search_call", "web_search", "search", "Searching the web"),
        {"in_progress": "start", "searching": "progress", "completed": "done"},
    ),
    **_steps(
        *("file_search_call", "file_search", "search", "Searching files"),
        {"in_progress": "start", "searching": "progress", "completed": "done"},
    ),
    **_steps(
        *("code_interpreter_call", "code", "run", "Running code"),
        {"in_progress": "start", "interpreting": "progress", "completed": "done"},
    ),
    "response.code_interpreter_call_code.delta": _arguments("code_interpreter_call"),
    "response.code_interpreter_call_code.done": ResponsesParser._on_code_done,
    "response.shell_call_command.added": ResponsesParser._on_command_delta,
    "response.shell_call_command.delta": ResponsesParser._on_command_delta,
    "response.shell_call_command.done": ResponsesParser._on_command_done,
    "response.shell_call_output_content.delta": ResponsesParser._on_shell_output,
    "response.shell_call_output_content.done": ResponsesParser._on_shell_output,
    **_steps(
        *("image_generation_call", "image", "draw", "Drawing a picture"),
        {"in_progress": "start", "generating": "progress", "completed": "done"},
    ),
    "response.image_generation_call.partial_image": ResponsesParser._on_partial_image,
    "response.audio.delta": _sound("data", is_final=False),
    "response.audio.done": _sound(None, is_final=True),
    "response.audio.transcript.delta": _sound("transcript", is_final=False),
    "response.audio.transcript.done": _sound("transcript", is_final=True),
    "response.compaction.compacting": ResponsesParser._on_compacting,
    "response.completed": _end("completed"),
    "response.incomplete": _end("incomplete"),
    "response.failed": _end("failed"),
    # Documented as a webhook only.
    "response.cancelled": _end("cancelled"),
    "error": ResponsesParser._on_error,
}
