"""The canonical events of a run.

Nineteen of the 33 types are LM Studio's, with their published names and fields; the other fourteen
carry what other dialects have and LM Studio lacks. A run's log is a list of these, numbered from 1
without gaps.

Every type is a msgspec Struct tagged by ``type``. Defaults are left out when encoded. Names of
durations contain their unit; ``t`` is in milliseconds since the request was sent (0 without a
clock, as in ``manage.py decode``).
"""

from typing import Literal

from msgspec import Struct

from chat.events.values import (
    Citation,
    ErrorInfo,
    Executor,
    FailureMetadata,
    Json,
    JsonObject,
    ProviderInfo,
    ReasoningKind,
    Result,
    ToolExecution,
    Usage,
)

# --- events ------------------------------------------------------------------


class EventBase(Struct, tag_field="type", omit_defaults=True, kw_only=True):
    """The common members. ``seq`` is 0 until the log numbers the event; after that nothing
    changes."""

    seq: int = 0
    t: int = 0


class ItemEvent(EventBase, kw_only=True):
    """An event about one output item: position ``item`` in the output of ``choice``."""

    item: int
    choice: int = 0


class ChatStart(EventBase, tag="chat.start", kw_only=True):
    """``defers_tools``: the model was told only the names of the conversation's tools, and calls them by a function. It
    is written by the log of the run, never by a server."""

    model_instance_id: str
    dialect: str = ""
    endpoint: str = ""
    requested_model: str = ""
    defers_tools: bool = False


class ModelLoadStart(EventBase, tag="model_load.start", kw_only=True):
    model_instance_id: str


class ModelLoadProgress(EventBase, tag="model_load.progress", kw_only=True):
    model_instance_id: str
    progress: float


class ModelLoadEnd(EventBase, tag="model_load.end", kw_only=True):
    model_instance_id: str
    load_time_seconds: float


class PromptProcessingStart(EventBase, tag="prompt_processing.start", kw_only=True):
    pass


class PromptProcessingProgress(EventBase, tag="prompt_processing.progress", kw_only=True):
    progress: float


class PromptProcessingEnd(EventBase, tag="prompt_processing.end", kw_only=True):
    pass


class ReasoningStart(ItemEvent, tag="reasoning.start", kw_only=True):
    kind: ReasoningKind = "full"
    part: int | None = None


class ReasoningDelta(ItemEvent, tag="reasoning.delta", kw_only=True):
    content: str


class ReasoningEnd(ItemEvent, tag="reasoning.end", kw_only=True):
    pass


class ToolCallStart(ItemEvent, tag="tool_call.start", kw_only=True):
    tool: str
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    executes: Executor = "client"
    id_synthesised: bool = False
    # The id of the program whose code made this call.
    caller: str | None = None


class ToolCallDelta(ItemEvent, tag="tool_call.delta", kw_only=True):
    fragment: str
    call_id: str | None = None


class ToolCallArguments(ItemEvent, tag="tool_call.arguments", kw_only=True):
    tool: str
    arguments: JsonObject
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    arguments_raw: str | None = None
    # Set if the upstream sent no id and ``call_id`` was generated here.
    id_synthesised: bool = False


class ToolCallSuccess(ItemEvent, tag="tool_call.success", kw_only=True):
    tool: str
    arguments: JsonObject
    output: str
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    execution: ToolExecution | None = None


class ToolCallFailure(ItemEvent, tag="tool_call.failure", kw_only=True):
    reason: str
    metadata: FailureMetadata
    call_id: str | None = None
    arguments_raw: str | None = None
    execution: ToolExecution | None = None


class MessageStart(ItemEvent, tag="message.start", kw_only=True):
    phase: str | None = None


class MessageDelta(ItemEvent, tag="message.delta", kw_only=True):
    content: str


class MessageEnd(ItemEvent, tag="message.end", kw_only=True):
    pass


class Error(EventBase, tag="error", kw_only=True):
    error: ErrorInfo


class ChatEnd(EventBase, tag="chat.end", kw_only=True):
    result: Result


class RefusalDelta(ItemEvent, tag="refusal.delta", kw_only=True):
    content: str
    category: str | None = None


class ReplayData(EventBase, tag="replay.data", kw_only=True):
    """Opaque data that the next request must send back. It never leaves the server. The kind
    ``native`` contains the whole assistant turn in the upstream's own form and becomes
    ``result.ext.native``."""

    kind: str
    data: Json
    item: int | None = None
    choice: int = 0
    call_id: str | None = None


class CitationAdd(ItemEvent, tag="citation.add", kw_only=True):
    citation: Citation


class LogprobsAdd(ItemEvent, tag="logprobs.add", kw_only=True):
    tokens: list[Json]
    target: Literal["message", "refusal"] = "message"


class UsageUpdate(EventBase, tag="usage.update", kw_only=True):
    """Token counts so far. Each event replaces the earlier one; nothing is added up."""

    usage: Usage
    final: bool = False


class MediaUpdate(ItemEvent, tag="media.update", kw_only=True):
    """A picture, sound or file. The transcripts of ``partial`` states are pieces of one."""

    media_id: str
    media_type: str
    state: Literal["partial", "final"] = "final"
    index: int | None = None
    data: str | None = None
    url: str | None = None
    transcript: str | None = None


class ArtifactUpdate(EventBase, tag="artifact.update", kw_only=True):
    op: Literal["created", "updated"]
    artifact_id: str
    identifier: str | None = None
    title: str | None = None
    language: str | None = None
    content_type: str | None = None
    content: str | None = None


class MockupUpdate(EventBase, tag="mockup.update", kw_only=True):
    op: Literal["calling", "created", "updated", "error"]
    bundle_id: str | None = None
    identifier: str | None = None
    title: str | None = None
    entry: str | None = None
    files: list[JsonObject] | None = None
    changed: list[str] | None = None
    deleted: list[str] | None = None
    code: str | None = None
    message: str | None = None
    successful_paths: list[str] | None = None
    failed_path: str | None = None


class AskQuestion(EventBase, tag="ask.question", kw_only=True):
    ask_id: str
    question: str
    options: list[Json] = []
    allow_free_text: bool = False
    multi_select: bool = False
    style: str | None = None
    fields: list[Json] = []
    call_id: str | None = None
    # The tool call that an approval is about. Arguments that are no JSON object are only text.
    tool: str | None = None
    arguments: JsonObject | None = None
    arguments_raw: str | None = None
    provider_info: ProviderInfo | None = None


class ActivityStep(EventBase, tag="activity.step", kw_only=True):
    family: str
    step: str
    phase: Literal["start", "progress", "done", "failed", "note"]
    label: str = ""
    ref: str | None = None
    detail: Json = None


class ContextFork(EventBase, tag="context.fork", kw_only=True):
    branch_id: str
    branch_name: str | None = None
    message_count: int | None = None


class MetaUpdate(EventBase, tag="meta.update", kw_only=True):
    """Facts about the run. ``result.ext.meta`` is the union of all; later values win.

    Four members have another effect: ``response_id`` becomes ``result.response_id``, ``stats`` (LM
    Studio's own figures) replaces measured ones, ``upstream_result`` goes to
    ``ext.upstream_result``, and ``alternative_stops`` (choice number as text, to a stop) says how
    the further choices of an answer ended.
    """

    values: JsonObject


class VendorRaw(EventBase, tag="vendor.raw", kw_only=True):
    """Unknown data, as JSON or as text. It is never dropped and never interpreted."""

    dialect: str
    event: str | None = None
    data: Json = None
    text: str | None = None


Event = (
    ChatStart
    | ModelLoadStart
    | ModelLoadProgress
    | ModelLoadEnd
    | PromptProcessingStart
    | PromptProcessingProgress
    | PromptProcessingEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallArguments
    | ToolCallSuccess
    | ToolCallFailure
    | MessageStart
    | MessageDelta
    | MessageEnd
    | Error
    | ChatEnd
    | RefusalDelta
    | ReplayData
    | CitationAdd
    | LogprobsAdd
    | UsageUpdate
    | MediaUpdate
    | ArtifactUpdate
    | MockupUpdate
    | AskQuestion
    | ActivityStep
    | ContextFork
    | MetaUpdate
    | VendorRaw
)

EVENT_TYPES: dict[str, type[EventBase]] = {
    str(struct.__struct_config__.tag): struct for struct in Event.__args__
}
