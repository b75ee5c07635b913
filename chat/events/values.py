"""Values inside events and results: output items, usage, errors, the ending, the result."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from chat.events.translation import gettext_noop

# Members of upstream JSON that are stored without interpretation. msgspec has no recursive JSON
# type; ``Any`` is confined to these two names.
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
    "answer_limit",
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
    "policy",
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
    "steered",
    "error",
    "stopped",
    "cut",
    "interrupted",
    "unknown",
]


# --- values inside events ----------------------------------------------------


class ProviderInfo(Struct, omit_defaults=True, kw_only=True):
    """The provider of a tool: LM Studio's plugin or MCP server, or one of our additional types."""

    type: str
    plugin_id: str | None = None
    server_label: str | None = None
    name: str | None = None


# The reason of an ``incomplete`` call, which is never run.
UNFINISHED_CALL = gettext_noop("The answer ended before this call was complete.")


class FailureMetadata(Struct, omit_defaults=True, kw_only=True):
    """Why a call failed: ``invalid_name``, ``invalid_arguments``, ``execution_failed``, ``incomplete``."""

    type: str
    tool_name: str
    arguments: JsonObject | None = None
    provider_info: ProviderInfo | None = None


class ErrorInfo(Struct, omit_defaults=True, kw_only=True):
    """An error in LM Studio's form, with our more precise class in ``kind``."""

    # Core fields of LM Studio, which are always present.
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
    """Token counts of one run; ``None`` means that the figure was not reported."""

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


class ToolInput(Struct, omit_defaults=True, kw_only=True):
    """A request of a tool to people in the middle of a call, as a form or an address, and the answer: ``accepted`` with the
    values of the form, ``declined``, ``canceled``, or ``expired``."""

    message: str = ""
    url: str = ""
    status: str = ""
    content: JsonObject | None = None
    answered_by: str = ""
    answered_at: str = ""


class ToolExecution(Struct, omit_defaults=True, kw_only=True):
    """How Tributary ran a call: what executed it (``http``, ``mcp``, ``search``, ``page``), the tool's rule, who approved
    it, the arguments that ran if the approver edited them, and what the tool asked meanwhile. ``credential``: the name of
    the person whose account it used. Times are ISO 8601 in UTC."""

    executor: str
    server: str = ""
    credential: str = ""
    rule: str = ""
    approved_by: str = ""
    approved_at: str = ""
    arguments: JsonObject | None = None
    started_at: str = ""
    ended_at: str = ""
    request_bytes: int = 0
    response_bytes: int = 0
    attempt: int = 0
    inputs: list[ToolInput] = field(default_factory=list)


class ToolCallItem(Struct, tag="tool_call", omit_defaults=True, kw_only=True):
    tool: str
    arguments: JsonObject
    # A core field of LM Studio, present also if there is no output yet.
    output: str | None = field(default_factory=lambda: None)
    provider_info: ProviderInfo | None = None
    call_id: str | None = None
    status: Literal["done", "pending", "failed"] = "done"
    arguments_raw: str | None = None
    id_synthesised: bool = False
    caller: str | None = None
    execution: ToolExecution | None = None


def is_run_by_client(call: ToolCallItem) -> bool:
    """Returns whether the call waits for us; calls that an upstream runs are part of its own turn."""
    return call.provider_info is None or call.provider_info.type in ("function", "custom")


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
    """LM Studio's figures; ``None`` if a figure was neither reported nor measured, never 0."""

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
    # The name of the person who stopped the answer, as of then.
    by: str | None = None


# Why the input ended. ``eof``: the body ended. ``stopped``: a person asked. ``interrupted``: the
# runner was lost or drained. ``failed``: our side gave up (timeout, limit, network); the caller
# passes the error.
Cause = Literal["eof", "stopped", "interrupted", "failed"]


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended: the two members of the result that no event before it contains."""

    status: Status
    stop: Stop


class Alternative(Struct, kw_only=True):
    """Choice 1…n-1 of an answer."""

    choice: int
    output: list[OutputItem]
    stop: Stop | None = None


class Extension(Struct, omit_defaults=True, kw_only=True):
    """``result.ext``: everything that LM Studio's own result has no member for."""

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
    # Frames of the stream that were not JSON; their content is in the log only.
    unreadable_frames: int = 0
    stats_source: Literal["upstream", "measured", "mixed"] = "measured"
    # The assistant turn in the upstream's own form. It is never sent to a browser.
    native: Json = None
    # The upstream's own final object, stored to be compared with, never copied from.
    upstream_result: Json = None


class Result(Struct, omit_defaults=True, kw_only=True):
    """The result of a run: LM Studio's response without a stream, plus ``ext``."""

    model_instance_id: str
    output: list[OutputItem]
    stats: Stats
    ext: Extension
    response_id: str | None = None
