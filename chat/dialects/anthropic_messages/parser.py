"""The stream of the Messages API, as Anthropic, Friendli, Fireworks and LM Studio send it."""

from collections.abc import Mapping

from chat.dialects.anthropic_messages.blocks import (
    AnswerState,
    ContentBlock,
    RedactedBlock,
    TextBlock,
    ThinkingBlock,
    read_counts,
)
from chat.dialects.anthropic_messages.tool_blocks import ToolUseBlock, block_of, missing_start
from chat.dialects.errors import error_of
from chat.dialects.finish_reasons import reason_of, status_of
from chat.dialects.reading import scrub
from chat.dialects.stream import (
    CALLS_WAIT,
    EventRule,
    StreamParser,
    count_of,
    object_of,
    objects_of,
    reads,
    says_error,
    text_of,
    whole_of,
)
from chat.dialects.thinking import Mode
from chat.events import (
    Cause,
    Ending,
    ErrorInfo,
    Event,
    Json,
    JsonObject,
    ReplayData,
    Status,
    Stop,
    Usage,
    UsageUpdate,
)
from chat.events.translation import gettext_noop

NO_ANSWER_MESSAGE = gettext_noop("The server sent no answer.")

_MESSAGE_MEMBERS = frozenset(
    (
        *("id", "type", "role", "model", "content", "usage", "stop_reason", "stop_sequence"),
        *("stop_details", "container", "context_management", "input_transformations"),
        "diagnostics",
    )
)
_DELTA_MEMBERS = frozenset(
    ("type", "stop_reason", "stop_sequence", "stop_details", "container", "context_management")
)
_BLOCK_DELTA_MEMBERS = frozenset(
    (
        *("type", "text", "thinking", "signature", "partial_json", "citation", "content"),
        *("encrypted_content", "tool_changes"),
    )
)
# Facts about the answer that its details show.
_FACTS = ("container", "context_management", "input_transformations", "diagnostics")
_CREDIT = "fallback_credit_token"
_GIVEN = frozenset(
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
)
_COUNTED = _GIVEN | {"output_tokens"}


class AnthropicParser(StreamParser):
    """Turns events into blocks. Several blocks may be open at once; their index distinguishes
    them."""

    def __init__(
        self,
        *,
        dialect: str,
        model: str,
        endpoint: str,
        run_id: str = "",
        hides_thinking: bool = False,
        think_mode: Mode = "auto",
    ) -> None:
        super().__init__(dialect=dialect, model=model, endpoint=endpoint)
        self._answer = AnswerState(
            parser=self,
            tracker=self.tracker,
            name=run_id,
            hides_thinking=hides_thinking,
            think_mode=think_mode,
        )
        self._blocks: list[ContentBlock] = []
        self._open: dict[int, ContentBlock] = {}
        self._stopped: set[int] = set()
        self._newest_index = 0
        # Some gateways start the message again while blocks are open.
        self._is_repeated = False
        # Others begin another message, with another id, after they lost the first one. Blocks before
        # ``_attempt`` are the text of that.
        self._identity = ""
        self._is_retry = False
        self._attempt = 0
        self._usage: JsonObject = {}
        self._has_output_count = False
        self._stop_reason: str | None = None
        self._stop_sequence: str | None = None
        self._stop_details: Json = None
        self._has_refused = False

    # --- frames -----------------------------------------------------------------------

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        name = text_of(data, "type") or event or ""
        rule = _EVENTS.get(name)
        if rule is None and says_error(event, data):
            rule = _EVENTS["error"]
        if name not in ("message_start", "message"):
            self.start()
        self.handle_event(name, event, data, rule)

    def on_body(self, data: JsonObject) -> None:
        if isinstance(data.get("content"), list):
            self._on_message(data)
        else:
            self.fail_with_body(data)

    def on_done(self) -> None:
        """This is not part of the API. Some gateways send it; after a stop reason it may be the
        only end."""
        if self._stop_reason is not None:
            self.meta({"no_message_stop": True})
            self._finish()

    # --- handlers: each returns whether it could read the payload ------------------------

    def _on_message_start(self, data: JsonObject) -> bool:
        message = data.get("message")
        if not isinstance(message, dict):
            self.start()
            return False
        self._begin(message)
        for block in objects_of(message, "content"):
            self._take_whole(block)
        # Some servers send the stop reason here and never again.
        self._note_stop(message)
        return True

    def _on_message(self, data: JsonObject) -> bool:
        """The whole answer in one object."""
        self._begin(data)
        self._has_output_count = count_of(object_of(data, "usage"), "output_tokens") is not None
        for block in objects_of(data, "content"):
            self._take_whole(block)
        self._note_stop(data)
        self._finish()
        return True

    def _on_block_start(self, data: JsonObject) -> bool:
        block = data.get("content_block")
        if not isinstance(block, dict):
            return False
        self._open_block(self._index(data), block)
        return True

    def _on_block_delta(self, data: JsonObject) -> bool:
        delta = object_of(data, "delta")
        kind = text_of(delta, "type")
        index = self._index(data)
        block = self._open.get(index)
        if block is None:
            # After a block's end only text is useful without the rest of its block.
            is_late = index in self._stopped and kind != "text_delta"
            start = None if is_late else missing_start(kind)
            if start is None:
                return False
            block = self._open_block(index, start)
        if not block.delta(kind, delta):
            return False
        self.unknown_members_of(kind, delta, _BLOCK_DELTA_MEMBERS)
        return True

    def _on_block_stop(self, data: JsonObject) -> bool:
        index = self._index(data)
        block = self._open.pop(index, None)
        self._stopped.add(index)
        if block is None:
            return False
        block.stop()
        return True

    def _on_message_delta(self, data: JsonObject) -> bool:
        delta = object_of(data, "delta")
        self._end_text()
        self._note_facts({**data, **delta})
        self.unknown_members_of("message_delta", delta, _DELTA_MEMBERS)
        self._note_stop(delta)
        usage = object_of(data, "usage")
        if count_of(usage, "output_tokens") is not None:
            self._has_output_count = True
        self._merge_usage(usage)
        return True

    def _on_message_stop(self, _data: JsonObject) -> bool:
        self._finish()
        return True

    def _on_error(self, data: JsonObject) -> bool:
        """Ends the stream: nothing has to follow an error."""
        self.fail_with(data)
        self.is_done = True
        return True

    # --- what the handlers share ----------------------------------------------------------

    def _begin(self, message: JsonObject) -> None:
        """A second message in one stream continues with new items, which their starts begin: some gateways
        repeat the start of the message in the middle of a block."""
        self.start(text_of(message, "model"))
        self._is_repeated = bool(self._open)
        if not self._open:
            self._end_text()
        self._stopped.clear()
        identity = text_of(message, "id")
        is_other = bool(identity and self._identity) and identity != self._identity
        self._is_retry = is_other and bool(self._blocks) and self._stop_reason is None
        self._identity = identity or self._identity
        self._answer.name = self._answer.name or identity
        facts = {"upstream_id": identity, "model": text_of(message, "model")}
        self.meta({name: value for name, value in facts.items() if value})
        self._note_facts(message)
        self.unknown_members_of("message", message, _MESSAGE_MEMBERS)
        self._merge_usage(object_of(message, "usage"))

    def _index(self, data: JsonObject) -> int:
        """The block's index; a missing one means the newest block."""
        index = whole_of(data, "index")
        return self._newest_index if index is None else index

    def _open_block(self, index: int, data: JsonObject) -> ContentBlock:
        before = self._open.pop(index, None)
        if before is not None:
            before.stop()
        self._decide_text(is_followed=True)
        if self._is_retry:
            self._withdraw()
        elif self._is_repeated:
            self._stop_blocks()
        self._is_retry = self._is_repeated = False
        block = block_of(self._answer, data)
        self._end_text(block)
        self._newest_index = index
        self._stopped.discard(index)
        self._blocks.append(block)
        self._open[index] = block
        block.start()
        return block

    def _take_whole(self, data: JsonObject) -> None:
        index = len(self._blocks)
        self._open_block(index, data).stop()
        del self._open[index]

    def _stop_blocks(self) -> None:
        """Ends blocks without an end of their own. A call that the length limit may have cut is not
        offered to be run."""
        is_cut = reason_of(self._stop_reason) == "length"
        for block in self._open.values():
            block.stop(is_complete=not (is_cut and isinstance(block, ToolUseBlock)))
        self._open.clear()
        self._end_text()

    def _withdraw(self) -> None:
        """Withdraws an unfinished message before another one: its calls are not run, and only its
        text may be sent back."""
        for block in self._open.values():
            block.stop(is_complete=not isinstance(block, ToolUseBlock))
        self._open.clear()
        self._end_text()
        for block in self._blocks:
            if isinstance(block, ToolUseBlock):
                self.tracker.close(block.call, is_complete=False)
                block.call.has_arguments = False
        self._blocks = [block for block in self._blocks if isinstance(block, TextBlock)]
        self._attempt = len(self._blocks)

    def _decide_text(self, *, is_followed: bool = False) -> None:
        """Ends the open text, which is complete or followed by something else (``is_followed``)."""
        if self._answer.undecided is not None:
            self._answer.undecided.decide(is_followed=is_followed)

    def _end_text(self, following: ContentBlock | None = None) -> None:
        """Ends a text whose block has ended, unless the next block continues it."""
        self._decide_text()
        resting = self._answer.resting
        if resting is not None and not (following and following.continues(resting)):
            self._answer.resting = None
            self.tracker.close(resting.item)

    def _note_facts(self, data: JsonObject) -> None:
        for name in _FACTS:
            if data.get(name) is not None:
                self.note_once(name, data[name])

    def _note_stop(self, data: JsonObject) -> None:
        self._stop_reason = text_of(data, "stop_reason") or self._stop_reason
        self.fail_for_reason(text_of(data, "stop_reason"))
        self._stop_sequence = text_of(data, "stop_sequence") or self._stop_sequence
        details = scrub(data.get("stop_details"))
        if isinstance(details, dict) and details.pop(_CREDIT, None) is not None:
            self._keep_credit(data)
        self._stop_details = details or self._stop_details
        if self._stop_reason == "refusal" and not self._has_refused:
            details = self._stop_details if isinstance(self._stop_details, dict) else {}
            explanation = text_of(details, "explanation")
            self._has_refused = bool(explanation)
            category = text_of(details, "category") or None
            self.tracker.text("refusal", explanation, category=category)

    def _keep_credit(self, data: JsonObject) -> None:
        """Keeps a claim with a monetary value at this server: only sent back, never shown."""
        token = object_of(data, "stop_details")[_CREDIT]
        self.tracker.emit(ReplayData(kind=_CREDIT, data=scrub(token)))

    # --- usage ------------------------------------------------------------------------------

    def _merge_usage(self, usage: JsonObject) -> None:
        """The counts are totals of the whole message: a later one replaces an earlier one, unless
        it is the zero of a server that counts the prompt only once, and sends zeros after that."""
        counts_prompt = bool(usage.get("iterations")) or any(usage.get(name) for name in _GIVEN)
        self._usage.update(
            {
                name: value
                for name, value in usage.items()
                if value is not None
                and (value != 0 or counts_prompt or name not in _GIVEN or not self._usage.get(name))
            }
        )
        if usage:
            self._report_usage(is_final=False)

    def _report_usage(self, *, is_final: bool) -> None:
        usage = self._read_usage(is_final=is_final)
        if usage.input_tokens is not None or usage.output_tokens is not None:
            self.tracker.emit(UsageUpdate(usage=usage, final=is_final))

    def _read_usage(self, *, is_final: bool) -> Usage:
        """The first event counts no output yet, and some servers send zeros for all unknown counts:
        no prompt has zero tokens."""
        raw = dict(self._usage)
        given, made = read_counts(raw)
        has_output = self._has_output_count or (is_final and bool(made))
        details = {name: value for name, value in raw.items() if name not in _COUNTED}
        return Usage(
            input_tokens=given or (given if raw.get("iterations") else None),
            output_tokens=made if has_output else None,
            reasoning_tokens=count_of(object_of(raw, "output_tokens_details"), "thinking_tokens"),
            cache_read_tokens=count_of(raw, "cache_read_input_tokens") if given else None,
            cache_write_tokens=count_of(raw, "cache_creation_input_tokens") if given else None,
            details=details or None,
            raw=raw,
        )

    # --- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._stop_blocks()
        self.tracker.fail_empty_calls()
        self.is_done = True

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]:
        self._decide_text()
        return super().close(cause, error=error)

    def natural_ending(self) -> Ending | None:
        if not self.is_done:
            return None
        if self._stop_reason is None and not self.tracker.has_output():
            self.fail(error_of("server", NO_ANSWER_MESSAGE))
            return None
        stop = self._stop()
        return Ending(status=self._status(stop), stop=stop)

    def said_reason(self) -> str | None:
        return self._stop_reason

    def _stop(self) -> Stop:
        """The stop, by the content rather than the reason: some servers send ``end_turn`` with open calls."""
        raw = self._stop_reason
        reason = reason_of(raw)
        if reason == "stop" and self._has_waiting_calls():
            reason = "tool_use"
        return Stop(
            reason=reason, raw=raw, sequence=self._stop_sequence, details=self._stop_details
        )

    def _status(self, stop: Stop) -> Status:
        if stop.reason in CALLS_WAIT and self._has_waiting_calls():
            return "waiting"
        return status_of(stop.reason)

    def _has_waiting_calls(self) -> bool:
        return any(isinstance(b, ToolUseBlock) and b.call.has_arguments for b in self._blocks)

    def on_close(self, *, is_complete: bool) -> None:
        for block in self._open.values():
            block.break_off()
        self._report_usage(is_final=is_complete)
        newest = self._blocks[self._attempt :]
        # An answer with thinking has to begin with it.
        has_thought = any(isinstance(block, ThinkingBlock | RedactedBlock) for block in newest)
        blocks = newest if has_thought else self._blocks
        content = [native for block in blocks if (native := block.native()) is not None]
        if content:
            turn = {"role": "assistant", "content": content}
            self.tracker.emit(ReplayData(kind="native", data=turn))


_EVENTS: Mapping[str, EventRule] = {
    "message_start": reads(AnthropicParser._on_message_start, "message"),
    "content_block_start": reads(AnthropicParser._on_block_start, "index", "content_block"),
    "content_block_delta": reads(AnthropicParser._on_block_delta, "index", "delta"),
    "content_block_stop": reads(AnthropicParser._on_block_stop, "index"),
    "message_delta": reads(
        AnthropicParser._on_message_delta, "delta", "usage", "context_management"
    ),
    "message_stop": reads(AnthropicParser._on_message_stop),
    "message": EventRule(AnthropicParser._on_message),
    "ping": EventRule(lambda _parser, _data: True),
    "error": EventRule(AnthropicParser._on_error),
}
