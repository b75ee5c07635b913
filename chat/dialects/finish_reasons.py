"""Why answers end: the reasons of all dialects and vendors, and how a run ends for each."""

from collections.abc import Mapping

from chat.events import ErrorKind, Status, StopReason

# Keys are in lower case, because vendors write them in any case: OpenAI, Anthropic, Google, Cohere, DeepSeek, Z.ai,
# MiniMax, Together, TGI, SGLang, Ollama, Bedrock, watsonx, GigaChat and Baidu.
_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(("stop", "end_turn", "complete", "completed", "finished", "done"), "stop"),
    **dict.fromkeys(("eos", "eos_token", "endoftext", "end_of_sequence", "load", "normal"), "stop"),
    "stop_sequence": "stop_sequence",
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "max_length"), "length"),
    **dict.fromkeys(("model_length", "model_context_window_exceeded", "max_messages"), "length"),
    **dict.fromkeys(("context_length", "error_limit", "max_tool_calls", "token_limit"), "length"),
    "max_output": "length",
    **dict.fromkeys(("tool_calls", "function_call", "tool_use", "tool_call"), "tool_use"),
    **dict.fromkeys(("content_filter", "sensitive", "safety", "recitation"), "content_filter"),
    **dict.fromkeys(("blocklist", "prohibited_content", "spii", "image_safety"), "content_filter"),
    **dict.fromkeys(("image_prohibited_content", "image_recitation", "language"), "content_filter"),
    **dict.fromkeys(("error_toxic", "content_filtered", "guardrail_intervened"), "content_filter"),
    "blacklist": "content_filter",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "compaction",
    "steered": "steered",
}
# Reasons that are errors, and the kind of error.
_ERRORS: Mapping[str, ErrorKind] = {
    **dict.fromkeys(("error", "failed", "network_error"), "server"),
    "insufficient_system_resource": "overloaded",
    **dict.fromkeys(("abort", "aborted", "cancelled", "canceled", "user_cancel"), "cancelled"),
    **dict.fromkeys(("malformed_function_call", "malformed_response", "no_image"), "server"),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), "server"),
    **dict.fromkeys(("unexpected_tool_call", "too_many_tool_calls"), "server"),
    "missing_thought_signature": "bad_request",
    **dict.fromkeys(("timeout", "time_limit"), "timeout"),
}
_INCOMPLETE: frozenset[StopReason] = frozenset(
    ("length", "content_filter", "refusal", "pause", "compaction", "steered")
)


def reason_of(raw: str | None) -> StopReason:
    """The reason in our terms; an answer that ended without one just stopped."""
    if not raw:
        return "stop"
    name = raw.lower()
    return "error" if name in _ERRORS else _REASONS.get(name, "unknown")


def error_kind_of(raw: str) -> ErrorKind | None:
    """The kind of error, if the reason is one."""
    return _ERRORS.get(raw.lower())


def status_of(reason: StopReason) -> Status:
    """The status of an answer in which no call or question waits."""
    return "incomplete" if reason in _INCOMPLETE else "completed"
