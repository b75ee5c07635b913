"""Content blocks of a Messages answer that are tool calls or results of tools."""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from chat.dialects.anthropic_messages.blocks import (
    AnswerState,
    ContentBlock,
    RedactedBlock,
    TextBlock,
    ThinkingBlock,
    failure_reason,
    output_text,
)
from chat.dialects.items import Call
from chat.dialects.reading import write_json
from chat.dialects.stream import object_of, text_of
from chat.events import ActivityStep, Json, JsonObject, MediaUpdate, ProviderInfo
from chat.events.translation import gettext_noop

RESULT_SUFFIX = "_tool_result"

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_CONDENSED = gettext_noop("Earlier messages summarized")


class CallBlock(ContentBlock):
    """A call of a tool. The ``input`` of its start is a placeholder, unless nothing follows it."""

    text_delta = "input_json_delta"
    text_member = "partial_json"
    executes: ClassVar[Literal["upstream", "client"]] = "client"
    call: Call

    def start(self) -> None:
        self.call = self.tracker.open_call(
            tool=text_of(self.data, "name"),
            call_id=text_of(self.data, "id") or None,
            executes=self.executes,
            provider_info=self.provider(),
            caller=text_of(object_of(self.data, "caller"), "tool_id") or None,
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
        """The arguments, from servers that send a call as a whole."""
        given = self.data.get("input")
        if given and not self.call.pieces:
            self.tracker.call_whole_text(
                self.call, given if isinstance(given, str) else write_json(given)
            )

    def _identify(self) -> None:
        """A call needs an id for its result; some servers leave it out."""
        if not self.call.call_id:
            name = _NOT_IN_IDS.sub("_", self.answer.name)[:40]
            self.call.call_id = f"toolu_{name}_{self.call.number}"
            self.call.id_synthesised = True


class ToolUseBlock(CallBlock):
    """A call that waits for us. It stays open until the answer is complete, because a call of an
    answer that breaks off is never offered."""

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.take_start_input()
        if is_complete:
            self.tracker.finish_arguments(self.call)
        else:
            self.tracker.close(self.call, is_complete=False)


class ServerToolBlock(CallBlock):
    """A call that the upstream runs. Its result is a block of its own, or of a later answer."""

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


class ResultBlock(ContentBlock):
    """The result of a tool of the upstream, complete in its start."""

    def start(self) -> None:
        call = self._call()
        self._fits = call.is_open
        if not self._fits:
            self.answer.parser.raw("content_block_start", data=self.data)
            return
        content = self.data.get("content")
        if self._has_failed(content):
            self.tracker.fail_call(call, failure_reason(content))
        else:
            self.tracker.call_success(call, output_text(content))

    def native(self) -> JsonObject | None:
        return self.data if self._fits else None

    def _call(self) -> Call:
        """The call by its id. After a pause the call is in an earlier answer; then it is reported
        again."""
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


class UploadBlock(ContentBlock):
    """A file in the upstream's container; its content needs another API."""

    is_whole = True

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


class CompactionBlock(ContentBlock):
    """A summary that replaces the conversation before it."""

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
        further = ("signature", "tool_changes")
        self.data |= {name: delta[name] for name in further if delta.get(name)}
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


class ToolListingBlock(ContentBlock):
    """The tools of an MCP server, which the server has asked for."""

    is_whole = True

    def start(self) -> None:
        label = text_of(self.data, "mcp_server_name")
        self.tracker.emit(
            ActivityStep(
                family="mcp",
                step="list_tools",
                phase="done",
                label=gettext_noop("Listing a server’s tools"),
                ref=label or None,
                detail={name: self.data.get(name) for name in ("mcp_server_name", "tools")},
            )
        )


class FallbackBlock(ContentBlock):
    """Another model continues from here."""

    is_whole = True

    def start(self) -> None:
        model = text_of(object_of(self.data, "to"), "model")
        detail = {name: self.data[name] for name in ("from", "to") if name in self.data}
        self.tracker.emit(
            ActivityStep(
                family="context",
                step="fallback",
                phase="done",
                label=f"Continued by {model}"
                if model
                else gettext_noop("Continued by another model"),
                detail=detail,
            )
        )
        self.replay("fallback", self.data)
        self.answer.parser.meta({"model": model} if model else {})


class UnknownBlock(ContentBlock):
    """An unknown type, kept as it came. With deltas it cannot be sent back as a whole."""

    has_deltas = False

    def start(self) -> None:
        self.answer.parser.raw("content_block_start", data=self.data)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        self.has_deltas = True
        return False

    def native(self) -> JsonObject | None:
        return None if self.has_deltas else self.data


_BLOCKS: Mapping[str, type[ContentBlock]] = {
    "text": TextBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
    "tool_use": ToolUseBlock,
    "server_tool_use": ServerToolBlock,
    "mcp_tool_use": ServerToolBlock,
    "container_upload": UploadBlock,
    "compaction": CompactionBlock,
    "mcp_tool_listing": ToolListingBlock,
    "fallback": FallbackBlock,
}
# The block for a delta whose block was never started.
_MISSING_STARTS: Mapping[str, JsonObject] = {
    "text_delta": {"type": "text", "text": ""},
    "citations_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": ""},
    "signature_delta": {"type": "thinking", "thinking": ""},
    "input_json_delta": {"type": "tool_use", "name": "", "input": {}},
    "compaction_delta": {"type": "compaction", "content": None},
}


def block_of(answer: AnswerState, data: JsonObject) -> ContentBlock:
    kind = text_of(data, "type")
    if kind.endswith(RESULT_SUFFIX) and text_of(data, "tool_use_id"):
        # Results of future tools, too: they don't differ in what matters here.
        return ResultBlock(answer, data)
    return _BLOCKS.get(kind, UnknownBlock)(answer, data)


def missing_start(delta_kind: str) -> JsonObject | None:
    """A start for a delta that had none, by the type of the delta."""
    start = _MISSING_STARTS.get(delta_kind)
    return dict(start) if start else None
