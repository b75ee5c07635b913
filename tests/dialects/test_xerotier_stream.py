"""Xerotier's events follow the table of its reference."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.xerotier.activity import RULES
from chat.dialects.xerotier.parser import EVENTS
from chat.events import ActivityStep, AskQuestion, ChatEnd, Event, JsonObject, Result, VendorRaw
from chat.wire.sse import Frame
from tests.dialects.cost import assert_linear
from tests.dialects.decoding import data_frame, decode, frames_in
from tests.fixtures import RECORDINGS

XEROTIER = dialects.get("xerotier")
R, D, A = "x_research.", "x_deep_think.", "x_analyst."


def frames_of(payloads: tuple[JsonObject | bytes, ...]) -> list[Frame]:
    return frames_in(*(p if isinstance(p, bytes) else data_frame(p) for p in payloads))


def fed(*payloads: JsonObject | bytes) -> list[Event]:
    """All events of a stream, the last being ``chat.end``."""
    return decode(XEROTIER, frames_of(payloads))


def result_of(*payloads: JsonObject | bytes) -> Result:
    end = fed(*payloads)[-1]
    assert isinstance(end, ChatEnd)
    return end.result


def steps_in(events: list[Event]) -> list[ActivityStep]:
    return [event for event in events if isinstance(event, ActivityStep)]


def chunk(content: str | None = None, finish_reason: str | None = None) -> JsonObject:
    delta = {} if content is None else {"content": content}
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


DONE = b"data: [DONE]\n\n"
STOP = chunk(finish_reason="stop")


def tool(name: str, **arguments: str) -> JsonObject:
    return {"name": name, "arguments": json.dumps(arguments)}


# The reference's table 11.6: name, members, phase and label of the step that it gives.
STEPS: list[tuple[str, JsonObject, str, str]] = [
    (R + "searching", tool("web_search", query="tides"), "start", "Searching: tides"),
    (
        R + "reading",
        tool("fetch_url", url="https://a.example"),
        "start",
        "Reading: https://a.example",
    ),
    (R + "code_searching", tool("code_search", query="def f"), "start", "Searching code: def f"),
    (R + "calculating", tool("calculator", expression="1+1"), "start", "Calculating: 1+1"),
    (R + "result", {**tool("web_search"), "metadata": {"summary": "4 pages"}}, "done", "4 pages"),
    (R + "gap_analysis", {}, "note", "Looking for gaps"),
    (R + "deepening_round", {}, "note", "Digging deeper, round 1"),
    (R + "context_compacted", {}, "note", "Conversation summarized to free up context"),
    (R + "tracking_decision", {}, "note", "Recording a decision"),
    (R + "querying_decisions", {}, "start", "Looking up decisions"),
    (R + "tracking_milestone", {}, "note", "Recording a milestone"),
    (R + "querying_timeline", {}, "start", "Reading the timeline"),
    (R + "briefing", {}, "start", "Preparing a briefing"),
    (R + "relating", {}, "start", "Comparing documents"),
    (R + "creating_mockup", {}, "start", "Creating a mockup"),
    (R + "updating_mockup", {}, "start", "Updating a mockup"),
    (R + "tool_call", {"name": "x_repo_read"}, "start", "Using repo read"),
    (R + "complete", {}, "done", "Research finished"),
    (D + "planning_started", {}, "start", "Planning"),
    (D + "plan_created", {"title": "T", "total_subtasks": 3}, "done", "Plan: T, 3 parts"),
    (D + "plan_critiqued", {}, "done", "Plan reviewed"),
    (D + "discovery_started", {"message": "Looking"}, "start", "Looking"),
    (D + "discovery_completed", {"message": "Found"}, "done", "Found"),
    (D + "subtask_planned", {}, "note", "Part planned"),
    (
        D + "subtask_started",
        {"subtask_id": "s", "subtask_index": 0, "subtask_query": "Why?", "total_subtasks": 3},
        "start",
        "Part 1 of 3: Why?",
    ),
    (D + "subtask_retried", {}, "note", "Part tried again"),
    (D + "subtask_completed", {"subtask_index": 0, "input_tokens": 9}, "done", "Part 1"),
    (D + "deepening_round_completed", {}, "done", "Round finished"),
    (D + "cross_reference", {}, "note", "Comparing findings"),
    (D + "synthesizing", {}, "start", "Writing the answer"),
    (D + "structured_synthesis", {"sections": [1]}, "done", "Synthesis ready"),
    (D + "claim_emitted", {"claim": "Water is wet."}, "note", "Water is wet."),
    (D + "synthesis_failed", {}, "failed", "Synthesis failed"),
    (D + "memory_extracted", {}, "note", "Memory suggested"),
    (D + "completed", {}, "done", "Deep think finished"),
    (D + "error", {"message": "Lost"}, "failed", "Deep think failed: Lost"),
    (D + "artifact_created", {"title": "T"}, "note", "Artifact: T"),
    (D + "memories_created", {}, "note", "Memories saved"),
    (D + "artifact_saved", {}, "note", "Artifact saved"),
    (D + "subtask_artifact_saved", {}, "note", "Artifact of a subtask saved"),
    (A + "context_gathering", {}, "start", "Gathering context"),
    (A + "context_completed", {"files": 2}, "done", "Context gathered: files 2"),
    (A + "context_brief_created", {"brief": "B"}, "done", "Brief ready"),
    (A + "context_refreshed", {}, "note", "Context refreshed"),
]
ARTIFACT: JsonObject = {"artifact_id": "a", "identifier": "i", "title": "T", "content": "x"}
# The others: name, members, and the event that it gives, without its envelope.
OTHERS: list[tuple[str, JsonObject, JsonObject]] = [
    ("x_artifact.created", ARTIFACT, {"type": "artifact.update", "op": "created", **ARTIFACT}),
    ("x_artifact.updated", ARTIFACT, {"type": "artifact.update", "op": "updated", **ARTIFACT}),
    (
        "x_mockup.calling",
        {"identifier": "i", "title": "T"},
        {"type": "mockup.update", "op": "calling", "identifier": "i", "title": "T"},
    ),
    (
        "x_mockup.created",
        {"bundleId": "b", "identifier": "i", "entry": "e.html", "files": [{"path": "e.html"}]},
        {
            "type": "mockup.update",
            "op": "created",
            "bundle_id": "b",
            "identifier": "i",
            "entry": "e.html",
            "files": [{"path": "e.html"}],
        },
    ),
    (
        "x_mockup.updated",
        {"bundleId": "b", "changed": ["e.html"], "deleted": ["f.css"]},
        {
            "type": "mockup.update",
            "op": "updated",
            "bundle_id": "b",
            "changed": ["e.html"],
            "deleted": ["f.css"],
        },
    ),
    (
        "x_mockup.error",
        {"bundleId": "b", "code": "c", "message": "m", "successfulPaths": ["p"], "failedPath": "q"},
        {
            "type": "mockup.update",
            "op": "error",
            "bundle_id": "b",
            "code": "c",
            "message": "m",
            "successful_paths": ["p"],
            "failed_path": "q",
        },
    ),
    (
        "x_ask_user.question",
        {"askUserId": "a", "question": "Q?", "options": ["x"], "allowFreeText": True}
        | {"multiSelect": True, "style": "s", "fields": [{"name": "f"}], "toolCallId": "c"},
        {
            "type": "ask.question",
            "ask_id": "a",
            "question": "Q?",
            "options": ["x"],
            "allow_free_text": True,
            "multi_select": True,
            "style": "s",
            "fields": [{"name": "f"}],
            "call_id": "c",
        },
    ),
    (
        "x_ask_user.pending_state",
        {"assistantContent": "So far", "toolCalls": [{"id": "c"}]},
        {
            "type": "replay.data",
            "kind": "pending_state",
            "data": {"assistantContent": "So far", "toolCalls": [{"id": "c"}]},
        },
    ),
    (
        "x_context_fork",
        {"branch_id": "b", "branch_name": "n", "message_count": 4},
        {"type": "context.fork", "branch_id": "b", "branch_name": "n", "message_count": 4},
    ),
    (
        "x_chat.metadata",
        {"messageId": "m", "userMessageId": "u", "sequence": 4, "context": {"totalTokens": 9}},
        {
            "type": "meta.update",
            "values": {
                "message_id": "m",
                "user_message_id": "u",
                "sequence": 4,
                "context_budget": {"totalTokens": 9},
            },
        },
    ),
]
NAMES = [row[0] for row in STEPS] + [row[0] for row in OTHERS]


def test_all_54_events_have_a_handler() -> None:
    assert len(NAMES) == len(set(NAMES)) == 54
    assert set(NAMES) == set(RULES) | set(EVENTS)


def test_recordings_hold_every_event(subtests: pytest.Subtests) -> None:
    recorded = [path.read_text() for path in RECORDINGS if path.parent.name == "xerotier"]
    text = "".join(recorded).replace('"type": "', '"type":"')

    for name in NAMES:
        with subtests.test(name):
            assert f'"type":"{name}"' in text


def test_steps_follow_the_table(subtests: pytest.Subtests) -> None:
    for name, members, phase, label in STEPS:
        with subtests.test(name):
            events = fed({"type": name, **members})

            step = steps_in(events)[0]
            assert (f"x_{step.family}", step.phase, step.label) == (
                name.partition(".")[0],
                phase,
                label,
            )
            assert not any(isinstance(event, VendorRaw) for event in events)
            for member, value in members.items():
                assert member == "arguments" or step.detail[member] == value


def test_other_events_follow_the_table(subtests: pytest.Subtests) -> None:
    for name, members, expected in OTHERS:
        with subtests.test(name):
            events = fed({"type": name, **members})

            assert expected in [msgspec.to_builtins(event) for event in events[1:]]
            assert not any(isinstance(event, VendorRaw) for event in events)


def test_unknown_event_of_a_known_family_is_a_note(subtests: pytest.Subtests) -> None:
    for prefix in ["x_research.", "x_deep_think.", "x_analyst."]:
        with subtests.test(prefix):
            events = fed({"type": f"{prefix}tide_watch", "metres": 2})

            (step,) = steps_in(events)
            (raw,) = [event for event in events if isinstance(event, VendorRaw)]
            assert (step.step, step.phase, step.label) == ("tide_watch", "note", "Tide watch")
            assert raw.data == {"type": f"{prefix}tide_watch", "metres": 2}


def test_unknown_event_is_kept_and_the_run_continues(subtests: pytest.Subtests) -> None:
    for name in ["x_tide.rising", "x_", "x_research", "x_research.", "x_ask_user"]:
        with subtests.test(name):
            events = fed({"type": name, "n": 1}, chunk("Fine."), STOP, DONE)

            assert steps_in(events) == []
            assert [event.event for event in events if isinstance(event, VendorRaw)] == [name]
            assert result_of({"type": name}, chunk("Fine."), STOP, DONE).ext.status == "completed"


# --- the timeline --------------------------------------------------------------------------


def test_result_ends_the_oldest_matching_step() -> None:
    search = {"type": R + "searching", **tool("web_search", query="tides")}
    other = {"type": R + "searching", **tool("web_search", query="weirs")}
    found = {
        "type": R + "result",
        **tool("x_web_search", query="tides"),
        "metadata": {"summary": "4"},
    }

    steps = steps_in(fed(search, search, other, found))

    assert (steps[3].ref, steps[3].phase, steps[3].label) == (
        *("searching:1", "done"),
        "Searching: tides · 4",
    )


def test_arguments_match_in_any_member_order() -> None:
    start = {"type": R + "tool_call", "name": "t", "arguments": '{"a": 1, "b": 2}'}
    found = {"type": R + "result", "name": "t", "arguments": '{"b":2,"a":1}'}

    assert [step.ref for step in steps_in(fed(start, found, STOP, DONE))] == ["tool_call:1"] * 2


def test_subtask_is_matched_by_index_after_an_id() -> None:
    start = {"type": D + "subtask_started", "subtask_id": "s-1", "subtask_index": 0}
    end = {"type": D + "subtask_completed", "subtask_index": 0, "output_tokens": 7}

    first, second = steps_in(fed(start, end, STOP, DONE))

    assert (first.ref, first.phase) == ("s-1", "start")
    assert (second.ref, second.phase, second.detail["output_tokens"]) == ("s-1", "done", 7)


def test_subtask_tokens_are_not_added_to_usage() -> None:
    end = {"type": D + "subtask_completed", "subtask_index": 0, "input_tokens": 900}

    assert result_of(end, chunk("x"), STOP, DONE).ext.usage is None


def test_open_steps_end_with_the_run(subtests: pytest.Subtests) -> None:
    for ending, phase, status in [
        ((STOP, DONE), "done", "completed"),
        ((b'event: error\ndata: {"error":{"code":"timeout"}}\n\n', DONE), "failed", "failed"),
        ((), "failed", "cut"),
    ]:
        with subtests.test(status=status):
            result = result_of({"type": R + "briefing"}, chunk("So"), *ending)

            assert [step["phase"] for step in result.ext.activity] == [phase]
            assert result.ext.status == status


def test_stopped_step_is_failed() -> None:
    events = decode(XEROTIER, frames_of(({"type": R + "briefing"},)), "stopped")

    assert [step.phase for step in steps_in(events)] == ["start", "failed"]


def test_only_web_addresses_become_links(subtests: pytest.Subtests) -> None:
    for url in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"]:
        with subtests.test(url):
            (step, *_) = steps_in(fed({"type": R + "reading", **tool("fetch_url", url=url)}))

            assert "url" not in step.detail
            assert step.label == f"Reading: {url}"


# --- questions -----------------------------------------------------------------------------


QUESTION: JsonObject = {
    "type": "x_ask_user.question",
    "askUserId": "ask_1",
    "question": "Which?",
    "options": ["a"],
    "allowFreeText": False,
    "toolCallId": "c1",
}


def test_question_makes_the_run_wait(subtests: pytest.Subtests) -> None:
    for reason in ["stop", "tool_calls"]:
        with subtests.test(reason=reason):
            result = result_of(QUESTION, chunk("So:"), chunk(finish_reason=reason), DONE)

            assert (result.ext.status, result.ext.stop.reason, result.ext.stop.raw) == (
                *("waiting", "ask"),
                reason,
            )
            assert [ask["ask_id"] for ask in result.ext.asks] == ["ask_1"]


def test_question_waits_without_the_done_mark() -> None:
    result = result_of(QUESTION, chunk("So:"), chunk(finish_reason="stop"))

    assert (result.ext.status, result.ext.stop.reason) == ("waiting", "ask")


def test_question_of_a_cut_stream_does_not_wait() -> None:
    assert result_of(QUESTION, chunk("So:")).ext.status == "cut"


def test_pending_state_is_hidden_and_sent_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "x_ask_user", "arguments": "{}"}}
    state = {"assistantContent": "So:", "toolCalls": [call]}

    result = result_of(
        chunk("So:"), QUESTION, {"type": "x_ask_user.pending_state", **state}, STOP, DONE
    )

    assert [msgspec.to_builtins(item) for item in result.output] == [
        {"type": "message", "content": "So:"}
    ]
    assert result.ext.native == {"role": "assistant", "content": "So:", "pending_state": state}


def test_question_without_options_takes_free_text(subtests: pytest.Subtests) -> None:
    for members in [{}, {"allowFreeText": False}, {"options": [], "fields": {}}]:
        with subtests.test(members=members):
            events = fed({"type": "x_ask_user.question", "question": "Which?", **members})

            (ask,) = [event for event in events if isinstance(event, AskQuestion)]
            assert ask.allow_free_text


# --- endings, figures ------------------------------------------------------------------------


def test_agent_error_fails_a_run_without_an_answer() -> None:
    result = result_of({"type": D + "error", "message": "Lost."}, DONE)

    assert result.ext.status == "failed"
    assert result.ext.error
    assert (result.ext.error.message, result.ext.error.kind) == ("Lost.", "server")


def test_agent_error_is_a_step_of_a_run_that_continues() -> None:
    result = result_of({"type": D + "error"}, chunk("Fine."), STOP, DONE)

    assert result.ext.status == "completed"
    assert result.ext.error is None


def test_model_name_comes_from_the_first_chunk() -> None:
    named = {**chunk("Hi."), "model": "brook"}

    assert result_of({"type": R + "briefing"}, named, STOP, DONE).ext.meta["model"] == "brook"


METADATA: JsonObject = {
    "type": "x_chat.metadata",
    "usage": {"input_tokens": 900, "output_tokens": 90},
}
USAGE = {"prompt_tokens": 30, "completion_tokens": 3}


def test_usage_of_the_chunk_wins_over_metadata() -> None:
    result = result_of(chunk("Hi."), {**STOP, "usage": USAGE}, METADATA, DONE)

    assert result.stats.input_tokens == 30
    assert result.ext.usage
    assert result.ext.usage.raw == {
        "chat.completion.chunk": USAGE,
        "x_chat.metadata": METADATA["usage"],
    }


def test_usage_of_the_metadata_is_the_fallback() -> None:
    result = result_of(chunk("Hi."), {**STOP, "usage": None}, METADATA, DONE)

    assert (result.stats.input_tokens, result.stats.total_output_tokens) == (900, 90)


# --- whatever comes ----------------------------------------------------------------------------


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
MEMBERS = sorted(
    {member for rule in EVENTS.values() for member in rule.members}
    | {"name", "arguments", "metadata", "message", "error", "title", "url", "total_subtasks"}
    | {"subtask_id", "subtask_index", "subtask_query"}
)
PAYLOAD = st.builds(
    lambda name, members: {**members, "type": name},
    st.sampled_from([*NAMES, "x_research.new", "x_new"]),
    st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=5),
)


@given(st.lists(PAYLOAD, max_size=6), st.booleans())
def test_any_members_end_in_one_chat_end(payloads: list[JsonObject], is_finished: bool) -> None:
    events = fed(*payloads, *((STOP, DONE) if is_finished else ()))

    assert [isinstance(event, ChatEnd) for event in events].count(True) == 1
    assert isinstance(events[-1], ChatEnd)
    assert not open_steps(events)


def open_steps(events: list[Event]) -> set[tuple[str, str, str | None]]:
    opened: set[tuple[str, str, str | None]] = set()
    for step in steps_in(events):
        key = (step.family, step.step, step.ref)
        if step.phase == "start":
            opened.add(key)
        elif step.phase in ("done", "failed"):
            opened.discard(key)
    return opened


SEARCH = {"type": R + "searching", **tool("web_search", query="tides")}
FOUND = {"type": R + "result", **tool("web_search", query="tides")}
STREAMS: dict[str, tuple[JsonObject, ...]] = {
    "steps that nothing ends": (SEARCH,),
    "steps and their results": (SEARCH, FOUND),
    "results of nothing": (FOUND,),
    "the same part again": ({"type": D + "subtask_started", "subtask_id": "s"},),
    "questions": (QUESTION, {"type": "x_ask_user.pending_state", "toolCalls": [{"id": "c"}]}),
    "artifacts": ({"type": "x_artifact.updated", **ARTIFACT},),
}


def test_cost_is_linear(subtests: pytest.Subtests) -> None:
    for name, events in STREAMS.items():
        with subtests.test(name):
            some = b"".join(map(data_frame, events))
            assert_linear("xerotier", lambda count, some=some: some * count, few=100)
