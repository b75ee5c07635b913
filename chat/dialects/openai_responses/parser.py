"""The stream of the Responses API: its 58 events, and the variations of other servers."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from chat.dialects.finish_reasons import reason_of
from chat.dialects.openai.usage import read_usage
from chat.dialects.openai_responses.calls import CallState
from chat.dialects.openai_responses.item_events import ItemEvents
from chat.dialects.openai_responses.item_index import ApprovalState
from chat.dialects.openai_responses.items import MessageState, Phase
from chat.dialects.openai_responses.values import EVENT_MEMBERS, FACTS, RESPONSE_MEMBERS
from chat.dialects.parameters import Values
from chat.dialects.reading import scrub
from chat.dialects.stream import (
    EventRule,
    ending_of,
    object_of,
    objects_of,
    says_error,
    text_of,
    whole_of,
)
from chat.events import (
    ActivityStep,
    Cause,
    Ending,
    ErrorInfo,
    Event,
    Json,
    JsonObject,
    ReplayData,
    Stop,
    UsageUpdate,
)
from chat.events.translation import gettext_noop
from chat.wire.sse import Frame

_ENDS = frozenset(
    (
        *("response.completed", "response.incomplete", "response.failed", "response.cancelled"),
        "error",
    )
)


class _QuickDelta(Struct, forbid_unknown_fields=True, gc=False):
    """Nearly every event of a long answer; other events are parsed by the general code."""

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


_quick_decoder = msgspec.json.Decoder(_QuickDelta)


class ResponsesParser(ItemEvents):
    """Items are found by their id, else by their position. The streamed items are the record, and
    what is repeated later only fills gaps."""

    has_fast_path: ClassVar[bool] = True

    def __init__(self, *, model: str, endpoint: str, options: Values) -> None:
        super().__init__(model=model, endpoint=endpoint, options=options)
        self._facts: JsonObject = {}
        self._status = ""
        self._stop_details: JsonObject = {}
        self._number: int | None = None
        # The highest number so far, once numbers are known to increase.
        self._next_number: int | None = None
        self._numbers_rise = False
        self._are_numbers_useless = False
        self._gaps = self._repeats = 0
        self._is_queued = False

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
        response = object_of(data, "response")
        if handler is None and text_of(response, "status"):
            # Fireworks documents the object, but not the names of the events around it.
            self._on_snapshot(response)
            return
        # An unknown event of the family may report an error of something beside the answer.
        if handler is None and not name.startswith("response.") and says_error(event, data):
            handler = ResponsesParser._on_error
        if name != "response.created":
            self.start()
        reads_all = handler is ResponsesParser._on_error
        rule = EventRule(handler, None if reads_all else EVENT_MEMBERS) if handler else None
        self.handle_event(name, event, data, rule)

    def _is_repeat(self, data: JsonObject, name: str) -> bool:
        """Numbers increase by one. A lower one is a repetition, unless they have never increased:
        some servers send the same number with everything. Events that end the answer are always
        handled."""
        number = whole_of(data, "sequence_number")
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
        """This is not part of the API. Without a terminal event it is only the end of input."""
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
        """The complete answer is the object that the terminal event contains."""
        data = object_of(data, "response") or data
        self._take_facts(data)
        if isinstance(data.get("output"), list) or data.get("status"):
            self._end_with(data, text_of(data, "status") or "completed")
        else:
            self.fail_with_body(data)

    # --- the response ----------------------------------------------------------------------

    def _take_facts(self, response: JsonObject) -> None:
        """New facts about the whole answer in the response object."""
        model = text_of(response, "model")
        if not self.tracker.has_started:
            # ``chat.start`` names the model; only another model is reported.
            self._facts["model"] = model
            self.start(model)
        facts = {name: response.get(name) for name in ("model", *FACTS)}
        identity = text_of(response, "id")
        facts |= {"response_id": identity, "upstream_id": identity}
        facts["upstream_status"] = text_of(response, "status")
        if isinstance(response.get("reasoning"), dict):
            # The members of the request are repeated here.
            self._around.shows_summary = bool(response["reasoning"].get("summary"))
        changed = {
            name: value
            for name, value in facts.items()
            if value not in (None, "") and self._facts.get(name) != value
        }
        self._facts.update(changed)
        self.meta(changed)
        self.unknown_members_of("response", response, RESPONSE_MEMBERS, keeps_null=False)

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
        self.tracker.emit(
            ActivityStep(family="run", step="queued", phase=phase, label=gettext_noop("Queued"))
        )

    def _on_snapshot(self, response: JsonObject) -> None:
        """The response object itself, partial or final, from a server that sends no events."""
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

    # --- the end --------------------------------------------------------------------------------------------

    def on_end_event(self, status: str, data: JsonObject) -> bool:
        response = object_of(data, "response")
        self._take_facts(response)
        # Some servers end everything with the same event, and only the status tells the outcome.
        said = text_of(response, "status")
        is_said = said in ("incomplete", "failed", "cancelled") and status == "completed"
        self._end_with(response, said if is_said else status)
        return True

    def _end_with(self, response: JsonObject, status: str) -> None:
        """The object at the end fills gaps, and only it has the figures."""
        if status in ("queued", "in_progress"):
            # This is the body of an answer that is still being made: there is no end to report.
            return
        self._status = status
        for item in objects_of(response, "output"):
            self._fill(item)
        if status == "failed":
            error = response.get("error")
            self.fail_with({"error": error} if error else {"message": ""})
        self._end_items(is_complete=status == "completed")
        self.tracker.fail_empty_calls()
        if status in ("incomplete", "cancelled"):
            self._take_calls_back(keeps_done=status == "incomplete")
        if isinstance(response.get("usage"), dict) and response["usage"]:
            self.tracker.emit(UsageUpdate(usage=read_usage(response["usage"]), final=True))
        self._stop_details = scrub(object_of(response, "incomplete_details"))
        if self._around.differences:
            self.meta({"differences": self._around.differences})
        self.is_done = True

    def _fill(self, item: JsonObject) -> None:
        """An item of the object at the end, matched by id, else by type and order."""
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
            item.close_item(is_complete=is_complete)

    def _take_calls_back(self, *, keeps_done: bool) -> None:
        for item in self._directory.all:
            if isinstance(item, CallState):
                item.take_back(keeps_done=keeps_done)

    def _on_error(self, data: JsonObject) -> bool:
        """At the top level or nested; both occur."""
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
            reason = reason_of(raw) if raw else "unknown"
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
        # In the upstream's order, which is not that of arrival.
        ordered = sorted(
            self._directory.all, key=lambda item: item.index if item.index is not None else 1 << 60
        )
        native: list[Json] = [wire for item in ordered if (wire := item.native()) is not None]
        if native:
            self.tracker.emit(ReplayData(kind="native", data=native))


_END_STATUSES = frozenset(("completed", "incomplete", "failed", "cancelled"))


def _is_response(data: JsonObject) -> bool:
    """Returns whether this is the response object, not an event about it."""
    return isinstance(data.get("output"), list) or data.get("object") == "response"


# --- the table --------------------------------------------------------------------------------

Handler = Callable[[ResponsesParser, JsonObject], bool]


def _steps(
    kind: str, family: str, step: str, label: str, phases: Mapping[str, Phase]
) -> dict[str, Handler]:
    """Events that only report the progress of a call."""

    return {
        f"response.{kind}.{name}": _with(
            ResponsesParser.call_step, kind, family, step, phase, label
        )
        for name, phase in phases.items()
    }


def _with(method: Callable[..., bool], *about: object) -> Handler:
    """A handler that tells a method what the name of its event says."""
    return lambda parser, data: method(parser, *about, data)


HANDLERS: Mapping[str, Handler] = {
    "response.created": ResponsesParser._on_created,
    "response.queued": ResponsesParser._on_queued,
    "response.in_progress": ResponsesParser._on_in_progress,
    "response.output_item.added": ResponsesParser._on_item_added,
    "response.output_item.done": ResponsesParser._on_item_done,
    "response.content_part.added": ResponsesParser._on_part_done,
    "response.content_part.done": ResponsesParser._on_part_done,
    "response.output_text.delta": ResponsesParser._on_text_delta,
    "response.output_text.done": ResponsesParser._on_text_done,
    "response.output_text.annotation.added": ResponsesParser._on_annotation,
    "response.refusal.delta": ResponsesParser._on_refusal_delta,
    "response.refusal.done": ResponsesParser._on_refusal_done,
    "response.reasoning_text.delta": _with(ResponsesParser.reasoning_delta, "full"),
    "response.reasoning_text.done": _with(ResponsesParser.reasoning_whole, "full"),
    # A gateway's names of the two before.
    "response.reasoning.delta": _with(ResponsesParser.reasoning_delta, "full"),
    "response.reasoning.done": _with(ResponsesParser.reasoning_whole, "full"),
    "response.reasoning_part.added": ResponsesParser._on_reasoning_part,
    "response.reasoning_part.done": ResponsesParser._on_reasoning_part,
    "response.reasoning_summary_part.added": ResponsesParser._on_summary_part_added,
    "response.reasoning_summary_part.done": ResponsesParser._on_summary_part_done,
    "response.reasoning_summary_text.delta": _with(ResponsesParser.reasoning_delta, "summary"),
    "response.reasoning_summary_text.done": _with(ResponsesParser.reasoning_whole, "summary"),
    "response.function_call_arguments.delta": _with(
        ResponsesParser.arguments_delta, "function_call"
    ),
    "response.function_call_arguments.done": _with(
        ResponsesParser.arguments_whole, "function_call", "arguments"
    ),
    "response.custom_tool_call_input.delta": _with(
        ResponsesParser.arguments_delta, "custom_tool_call"
    ),
    "response.custom_tool_call_input.done": _with(
        ResponsesParser.arguments_whole, "custom_tool_call", "input"
    ),
    "response.mcp_call_arguments.delta": _with(ResponsesParser.arguments_delta, "mcp_call"),
    "response.mcp_call_arguments.done": _with(
        ResponsesParser.arguments_whole, "mcp_call", "arguments"
    ),
    # Fireworks' spelling of the two before.
    "response.mcp_call.arguments.delta": _with(ResponsesParser.arguments_delta, "mcp_call"),
    "response.mcp_call.arguments.done": _with(
        ResponsesParser.arguments_whole, "mcp_call", "arguments"
    ),
    "response.mcp_call.in_progress": _with(ResponsesParser.mcp_step, "progress"),
    "response.mcp_call.completed": _with(ResponsesParser.mcp_step, "done"),
    "response.mcp_call.failed": _with(ResponsesParser.mcp_step, "failed"),
    "response.mcp_list_tools.in_progress": _with(ResponsesParser.list_step, "progress"),
    "response.mcp_list_tools.completed": _with(ResponsesParser.list_step, "done"),
    "response.mcp_list_tools.failed": _with(ResponsesParser.list_step, "failed"),
    **_steps(
        *("web_search_call", "web_search", "search", gettext_noop("Searching the web")),
        {"in_progress": "start", "searching": "progress", "completed": "done"},
    ),
    **_steps(
        *("file_search_call", "file_search", "search", gettext_noop("Searching files")),
        {"in_progress": "start", "searching": "progress", "completed": "done"},
    ),
    **_steps(
        *("code_interpreter_call", "code", "run", gettext_noop("Running code")),
        {"in_progress": "start", "interpreting": "progress", "completed": "done"},
    ),
    "response.code_interpreter_call_code.delta": _with(
        ResponsesParser.arguments_delta, "code_interpreter_call"
    ),
    "response.code_interpreter_call_code.done": _with(
        ResponsesParser.arguments_whole, "code_interpreter_call", "code"
    ),
    "response.shell_call_command.added": ResponsesParser._on_command_delta,
    "response.shell_call_command.delta": ResponsesParser._on_command_delta,
    "response.shell_call_command.done": ResponsesParser._on_command_done,
    "response.shell_call_output_content.delta": ResponsesParser._on_shell_output,
    "response.shell_call_output_content.done": ResponsesParser._on_shell_output,
    **_steps(
        *("image_generation_call", "image", "draw", gettext_noop("Creating an image")),
        {"in_progress": "start", "generating": "progress", "completed": "done"},
    ),
    "response.image_generation_call.partial_image": ResponsesParser._on_partial_image,
    "response.audio.delta": _with(ResponsesParser.audio, "data", "partial"),
    "response.audio.done": _with(ResponsesParser.audio, None, "final"),
    "response.audio.transcript.delta": _with(ResponsesParser.audio, "transcript", "partial"),
    "response.audio.transcript.done": _with(ResponsesParser.audio, "transcript", "final"),
    **_steps(
        *("compaction", "context", "compaction", gettext_noop("Summarizing the conversation")),
        {"compacting": "progress"},
    ),
    "response.completed": _with(ResponsesParser.on_end_event, "completed"),
    "response.incomplete": _with(ResponsesParser.on_end_event, "incomplete"),
    "response.failed": _with(ResponsesParser.on_end_event, "failed"),
    # Documented as a webhook only.
    "response.cancelled": _with(ResponsesParser.on_end_event, "cancelled"),
    "error": ResponsesParser._on_error,
}
