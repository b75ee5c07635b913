"""The canonical events of a run, and the result that they fold to.

Nineteen of the 33 types are LM Studio's, under their published names and with
their published fields; the other fourteen carry what other dialects have and
LM Studio lacks. A run's log is a list of these, numbered from 1 without gaps.

Every type is a msgspec Struct tagged by ``type``. Defaults are left out when
encoded, so that an event costs what it says and nothing more. Durations are in
the unit that the name tells; ``t`` is in milliseconds since the request was
sent (0 where no clock ran, as in ``manage.py decode``).
"""

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

# Members of upstream JSON that we carry without interpreting them. msgspec has no
# recursive JSON type; ``Any`` is confined to these two names.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

ReasoningKind = Literal["full", "summary", "hidden"]
Executor = Literal["upstream", "client"]
ErrorType = Literal[
    "invalid_request",
    "unknown",
    "mcp_connection_error",
    "plugin_connection_error",
    "not_implemented",
    "model_not_found",
    "job_not_found",
    "internal_error",
]
ErrorKind = Literal[
    "auth",
    "permission",
    "billing",
    "bad_request",
    "not_found",
    "too_large",
    "context_length",
    "rate_limit",
    "quota",
    "overloaded",
    "timeout",
    "idle_timeout",
    "network",
    "cut",
    "protocol",
    "cancelled",
    "server",
    "unknown",
]
Status = Literal["completed", "waiting", "incomplete", "stopped", "failed", "cut", "interrupted"]
StopReason = Literal[
    "stop",
    "stop_sequence",
    "length",
    "tool_use",
    "content_filter",
    "refusal",
    "pause",
    "ask",
    "compaction",
    "error",
    "stopped",
    "cut",
    "interrupted",
    "unknown",
]


# --- values inside events ----------------------------------------------------


class ProviderInfo(Struct, omit_defaults=True, kw_only=True):
    """Who runs a tool: LM Studio's plugin or MCP server, or one of the added types."""

    type: str
    plugin_id: str | None = None
    server_label: str | None = None
    name: str | None = None


# The reason of an ``incomplete`` call: such a call is never run.
UNFINISHED_CALL = "The answer ended before this call was complete."


class FailureMetadata(Struct, omit_defaults=True, kw_only=True):
    """Why a call failed: ``invalid_name``, ``invalid_arguments``, ``execution_failed``, ``incomplete``."""

    type: str
    tool_name: str
    arguments: JsonObject | None = None
    provider_info: ProviderInfo | None = None


class ErrorInfo(Struct, omit_defaults=True, kw_only=True):
    """An error as LM Studio words it, with our finer class in ``kind``."""

    # Core fields of LM Studio: present whatever they say.
    type: ErrorType = field(default_factory=lambda: "unknown")
    message: str = field(default_factory=str)
    code: str | None = None
    param: str | None = None
    kind: ErrorKind = "unknown"
    status: int | None = None
    retryable: bool = False
    retry_after_seconds: float | None = None
    upstream: Json = None


class Usage(Struct, omit_defaults=True, kw_only=True):
    """Token counts of one run; ``None`` means that nobody reported the figure."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    details: JsonObject | None = None
    cost: float | None = None
    raw: Json = None


class Citation(Struct, omit_defaults=True, kw_only=True):
    kind: str
    title: str | None = None
    url: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    source: Json = None
    raw: Json = None


# --- the result (declared before the events: chat.end carries one) -------------


class MessageItem(Struct, tag="message", omit_defaults=True, kw_only=True):
    content: str
    citations: list[Citation] = []
    logprobs: list[Json] | None = None
    phase: str | None = None


class ReasoningItem(Struct, tag="reasoning", omit_defaults=True, kw_only=True):
    content: str
    kind: ReasoningKind = "full"
    has_replay: bool = False


class ToolCallItem(Struct, tag="tool_call", omit_defaults=True, kw_only=True):
    tool: str
    arguments: JsonObject
    # Core field of LM Studio: present also when there is no output yet.
    output: str | None = field(default_factory=lambda: None)
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    status: Literal["done", "pending", "failed"] = "done"
    arguments_raw: str | None = None
    id_synthesised: bool = False


class InvalidToolCallItem(Struct, tag="invalid_tool_call", omit_defaults=True, kw_only=True):
    reason: str
    metadata: FailureMetadata
    call_id: str | None = None
    arguments_raw: str | None = None


class RefusalItem(Struct, tag="refusal", omit_defaults=True, kw_only=True):
    content: str
    category: str | None = None
    logprobs: list[Json] | None = None


class MediaItem(Struct, tag="media", omit_defaults=True, kw_only=True):
    media_type: str
    file: str | None = None
    transcript: str | None = None


OutputItem = (
    MessageItem | ReasoningItem | ToolCallItem | InvalidToolCallItem | RefusalItem | MediaItem
)


class Stats(Struct, kw_only=True):
    """LM Studio's figures; ``None`` where nobody reported or measured one, never 0."""

    input_tokens: int | None = None
    total_output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    tokens_per_second: float | None = None
    time_to_first_token_seconds: float | None = None
    model_load_time_seconds: float | None = None


class Stop(Struct, omit_defaults=True, kw_only=True):
    reason: StopReason
    raw: str | None = None
    sequence: str | None = None
    details: Json = None
    # Of an answer that a person of ours has stopped: the name that the person had then.
    by: str | None = None


# Why the input ended. ``eof``: the body ended by itself. ``stopped``: a person asked.
# ``interrupted``: our runner was lost or drained. ``failed``: our side gave up (timeout,
# limit, network); the caller passes the error.
Cause = Literal["eof", "stopped", "interrupted", "failed"]


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended: the two members of the result that are not in the events before it."""

    status: Status
    stop: Stop


class Alternative(Struct, kw_only=True):
    """Choice 1…n-1 of an answer."""

    choice: int
    output: list[OutputItem]
    stop: Stop | None = None


class Extension(Struct, omit_defaults=True, kw_only=True):
    """``result.ext``: everything that LM Studio's own result has no place for."""

    status: Status
    stop: Stop
    usage: Usage | None = None
    error: ErrorInfo | None = None
    alternatives: list[Alternative] = []
    artifacts: list[JsonObject] = []
    mockups: list[JsonObject] = []
    asks: list[JsonObject] = []
    activity: list[JsonObject] = []
    fork: JsonObject | None = None
    meta: JsonObject = {}
    vendor: list[JsonObject] = []
    # Frames of the stream that were no JSON: what they said is in the log alone.
    unreadable_frames: int = 0
    stats_source: Literal["upstream", "measured", "mixed"] = "measured"
    # The assistant turn in the upstream's own form. Never sent to a browser.
    native: Json = None
    # The upstream's own final object, kept to be compared with, never copied from.
    upstream_result: Json = None


class Result(Struct, omit_defaults=True, kw_only=True):
    """What a run folds to: LM Studio's non-streaming response plus ``ext``."""

    model_instance_id: str
    output: list[OutputItem]
    stats: Stats
    ext: Extension
    response_id: str | None = None


# --- events ------------------------------------------------------------------


class EventBase(Struct, tag_field="type", omit_defaults=True, kw_only=True):
    """The envelope. ``seq`` is 0 until the log numbers the event; then nothing changes it."""

    seq: int = 0
    t: int = 0


class ItemEvent(EventBase, kw_only=True):
    """An event about one output item: position ``item`` in the output of ``choice``."""

    item: int
    choice: int = 0


class ChatStart(EventBase, tag="chat.start", kw_only=True):
    model_instance_id: str
    dialect: str = ""
    endpoint: str = ""
    requested_model: str = ""


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


class ToolCallDelta(ItemEvent, tag="tool_call.delta", kw_only=True):
    fragment: str
    call_id: str | None = None


class ToolCallArguments(ItemEvent, tag="tool_call.arguments", kw_only=True):
    tool: str
    arguments: JsonObject
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    arguments_raw: str | None = None
    # Set where the upstream never gave an id and ``call_id`` is ours.
    id_synthesised: bool = False


class ToolCallSuccess(ItemEvent, tag="tool_call.success", kw_only=True):
    tool: str
    arguments: JsonObject
    output: str
    provider_info: ProviderInfo | None = None
    call_id: str | None = None


class ToolCallFailure(ItemEvent, tag="tool_call.failure", kw_only=True):
    reason: str
    metadata: FailureMetadata
    call_id: str | None = None
    arguments_raw: str | None = None


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
    """Opaque material that the next request must carry back. Server-side only.

    The kind ``native`` holds the whole assistant turn in the upstream's own form and becomes
    ``result.ext.native``.
    """

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
    """Facts about the run. ``result.ext.meta`` is the union of all, the later ones winning.

    Four members steer the fold instead: ``response_id`` becomes ``result.response_id``,
    ``stats`` (LM Studio's own figures) wins over what we measured, ``upstream_result``
    goes to ``ext.upstream_result``, and ``alternative_stops`` (choice number as text, to a
    stop) says how the further choices of an answer ended.
    """

    values: JsonObject


class VendorRaw(EventBase, tag="vendor.raw", kw_only=True):
    """Anything that no table knows, as JSON or as text. Never dropped, never interpreted."""

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

# --- codec -------------------------------------------------------------------

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_raw_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_result_decoder = msgspec.json.Decoder(Result)


def encode(value: Event | Result) -> bytes:
    """UTF-8 JSON on one line."""
    return _encoder.encode(value)


def decode(body: bytes) -> Event:
    """The event of one JSON object; an unknown ``type`` becomes ``vendor.raw`` with its seq kept.

    Raises ``msgspec.DecodeError`` for what is no JSON object at all.
    """
    try:
        return _event_decoder.decode(body)
    except msgspec.ValidationError:
        # A newer version wrote this type. One unreadable event must not make a batch unreadable.
        data = msgspec.json.decode(body, type=JsonObject)
        return VendorRaw(
            seq=int(data.get("seq", 0)),
            t=int(data.get("t", 0)),
            dialect="tributary",
            event=str(data.get("type")),
            data=data,
        )


def decode_result(body: bytes | str) -> Result:
    return _result_decoder.decode(body)


def join_bodies(bodies: Iterable[bytes]) -> bytes:
    """One JSON array of events that are already encoded: the body of a segment."""
    return b"[" + b",".join(bodies) + b"]"


def split_bodies(body: bytes) -> list[bytes]:
    """The encoded events of a segment's body, each as its own JSON text."""
    return [bytes(raw) for raw in _raw_list_decoder.decode(body)]


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def to_ascii(body: bytes) -> bytes:
    """The same JSON with every character beyond ASCII escaped, so that no U+2028 leaves raw."""
    if body.isascii():
        return body
    return _NOT_ASCII.sub(_escape, body.decode()).encode("ascii")
