"""The parser of LM Studio's native event stream."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import cast

import msgspec
from msgspec import Struct

from chat.dialects.items import Call, TextKind
from chat.dialects.lmstudio.client_events import is_client_event
from chat.dialects.lmstudio.result import (
    failure_of,
    provider_of,
    reconcile,
    with_thinking,
)
from chat.dialects.lmstudio.tributary_stream import Relay
from chat.dialects.parameters import Values
from chat.dialects.reading import as_text, repair_text, scrub
from chat.dialects.stream import (
    EventRule,
    StreamParser,
    count_of,
    ending_of,
    number_of,
    object_of,
    objects_of,
    reads,
    says_error,
    text_of,
)
from chat.dialects.thinking import Mode, Piece, ThinkSplitter, has_lone_closing
from chat.events import (
    Cause,
    Ending,
    ErrorInfo,
    Event,
    JsonObject,
    ModelLoadEnd,
    ModelLoadProgress,
    ModelLoadStart,
    PromptProcessingEnd,
    PromptProcessingProgress,
    PromptProcessingStart,
    Stats,
    Usage,
    UsageUpdate,
)

# LM Studio ends an answer when the client disconnects. A Tributary continues it, unless told
# otherwise: stopping an answer here must stop it there, too.
LEAVING_ENDS_IT = {"Tributary-On-Disconnect": "stop"}
# Events of another Tributary about an answer in its queue.
QUEUE = "queue.update"


class _WireArguments(Struct):
    """The arguments of a tool event, whose original spelling is kept."""

    arguments: msgspec.Raw = msgspec.Raw()


class LmStudioParser(StreamParser):
    """Events keep their names. Item numbers and missing events are added."""

    def __init__(self, *, model: str, endpoint: str, options: Values) -> None:
        super().__init__(dialect="lmstudio", model=model, endpoint=endpoint)
        # The parameter that the user set; the answer's length is compared with it at the end.
        limit = options.get("max_output_tokens")
        self._max_output_tokens = limit if isinstance(limit, int) else None
        self._think_mode = cast(Mode, options.get("inline_think", "auto"))
        # Set while the message may still turn out to begin with reasoning.
        self._splitter: ThinkSplitter | None = None
        self._is_message_ended = False
        # Calls in order of arrival, by name: those without arguments, and those without a result.
        self._without_arguments: dict[str, deque[Call]] = {}
        self._without_result: dict[str, deque[Call]] = {}
        self._final: JsonObject | None = None
        # True if the answer began without ``chat.start``, which names the model.
        self._is_model_unknown = False
        # Set once an event of our own stream was seen.
        self._relay: Relay | None = None

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        name = text_of(data, "type") or event or ""
        if is_client_event(data):
            self._relay = self._relay or Relay(self)
            if not self._relay.read_event(data):
                self.start()
                self.raw(name, data=data)
            return
        if name == QUEUE and isinstance(data.get("run"), str):
            self._relay = self._relay or Relay(self)
            self._relay.waits(text_of(data, "message"))
            return
        if self._splitter is not None and name not in ("message.delta", "message.end"):
            self._decide_text(is_followed=name not in ("error", "chat.end"))
        rule = _EVENTS.get(name)
        if rule is None and says_error(event, data):
            rule = _EVENTS["error"]
        if name == "chat.end":
            self.start(text_of(object_of(data, "result"), "model_instance_id"))
        elif name != "chat.start" and not self.tracker.has_started:
            self._is_model_unknown = True
            self.start()
        self.handle_event(name, event, data, rule)

    def on_body(self, data: JsonObject) -> None:
        """The complete answer has the shape of the ``result`` of ``chat.end``."""
        if isinstance(data.get("result"), dict) and "output" not in data:
            data = data["result"]
        self.start(text_of(data, "model_instance_id"))
        if isinstance(data.get("output"), list):
            self._on_chat_end({"result": data})
        else:
            self.fail_with_body(data)

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]:
        self._decide_text()
        events = super().close(cause, error=error)
        if self._relay is not None and self._relay.ending is not None:
            # The server that ran it knows how the run ended; an error in it may say less.
            self.ending = self._relay.ending
        return events

    def natural_ending(self) -> Ending | None:
        if self._relay is not None:
            return self._relay.ending
        if self._final is None:
            return None
        produced = count_of(object_of(self._final, "stats"), "total_output_tokens")
        limit = self._max_output_tokens
        if limit is not None and produced is not None and produced >= limit:
            # LM Studio reports no reason. Reaching the limit exactly is the only sign of it.
            return ending_of("incomplete", "length")
        return ending_of("completed", "stop")

    # --- handlers: each returns whether it could read the payload -------------------

    def _on_chat_start(self, data: JsonObject) -> bool:
        is_first = not self.tracker.has_started
        self.start(text_of(data, "model_instance_id"))
        return is_first

    def _on_reasoning_start(self, _data: JsonObject) -> bool:
        self.tracker.open_text("reasoning")
        return True

    def _on_reasoning_delta(self, data: JsonObject) -> bool:
        return self._delta("reasoning", data)

    def _on_reasoning_end(self, _data: JsonObject) -> bool:
        return self.tracker.close_text("reasoning")

    def _on_message_start(self, _data: JsonObject) -> bool:
        self.tracker.close_text("message")
        self._splitter = ThinkSplitter(self._think_mode, is_strict=True)
        if self._splitter.is_transparent:
            self._decide_text()
        return True

    def _on_message_delta(self, data: JsonObject) -> bool:
        content = data.get("content")
        if self._splitter is None or not isinstance(content, str):
            return self._delta("message", data)
        self._say(self._splitter.feed(content))
        if self._splitter.is_transparent:
            self._decide_text()
        return True

    def _decide_text(self, *, is_followed: bool = False) -> None:
        """Ends the open message: no more of it comes, or not before something else (``is_followed``)."""
        splitter, self._splitter = self._splitter, None
        if splitter is None:
            return
        pieces = splitter.close(is_followed=is_followed)
        self._say(pieces)
        if self.tracker.current("message") is None and not pieces:
            self.tracker.open_text("message")
        if self._is_message_ended:
            self._end_message()

    def _say(self, pieces: list[Piece]) -> None:
        for kind, text in pieces:
            if kind == "message":
                self.tracker.switch_text(kind, text)
            elif not self.tracker.has_reasoned(text):
                self.tracker.open_text(kind)
                self.tracker.text(kind, text)

    def _on_message_end(self, _data: JsonObject) -> bool:
        if self._splitter is not None and self._splitter.is_waiting:
            self._is_message_ended = True
            return True
        self._decide_text()
        return self._end_message()

    def _end_message(self) -> bool:
        self._is_message_ended = False
        self.tracker.close_text("reasoning")
        message = self.tracker.current("message")
        is_auto = self._think_mode == "auto"
        if is_auto and message is not None and has_lone_closing(message.joined()):
            self.suggest("inline_think", "assume_open")
        return self.tracker.close_text("message")

    def _delta(self, kind: TextKind, data: JsonObject) -> bool:
        content = data.get("content")
        if not isinstance(content, str):
            return False
        self.tracker.text(kind, content)
        return True

    def _on_call_start(self, data: JsonObject) -> bool:
        self._open_call(data)
        return True

    def _on_call_arguments(self, data: JsonObject) -> bool:
        arguments = data.get("arguments")
        if not isinstance(arguments, dict):
            return False
        call = self._call_for(data, self._without_arguments)
        self.tracker.call_arguments(call, arguments, _spelling(self.source))
        return True

    def _on_call_success(self, data: JsonObject) -> bool:
        call = self._call_for(data, self._without_result)
        arguments = data.get("arguments")
        output = data.get("output")
        self.tracker.call_success(
            call,
            as_text(output),
            arguments if isinstance(arguments, dict) else None,
        )
        return True

    def _on_call_failure(self, data: JsonObject) -> bool:
        metadata = object_of(data, "metadata")
        call = self._call_for(
            {"tool": text_of(metadata, "tool_name"), **metadata}, self._without_result
        )
        failure = failure_of(metadata)
        failure.tool_name = failure.tool_name or call.tool
        self.tracker.call_failure(call, text_of(data, "reason"), failure)
        return True

    def _open_call(self, data: JsonObject) -> Call:
        call = self.tracker.open_call(
            tool=text_of(data, "tool"),
            executes="upstream",
            provider_info=provider_of(data.get("provider_info")),
            is_named=True,
        )
        for queues in (self._without_arguments, self._without_result):
            queues.setdefault(call.tool, deque()).append(call)
        return call

    def _call_for(self, data: JsonObject, queues: dict[str, deque[Call]]) -> Call:
        """There are no call ids: the open call of this name that lacks the step (of any name if none is
        given), which is the one with these arguments, else the oldest whose arguments did not come,
        else the oldest, else a new call."""
        tool = text_of(data, "tool")
        names = [tool] if tool else list(queues)
        waiting = [queue for name in names if (queue := queues.get(name)) and _drop_closed(queue)]
        if not waiting:
            call = self._open_call(data)
            return queues[call.tool].pop()
        oldest = min((queue[0] for queue in waiting), key=lambda call: call.number)
        arguments = data.get("arguments")
        found = _with_arguments(chain(*waiting), arguments) if isinstance(arguments, dict) else None
        call = found or oldest
        queues[call.tool].remove(call)
        return call

    def _on_error(self, data: JsonObject) -> bool:
        self.fail_with(data)
        return True

    def _on_chat_end(self, data: JsonObject) -> bool:
        result = data.get("result")
        self._final = scrub(result) if isinstance(result, dict) else {}
        has_output = isinstance(self._final.get("output"), list)
        output = with_thinking(objects_of(self._final, "output"), self._think_mode)
        differences = reconcile(self.tracker, output) if has_output else []
        self.tracker.close_all()
        stats = object_of(self._final, "stats")
        self._report_usage(stats)
        values: JsonObject = {"upstream_result": self._final} if self._final else {}
        if isinstance(self._final.get("response_id"), str):
            values["response_id"] = self._final["response_id"]
        model = text_of(self._final, "model_instance_id")
        if self._is_model_unknown and model not in ("", self.model):
            values["model_instance_id"] = model
        if stats:
            values["stats"] = {
                name: stats[name] for name in Stats.__struct_fields__ if name in stats
            }
        known = self.tracker.model
        if not self._is_model_unknown and model and known and model != known:
            differences.append({"about": "model", "streamed": known, "final": model})
        if differences:
            values["differences"] = differences
        self.meta(values)
        self.is_done = True
        return isinstance(result, dict)

    def _report_usage(self, stats: JsonObject) -> None:
        usage = Usage(
            input_tokens=count_of(stats, "input_tokens"),
            output_tokens=count_of(stats, "total_output_tokens"),
            reasoning_tokens=count_of(stats, "reasoning_output_tokens"),
            raw=stats,
        )
        if usage.input_tokens is not None and usage.output_tokens is not None:
            usage.total_tokens = usage.input_tokens + usage.output_tokens
        if stats:
            self.tracker.emit(UsageUpdate(usage=usage, final=True))


def _with_arguments(calls: Iterable[Call], arguments: JsonObject) -> Call | None:
    """The oldest open call with these arguments, else the oldest without any."""
    silent = None
    for call in calls:
        if call.is_open and call.arguments == arguments:
            return call
        if call.is_open and call.arguments is None and silent is None:
            silent = call
    return silent


def _drop_closed(queue: deque[Call]) -> bool:
    """Forgets calls that ended without the step that is waited for. Returns whether one is left."""
    while queue and not queue[0].is_open:
        queue.popleft()
    return bool(queue)


def _passed(
    make: Callable[..., Event], figure: str = "", *, names_model: bool = False
) -> EventRule:
    """Passes on an event about no item, if its ``figure`` is a number."""
    names = ("model_instance_id",) if names_model else ()

    def handle(parser: LmStudioParser, data: JsonObject) -> bool:
        members: JsonObject = {name: text_of(data, name) for name in names}
        if figure:
            members[figure] = number_of(data, figure)
        if None in members.values():
            return False
        parser.tracker.emit(make(**members))
        return True

    return reads(handle, figure, *names)


_CALL = ("tool", "arguments", "provider_info")
_EVENTS: Mapping[str, EventRule] = {
    "chat.start": reads(LmStudioParser._on_chat_start, "model_instance_id"),
    "model_load.start": _passed(ModelLoadStart, names_model=True),
    "model_load.progress": _passed(ModelLoadProgress, "progress", names_model=True),
    "model_load.end": _passed(ModelLoadEnd, "load_time_seconds", names_model=True),
    "prompt_processing.start": _passed(PromptProcessingStart),
    "prompt_processing.progress": _passed(PromptProcessingProgress, "progress"),
    "prompt_processing.end": _passed(PromptProcessingEnd),
    "reasoning.start": reads(LmStudioParser._on_reasoning_start),
    "reasoning.delta": reads(LmStudioParser._on_reasoning_delta, "content"),
    "reasoning.end": reads(LmStudioParser._on_reasoning_end),
    "tool_call.start": reads(LmStudioParser._on_call_start, *_CALL),
    "tool_call.arguments": reads(LmStudioParser._on_call_arguments, *_CALL),
    "tool_call.success": reads(LmStudioParser._on_call_success, "output", *_CALL),
    "tool_call.failure": reads(LmStudioParser._on_call_failure, "reason", "metadata"),
    "message.start": reads(LmStudioParser._on_message_start),
    "message.delta": reads(LmStudioParser._on_message_delta, "content"),
    "message.end": reads(LmStudioParser._on_message_end),
    "error": reads(LmStudioParser._on_error, "error"),
    "chat.end": reads(LmStudioParser._on_chat_end, "result"),
}


def _spelling(source: str) -> str | None:
    """The arguments as they were written: parsing loses the spelling of numbers and repeated
    keys."""
    try:
        raw = msgspec.json.decode(source, type=_WireArguments).arguments
    except (msgspec.DecodeError, UnicodeError):
        return None
    return repair_text(bytes(raw).decode("utf-8", "replace")) or None
