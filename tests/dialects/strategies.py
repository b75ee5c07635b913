"""Hypothesis strategies for invalid and unexpected payloads."""

from __future__ import annotations

from hypothesis import strategies as st

Strategy = st.SearchStrategy[object]

CAUSES = st.sampled_from(["eof", "stopped", "interrupted", "failed"])
WORDS = st.sampled_from(
    [
        *("type", "error", "message", "content", "choices", "delta", "index", "id", "model"),
        *("usage", "finish_reason", "tool_calls", "function", "name", "arguments"),
        *("reasoning_content", "reasoning_details", "reasoning", "refusal", "role", "images"),
        *("audio", "annotations", "image_url", "url", "logprobs", "token_logprobs", "result"),
        *("output", "stats", "tool", "provider_info", "metadata", "tool_name", "reason"),
        *("progress", "load_time_seconds", "chat.start", "message.delta", "tool_call.start"),
        *("tool_call.arguments", "chat.end", "tool_call.success", "tool_call.failure"),
        *("reasoning.delta", "stop", "length", "text", "function_call", "extra_content"),
        *("x_thing", "invalid_tool_call", "tool_call", "object"),
    ]
)
TEXTS = (
    WORDS
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(
        [
            *("\ud83c", "\udf0a", "\x00", "<think>", "</think>", '{"a":1}', "{"),
            "data:image/png;base64,x",
        ]
    )
)


def json_values(texts: Strategy, keys: Strategy, max_leaves: int = 8) -> Strategy:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | texts,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6)  # type: ignore[arg-type]
        ),
        max_leaves=max_leaves,
    )


JSON = json_values(TEXTS, TEXTS, max_leaves=12)
