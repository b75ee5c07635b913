"""The content blocks of a Messages answer: what each reports, and how it goes back later."""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct, field

from chat.dialects.anthropic_values import failure_reason, output_text, read_citation
from chat.dialects.items import Call, Item, ItemTracker
from chat.dialects.reading import write_json
from chat.dialects.stream import StreamParser, object_of, objects_of, text_of
from chat.events import (
    ActivityStep,
    CitationAdd,
    FailureMetadata,
    Json,
    JsonObject,
    MediaUpdate,
    ProviderInfo,
    ReplayData,
)

RESULT_SUFFIX = "_tool_result"

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_CONDENSED = "Earlier conversation was condensed"

# --- deltas of one text, as the quick way decodes them -------------------------------


class TextDelta(Struct, tag_field="type", tag="text_delta", forbid_unknown_fields=True, gc=False):
    content: str = field(name="text")


class ThinkingDelta(
    Struct, tag_field="type", tag="thinking_delta", forbid_unknown_fields=True, gc=False
):
    content: str = field(name="thinking")


class InputDelta(
    Struct, tag_field="type", tag="input_json_delta", forbid_unknown_fields=True, gc=False
):
    content: str = field(name="partial_json")


class Answer(Struct, kw_only=True, eq=False):
    """What the blocks of one answer share. ``calls`` are those that the upstream runs, by id.

    ``name`` goes into the ids of calls that came without one. ``resting`` is a text whose block
    has ended, and which the next block may continue. ``hides_thinking`` says that the request
    asked for thinking without its text.
    """

    parser: StreamParser
    tracker: ItemTracker
    name: str = ""
    calls: dict[str, Call] = {}
    resting: "TextBlock | None" = None
    hides_thinking: bool = False


class Block:
    """One content block being received. ``data`` is what its start held.

    ``start`` is called once, then ``delta`` any number of times (``add`` for a delta of its one
    text), then ``stop`` or, at the end of a broken answer, ``break_off``; ``native`` is asked last.
    """

    # The delta that ``add`` takes, by its wire name and as the quick way decodes it.
    text_delta: ClassVar[str] = ""
    text_member: ClassVar[str] = ""
    quick_delta: ClassVar[type | None] = None
    # The item whose text the block is, if it is one.
    item: Item | None = None

    def __init__(self, answer: Answer, data: JsonObject) -> None:
        self.answer = answer
        self.tracker = answer.tracker
        self.data = data
        self.is_whole = False

    def start(self) -> None:
        """Reports the block, and what its start already held."""

    def continues(self, resting: "TextBlock") -> bool:
        """Whether this block goes on with the text of the one before it."""
        return False

    def add(self, content: str) -> None:
        raise NotImplementedError

    def delta(self, kind: str, delta: JsonObject) -> bool:
        """Whether the delta fits this block and could be read."""
        content = delta.get(self.text_member)
        if not self.text_delta or kind != self.text_delta or not isinstance(content, str):
            return False
        self.add(content)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        """The block's end came, or (``is_complete`` is false) the length limit cut it."""
        self.is_whole = is_complete

    def break_off(self) -> None:
        """The answer ended inside the block. Items are closed by the tracker."""

    def native(self) -> JsonObject | None:
        """The block as the upstream would have given it whole; ``None`` if it cannot go back."""
        return self.data if self.is_whole else None

    def replay(self, kind: str, data: Json, item: Item | None = None) -> None:
        number = None if item is None else item.number
        call_id = item.call_id if isinstance(item, Call) else None
        self.tracker.emit(ReplayData(kind=kind, data=data, item=number, call_id=call_id))


class TextBlock(Block):
    """Text. One text with citations comes in several blocks, cut where what is cited begins and
    ends: for a reader they are one message."""

    text_delta = "text_delta"
    text_member = "text"
    quick_delta = TextDelta
    item: Item
    citations: list[JsonObject]
    _from: int
    _to: int | None

    def start(self) -> None:
        resting, self.answer.resting = self.answer.resting, None
        self.item = resting.item if resting else self.tracker.open_block("message")
        self.citations = objects_of(self.data, "citations")
        self._from, self._to = self._cut(), None
        self.add(text_of(self.data, "text"))
        for citation in self.citations:
            self._report(citation)

    def continues(self, resting: "TextBlock") -> bool:
        return bool(resting.citations) or isinstance(self.data.get("citations"), list)

    def add(self, content: str) -> None:
        self.tracker.block_text(self.item, content)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        citation = delta.get("citation")
        if kind != "citations_delta" or not isinstance(citation, dict):
            return super().delta(kind, delta)
        self.citations.append(citation)
        self._report(citation)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        """Its item ends with whatever comes next, unless that goes on with it."""
        super().stop(is_complete=is_complete)
        if self.answer.resting is not None:
            self.tracker.close(self.answer.resting.item)
        self.answer.resting = self
        if self.item.held:
            # Half of a character, whose other half would have been in this block.
            self.tracker.close(self.item)
            self.answer.resting = None
        self._to = self._cut()

    def _cut(self) -> int:
        """Where this block begins or ends in the pieces of its item."""
        self.item.kept_pieces = len(self.item.pieces)
        return self.item.kept_pieces

    def native(self) -> JsonObject | None:
        text = "".join(self.item.pieces[self._from : self._to])
        if not text.strip():
            # It would be refused: a text block must say something.
            return None
        block = {**self.data, "text": text}
        return {**block, "citations": self.citations} if self.citations else block

    def _report(self, citation: JsonObject) -> None:
        self.tracker.emit(CitationAdd(item=self.item.number, citation=read_citation(citation)))


class ThinkingBlock(Block):
    text_delta = "thinking_delta"
    text_member = "thinking"
    quick_delta = ThinkingDelta
    item: Item

    def start(self) -> None:
        self._signature: list[str] = []
        text = text_of(self.data, "thinking")
        is_hidden = self.answer.hides_thinking and not text
        self.item = self.tracker.open_block(
            "reasoning", reasoning="hidden" if is_hidden else "full"
        )
        self.add(text)
        self._sign(text_of(self.data, "signature"))

    def add(self, content: str) -> None:
        self.tracker.block_text(self.item, content)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        signature = delta.get("signature")
        if kind != "signature_delta" or not isinstance(signature, str):
            return super().delta(kind, delta)
        self._sign(signature)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.tracker.close(self.item)

    def native(self) -> JsonObject | None:
        """Thinking that was broken off before its signature would be refused, and so would
        thinking of nothing."""
        text = self.item.joined()
        if not self._signature and not (self.is_whole and text):
            return None
        block = {**self.data, "thinking": text}
        return {**block, "signature": "".join(self._signature)} if self._signature else block

    def _sign(self, signature: str) -> None:
        if signature:
            self._signature.append(signature)
            self.replay("thinking_signature", signature, self.item)


class RedactedBlock(Block):
    item: Item

    def start(self) -> None:
        self.item = self.tracker.open_block("reasoning", reasoning="hidden")
        self.replay("redacted_thinking", self.data.get("data"), self.item)

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.tracker.close(self.item)

    def native(self) -> JsonObject | None:
        return self.data


class CallBlock(Block):
    """A call of a tool. The ``input`` of its start is a placeholder unless nothing follows it."""

    text_delta = "input_json_delta"
    text_member = "partial_json"
    quick_delta = InputDelta
    executes: ClassVar[Literal["upstream", "client"]] = "client"
    call: Call

    def start(self) -> None:
        self.call = self.tracker.open_call(
            tool=text_of(self.data, "name"),
            call_id=text_of(self.data, "id") or None,
            executes=self.executes,
            provider_info=self.provider(),
        )
        self._identify()
        self.tracker.announce(self.call)

    def provider(self) -> ProviderInfo:
        return ProviderInfo(type="function")

    def add(self, content: str) -> None:
        self.tracker.call_text(self.call, content)

    def native(self) -> JsonObject | None:
        if not self.call.has_arguments:
            return None
        return {**self.data, "id": self.call.call_id, "input": self.call.arguments}

    def take_start_input(self) -> None:
        """The arguments of servers that send a call as a whole."""
        given = self.data.get("input")
        if given and not self.call.pieces:
            self.tracker.call_whole_text(
                self.call, given if isinstance(given, str) else write_json(given)
            )

    def _identify(self) -> None:
        """A call needs an id to be answered by; some servers leave it out."""
        if not self.call.call_id:
            name = _NOT_IN_IDS.sub("_", self.answer.name)[:40]
            self.call.call_id = f"toolu_{name}_{self.call.number}"
            self.call.id_synthesised = True


class ToolUseBlock(CallBlock):
    """A call that waits for us. It stays open until the answer is complete: a call of an answer
    that breaks off is never offered."""

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.take_start_input()
        if is_complete:
            self.tracker.finish_arguments(self.call)
        else:
            self.tracker.close(self.call, is_complete=False)


class ServerToolBlock(CallBlock):
    """A call that the upstream runs; its result is a block of its own, or of a later answer."""

    executes = "upstream"

    def start(self) -> None:
        super().start()
        self.answer.calls[str(self.call.call_id)] = self.call

    def provider(self) -> ProviderInfo:
        if text_of(self.data, "type") == "mcp_tool_use":
            label = text_of(self.data, "server_name") or None
            return ProviderInfo(type="mcp", server_label=label)
        return ProviderInfo(type="builtin", name=text_of(self.data, "name") or None)

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        if is_complete:
            self.take_start_input()
            self.tracker.finish_arguments(self.call)


class ResultBlock(Block):
    """What a tool of the upstream gave, whole in its start."""

    def start(self) -> None:
        call = self._call()
        self._fits = call.is_open
        if not self._fits:
            self.answer.parser.raw("content_block_start", data=self.data)
            return
        content = self.data.get("content")
        if self._has_failed(content):
            metadata = FailureMetadata(
                type="execution_failed",
                tool_name=call.tool,
                arguments=call.arguments,
                provider_info=call.provider_info,
            )
            self.tracker.call_failure(call, failure_reason(content), metadata)
        else:
            self.tracker.call_success(call, output_text(content))

    def native(self) -> JsonObject | None:
        return self.data if self._fits else None

    def _call(self) -> Call:
        """The call by its id. After a pause it stands in an earlier answer: then it is told again."""
        identity = text_of(self.data, "tool_use_id")
        call = self.answer.calls.get(identity)
        if call is not None:
            self.tracker.finish_arguments(call)
            return call
        tool = text_of(self.data, "type").removesuffix(RESULT_SUFFIX)
        provider = ProviderInfo(type="builtin", name=tool)
        call = self.tracker.open_call(
            tool=tool,
            call_id=identity,
            executes="upstream",
            provider_info=ProviderInfo(type="mcp") if tool == "mcp" else provider,
        )
        self.answer.calls[identity] = call
        return call

    def _has_failed(self, content: Json) -> bool:
        if self.data.get("is_error") is True:
            return True
        is_object = isinstance(content, dict)
        return is_object and (
            text_of(content, "type").endswith("_error") or "error_code" in content
        )


class UploadBlock(Block):
    """A file that the upstream's container holds; its content needs another API."""

    def start(self) -> None:
        item = self.tracker.open_media()
        self.tracker.emit(
            MediaUpdate(
                item=item.number,
                media_id=text_of(self.data, "file_id") or f"file-{item.number}",
                media_type="application/octet-stream",
            )
        )
        self.answer.parser.raw("container_upload", data=self.data)

    def native(self) -> JsonObject | None:
        return self.data


class CompactionBlock(Block):
    """A summary that stands for the conversation before it."""

    def start(self) -> None:
        self._content = [text] if (text := text_of(self.data, "content")) else []
        self._encrypted: Json = self.data.get("encrypted_content")
        self._step("start")
        if self._content or self._encrypted:
            self._keep(self.data)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        if kind != "compaction_delta":
            return False
        self._content.append(text_of(delta, "content"))
        self._encrypted = delta.get("encrypted_content") or self._encrypted
        self._keep({name: value for name, value in delta.items() if name != "type"})
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        has_summary = any(self._content) or bool(self._encrypted)
        self._step("done" if is_complete and has_summary else "failed")

    def break_off(self) -> None:
        self._step("failed")

    def native(self) -> JsonObject | None:
        if not self.is_whole:
            return None
        block = {**self.data, "content": "".join(self._content) or None}
        return {**block, "encrypted_content": self._encrypted} if self._encrypted else block

    def _keep(self, data: JsonObject) -> None:
        self.replay("compaction", data)

    def _step(self, phase: Literal["start", "done", "failed"]) -> None:
        self.tracker.emit(
            ActivityStep(family="context", step="compaction", phase=phase, label=_CONDENSED)
        )


class FallbackBlock(Block):
    """Another model went on from here."""

    def start(self) -> None:
        model = text_of(object_of(self.data, "to"), "model")
        detail = {name: self.data[name] for name in ("from", "to") if name in self.data}
        self.tracker.emit(
            ActivityStep(
                family="context",
                step="fallback",
                phase="done",
                label=f"Continued by model {model or 'of another name'}",
                detail=detail,
            )
        )
        self.replay("fallback", self.data)
        self.answer.parser.meta({"model": model} if model else {})

    def native(self) -> JsonObject | None:
        return self.data


class UnknownBlock(Block):
    """A type that no table knows: kept as it came. With deltas it cannot be sent back whole."""

    has_deltas = False

    def start(self) -> None:
        self.answer.parser.raw("content_block_start", data=self.data)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        self.has_deltas = True
        return False

    def native(self) -> JsonObject | None:
        return None if self.has_deltas else self.data


_BLOCKS: Mapping[str, type[Block]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
    "tool_use": ToolUseBlock,
    "server_tool_use": ServerToolBlock,
    "mcp_tool_use": ServerToolBlock,
    "container_upload": UploadBlock,
    "compaction": CompactionBlock,
    "fallback": FallbackBlock,
}
# What a delta belongs to whose block was never started.
_MISSING_STARTS: Mapping[str, JsonObject] = {
    "text_delta": {"type": "text", "text": ""},
    "citations_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": ""},
    "signature_delta": {"type": "thinking", "thinking": ""},
    "input_json_delta": {"type": "tool_use", "name": "", "input": {}},
    "compaction_delta": {"type": "compaction", "content": None},
}


def block_of(answer: Answer, data: JsonObject) -> Block:
    kind = text_of(data, "type")
    if kind.endswith(RESULT_SUFFIX) and text_of(data, "tool_use_id"):
        # Results of tools that are yet to come as well: they differ in nothing that matters.
        return ResultBlock(answer, data)
    return _BLOCKS.get(kind, UnknownBlock)(answer, data)


def missing_start(delta_kind: str) -> JsonObject | None:
    """A start for a delta that had none, by the delta's type."""
    start = _MISSING_STARTS.get(delta_kind)
    return dict(start) if start else None
