"""Why answers end, in the words of vendors."""

import pytest

from chat.dialects.finish_reasons import error_kind_of, reason_of, status_of

# As vendors document them: the reason in our terms, and how the answer ends.
REASONS = [
    *[
        (raw, "stop", "completed")
        for raw in ("stop", "STOP", "end_turn", "COMPLETE", "eos", "normal")
    ],
    *[(raw, "length", "incomplete") for raw in ("length", "MAX_TOKENS", "model_length")],
    *[(raw, "length", "incomplete") for raw in ("token_limit", "max_output", "max_messages")],
    *[(raw, "content_filter", "incomplete") for raw in ("sensitive", "SAFETY", "RECITATION")],
    *[(raw, "content_filter", "incomplete") for raw in ("ERROR_TOXIC", "IMAGE_RECITATION")],
    *[(raw, "content_filter", "incomplete") for raw in ("guardrail_intervened", "blacklist")],
    *[(raw, "tool_use", "completed") for raw in ("tool_calls", "TOOL_CALL", "function_call")],
    ("glow", "unknown", "completed"),
]
ERRORS = {
    "server": ("error", "network_error", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"),
    "overloaded": ("insufficient_system_resource",),
    "cancelled": ("abort", "USER_CANCEL"),
    "timeout": ("TIMEOUT", "time_limit"),
    "bad_request": ("MISSING_THOUGHT_SIGNATURE",),
}


def test_reasons_of_vendors(subtests: pytest.Subtests) -> None:
    for raw, reason, status in REASONS:
        with subtests.test(raw):
            assert (reason_of(raw), status_of(reason_of(raw))) == (reason, status)
            assert error_kind_of(raw) is None


def test_reasons_that_are_errors(subtests: pytest.Subtests) -> None:
    for kind, names in ERRORS.items():
        for raw in names:
            with subtests.test(raw):
                assert reason_of(raw) == "error"
                assert error_kind_of(raw) == kind
