"""Output items while a run's events are folded, and the items that they become."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from chat.events import (
    UNFINISHED_CALL,
    Citation,
    Event,
    FailureMetadata,
    InvalidToolCallItem,
    Json,
    JsonObject,
    MediaItem,
    MessageEnd,
    MessageItem,
    OutputItem,
    ProviderInfo,
    ReasoningEnd,
    ReasoningItem,
    ReasoningKind,
    RefusalItem,
    ToolCallFailure,
    ToolCallItem,
    ToolExecution,
)

PartKind = Literal["message", "reasoning", "refusal", "tool_call", "media"]


class ResultPart(Struct, kw_only=True, eq=False):
    """An output item while it grows. Text stays in pieces until the whole is needed."""

    kind: PartKind
    number: int
    choice: int = 0
    is_open: bool = True
    pieces: list[str] = []
    citations: list[Citation] = []
    logprobs: list[Json] = []
    phase: str | None = None
    reasoning_kind: ReasoningKind = "full"
    has_replay: bool = False
    category: str | None = None
    tool: str = ""
    arguments: JsonObject | None = None
    arguments_raw: str | None = None
    output: str | None = None
    is_done: bool = False
    failure: ToolCallFailure | None = None
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    id_synthesised: bool = False
    caller: str | None = None
    execution: ToolExecution | None = None
    is_run_by_client: bool = True
    media_type: str = ""
    file: str | None = None


def item_of(part: ResultPart) -> OutputItem:
    return _ITEMS[part.kind](part)


def _message(part: ResultPart) -> MessageItem:
    return MessageItem(
        content="".join(part.pieces),
        citations=list(part.citations),
        logprobs=list(part.logprobs) or None,
        phase=part.phase,
    )


def _reasoning(part: ResultPart) -> ReasoningItem:
    return ReasoningItem(
        content="".join(part.pieces), kind=part.reasoning_kind, has_replay=part.has_replay
    )


def _refusal(part: ResultPart) -> RefusalItem:
    return RefusalItem(
        content="".join(part.pieces), category=part.category, logprobs=list(part.logprobs) or None
    )


def _media(part: ResultPart) -> MediaItem:
    transcript = "".join(part.pieces) or None
    return MediaItem(media_type=part.media_type, file=part.file, transcript=transcript)


def _call(part: ResultPart) -> ToolCallItem | InvalidToolCallItem:
    failure = part.failure
    if failure is not None and failure.metadata.type != "execution_failed":
        return InvalidToolCallItem(
            reason=failure.reason,
            metadata=failure.metadata,
            call_id=part.call_id or failure.call_id,
            arguments_raw=failure.arguments_raw or part.arguments_raw,
        )
    if failure is not None:
        return _failed_call(part, failure)
    return ToolCallItem(
        tool=part.tool,
        arguments=part.arguments or {},
        output=part.output,
        provider_info=part.provider_info,
        call_id=part.call_id,
        status="done" if part.is_done else "pending",
        arguments_raw=part.arguments_raw or "".join(part.pieces) or None,
        id_synthesised=part.id_synthesised,
        caller=part.caller,
        execution=part.execution,
    )


def _failed_call(part: ResultPart, failure: ToolCallFailure) -> ToolCallItem:
    """A call that ran and failed. If an earlier run made the call, this run's log has nothing but
    the failure."""
    return ToolCallItem(
        tool=part.tool or failure.metadata.tool_name,
        arguments=part.arguments or failure.metadata.arguments or {},
        output=failure.reason,
        provider_info=part.provider_info or failure.metadata.provider_info,
        call_id=part.call_id or failure.call_id,
        status="failed",
        arguments_raw=part.arguments_raw or "".join(part.pieces) or failure.arguments_raw,
        id_synthesised=part.id_synthesised,
        caller=part.caller,
        execution=failure.execution,
    )


_ITEMS: Mapping[PartKind, Callable[[ResultPart], OutputItem]] = {
    "message": _message,
    "reasoning": _reasoning,
    "refusal": _refusal,
    "tool_call": _call,
    "media": _media,
}


def closing_event(part: ResultPart) -> Event | None:
    """The event that closes an item whose parser is gone; refusals and media need none."""
    if part.kind == "message":
        return MessageEnd(item=part.number, choice=part.choice)
    if part.kind == "reasoning":
        return ReasoningEnd(item=part.number, choice=part.choice)
    if part.kind != "tool_call":
        return None
    return ToolCallFailure(
        item=part.number,
        choice=part.choice,
        reason=UNFINISHED_CALL,
        metadata=FailureMetadata(
            type="incomplete",
            tool_name=part.tool,
            arguments=part.arguments,
            provider_info=part.provider_info,
        ),
        call_id=part.call_id,
        arguments_raw=part.arguments_raw or "".join(part.pieces) or None,
    )
