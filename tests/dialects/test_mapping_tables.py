"""Every row of the mapping tables of LM Studio, chat and legacy completions has a recording."""

import json

import pytest

from chat import dialects
from chat.events import ErrorInfo, JsonObject
from tests.dialects.decoding import frames_in
from tests.fixtures import ROOT, events_path, result_path

# What the upstream sends (a piece of the recording), and the events that it becomes.
Row = tuple[str, str, tuple[str, ...]]

LM_STUDIO: tuple[Row, ...] = (
    ("plain", '"type":"chat.start"', ("chat.start",)),
    ("load_only", '"type":"model_load.start"', ("model_load.start",)),
    ("load_only", '"type":"model_load.progress"', ("model_load.progress",)),
    ("plain", '"type":"model_load.end"', ("model_load.end",)),
    ("plain", '"type":"prompt_processing.start"', ("prompt_processing.start",)),
    ("plain", '"type":"prompt_processing.progress"', ("prompt_processing.progress",)),
    ("plain", '"type":"prompt_processing.end"', ("prompt_processing.end",)),
    ("plain", '"type":"reasoning.start"', ("reasoning.start",)),
    ("plain", '"type":"reasoning.delta"', ("reasoning.delta",)),
    ("plain", '"type":"reasoning.end"', ("reasoning.end",)),
    ("plain", '"type":"tool_call.start"', ("tool_call.start",)),
    ("plain", '"type":"tool_call.arguments"', ("tool_call.arguments",)),
    ("plain", '"type":"tool_call.success"', ("tool_call.success",)),
    ("plain", '"type":"tool_call.failure"', ("tool_call.failure",)),
    ("plain", '"type":"message.start"', ("message.start",)),
    ("plain", '"type":"message.delta"', ("message.delta",)),
    ("plain", '"type":"message.end"', ("message.end",)),
    ("t11_error_then_end", '"type":"error"', ("error", "chat.end")),
    ("plain", '"type":"chat.end"', ("usage.update", "chat.end")),
    ("t14_cut", "", ("error", "chat.end")),
    ("t47_unknown_events", "", ("vendor.raw",)),
)
CHAT: tuple[Row, ...] = (
    ("plain", '"choices"', ("chat.start", "meta.update")),
    ("plain", '"role"', ("chat.start",)),
    ("plain", '"content":"', ("message.start", "message.delta", "message.end")),
    ("t22_think_tags", "<th", ("reasoning.delta", "message.delta")),
    ("content_parts", '"content":[{"type":"text"', ("message.delta", "media.update")),
    ("content_parts", '"type":"thinking"', ("reasoning.delta",)),
    ("t27_reasoning_and_signature", '"reasoning', ("reasoning.start", "reasoning.delta")),
    ("deepseek_thinking", '"reasoning_content"', ("reasoning.delta",)),
    ("openrouter_reasoning", '"reasoning":', ("reasoning.delta",)),
    ("openrouter_reasoning", '"reasoning_details"', ("replay.data",)),
    ("t21_reasoning_encrypted_only", '"reasoning.encrypted"', ("reasoning.start", "replay.data")),
    ("refusal", '"refusal"', ("refusal.delta",)),
    ("tool_calls", '"tool_calls"', ("tool_call.start", "tool_call.delta", "tool_call.arguments")),
    ("t18_bad_arguments", '"tool_calls"', ("tool_call.failure",)),
    ("t27_reasoning_and_signature", '"extra_content"', ("replay.data",)),
    ("legacy_function_call", '"function_call"', ("tool_call.start", "tool_call.arguments")),
    ("citations", '"annotations"', ("citation.add",)),
    ("media", '"images"', ("media.update",)),
    ("media", '"audio"', ("media.update",)),
    ("logprobs", '"logprobs":{', ("logprobs.add",)),
    ("fireworks_extras", '"token_logprobs"', ("logprobs.add",)),
    ("t24_choices_interleaved", '"index":1', ("message.delta",)),
    ("content_filter", '"content_filter"', ("chat.end",)),
    ("error_in_choice", '"finish_reason":"error"', ("error",)),
    ("plain", '"usage":{', ("usage.update",)),
    ("fireworks_extras", '"perf_metrics"', ("meta.update",)),
    ("fireworks_extras", '"prompt_token_ids"', ("meta.update",)),
    ("fireworks_extras", '"raw_output"', ("meta.update",)),
    ("moderation_and_obfuscation", '"moderation"', ("meta.update",)),
    ("t12_error_in_ok_answer", '"error"', ("error",)),
    ("t11_error_event_then_done", "event: error", ("error", "chat.end")),
    ("t47_vendor_event", '"type":"x_', ("vendor.raw",)),
    ("t47_unknown_members", "", ("vendor.raw",)),
    ("t08_comments", "\n:", ("chat.end",)),
    ("t10_done_missing", "", ("meta.update", "chat.end")),
    ("t14_cut", "", ("error", "chat.end")),
    ("t10_done_only", "[DONE]", ("error", "chat.end")),
    ("error_field", "error: {", ("error",)),
    ("sources_beside_the_choices", '"search_results"', ("citation.add",)),
    ("addresses_beside_the_choices", '"citations"', ("citation.add",)),
    ("custom_tool", '"custom":{', ("tool_call.start", "tool_call.arguments")),
    ("timings_apart", '"timings":{', ("meta.update",)),
    ("unreadable_frame", "by the ri", ("vendor.raw", "meta.update")),
    ("friendli_tool_status", "event: token", ("message.delta",)),
    (
        "friendli_tool_status",
        '"STARTED"',
        ("tool_call.start", "tool_call.arguments", "activity.step"),
    ),
    ("friendli_tool_status", '"ENDED"', ("tool_call.success", "media.update")),
    ("friendli_tool_error", '"ERRORED"', ("tool_call.failure",)),
)
COMPLETIONS: tuple[Row, ...] = (
    ("plain", '"text":', ("chat.start", "message.start", "message.delta")),
    ("t22_think_tags", "<thi", ("reasoning.delta", "message.delta")),
    ("legacy_logprobs", '"token_logprobs"', ("logprobs.add",)),
    ("fireworks_extras", '"token_ids"', ("meta.update",)),
    ("fireworks_extras", '"perf_metrics":{', ("meta.update",)),
    ("plain", '"finish_reason":"stop"', ("message.end", "chat.end")),
    ("legacy_logprobs", '"finish_reason":"length"', ("chat.end",)),
    ("content_filter", '"finish_reason":"content_filter"', ("chat.end",)),
    ("finish_reason_error", '"finish_reason":"error"', ("error",)),
    ("plain", '"choices":[],"usage"', ("usage.update",)),
    ("friendli_tokens", '"finish_reason":"null"', ("message.delta", "chat.end")),
    ("t10_done_missing", "", ("meta.update", "chat.end")),
)
BITSEEK: tuple[Row, ...] = (
    ("plain", '"content":', ("message.delta",)),
    ("tool_call", '"tool_calls"', ("tool_call.start", "tool_call.delta", "tool_call.arguments")),
    ("error_member", '"error":{', ("error",)),
    ("usage", '"usage":{', ("usage.update",)),
    ("plain", '"finish_reason":"stop"', ("chat.end",)),
)
ROWS = [
    (dialect, *row)
    for dialect, rows in (
        ("lmstudio", LM_STUDIO),
        ("openai_chat", CHAT),
        ("openai_completions", COMPLETIONS),
        ("bitseek", BITSEEK),
    )
    for row in rows
]


def test_rows_have_a_recording(subtests: pytest.Subtests) -> None:
    for dialect, name, sent, events in ROWS:
        with subtests.test(dialect=dialect, name=name, sent=sent):
            recording = ROOT / dialect / f"{name}.sse"
            text = recording.read_text().replace('": ', '":').replace(", ", ",")
            lines = events_path(recording).read_bytes().splitlines()

            assert sent in text
            assert set(events) <= {json.loads(line)["type"] for line in lines}


def ending_of(dialect: str, name: str) -> JsonObject:
    result = json.loads(result_path(ROOT / dialect / f"{name}.sse").read_text())
    return {"status": result["ext"]["status"], **result["ext"]["stop"]}


ENDINGS = [
    ("openai_chat", "plain", "completed", "stop"),
    ("openai_chat", "vllm_stop_reason", "completed", "stop"),
    ("openai_chat", "tool_calls", "waiting", "tool_use"),
    ("openai_chat", "t19_stop_although_calls", "waiting", "tool_use"),
    ("openai_chat", "content_filter", "incomplete", "content_filter"),
    ("openai_chat", "refusal", "incomplete", "refusal"),
    ("openai_chat", "error_in_choice", "failed", "error"),
    ("openai_chat", "t14_cut", "cut", "cut"),
    ("openai_chat", "unknown_reason", "completed", "unknown"),
    ("openai_chat", "t19_unknown_reason_although_calls", "waiting", "unknown"),
    ("anthropic_messages", "t19_unknown_reason_although_calls", "waiting", "unknown"),
    ("anthropic_messages", "t14_cut_after_call", "cut", "cut"),
    ("openai_responses", "t17_no_name", "completed", "stop"),
    ("openai_completions", "legacy_logprobs", "incomplete", "length"),
    ("openai_completions", "finish_reason_error", "failed", "error"),
    ("bitseek", "tool_call", "waiting", "tool_use"),
    ("bitseek", "closed_without_a_reason", "completed", "stop"),
    ("lmstudio", "length_suspected", "incomplete", "length"),
    ("lmstudio", "t11_error_then_end", "failed", "error"),
]


def test_endings_have_a_canonical_reason(subtests: pytest.Subtests) -> None:
    for dialect, name, status, reason in ENDINGS:
        with subtests.test(dialect=dialect, name=name):
            ending = ending_of(dialect, name)

            assert (ending["status"], ending["reason"]) == (status, reason)


def test_bitseek_answer_that_broke_off_is_cut() -> None:
    parser = dialects.get("bitseek").parser(model="m", options={})
    recording = ROOT / "bitseek" / "closed_without_a_reason.sse"
    for frame in frames_in(recording.read_bytes()):
        parser.feed(frame)

    parser.close("failed", error=ErrorInfo(message="It broke off.", kind="cut"))

    assert parser.ending is not None
    assert parser.ending.status == "cut"


def test_invalid_calls_are_not_offered(subtests: pytest.Subtests) -> None:
    for recording, kinds in [
        ("openai_chat/t17_no_name", ["", "invalid_name"]),
        ("openai_responses/t17_no_name", ["invalid_name"]),
        ("anthropic_messages/t14_cut_after_call", ["incomplete", "incomplete"]),
    ]:
        with subtests.test(recording):
            output = json.loads(result_path(ROOT / f"{recording}.sse").read_text())["output"]

            assert [item.get("metadata", {}).get("type", "") for item in output] == kinds
