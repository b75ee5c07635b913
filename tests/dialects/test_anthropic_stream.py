"""The Messages stream beyond its recordings: endings, native turns, cost, hostile events."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.base import AssistantTurn, Prompt, UserTurn
from chat.events import Cause, ChatEnd, JsonObject, ReplayData, Result, encode
from chat.wire.sse import Frame
from tests.dialects.cost import Stream, assert_linear
from tests.dialects.decoding import check_log, decode, frames_in, named_frame
from tests.dialects.strategies import CAUSES, Strategy, json_values
from tests.fixtures import ROOT, STREAMS, decode_recording, events_path
from tests.support.selection import examples

MESSAGES = dialects.get("anthropic_messages")
MINE = ROOT / MESSAGES.name


def started(index: int, **block: object) -> bytes:
    return named_frame("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **members: object) -> bytes:
    return named_frame("content_block_delta", index=index, delta={"type": kind, **members})


def stopped(index: int) -> bytes:
    return named_frame("content_block_stop", index=index)


START = named_frame("message_start", message={"id": "m1", "role": "assistant", "content": []})
END = named_frame("message_delta", delta={"stop_reason": "end_turn"}) + named_frame("message_stop")
TEXT = started(0, type="text", text="")


def result_of(*parts: bytes, cause: Cause = "eof", **options: object) -> Result:
    end = decode(MESSAGES, frames_in(*parts), cause, **options)[-1]
    assert isinstance(end, ChatEnd)
    return end.result


# --- what our side ends ------------------------------------------------------------------


def test_t42_interrupted_text_is_kept_and_sent_back(subtests: pytest.Subtests) -> None:
    for cause, status in [
        ("stopped", "stopped"),
        ("interrupted", "interrupted"),
        ("failed", "failed"),
        ("eof", "cut"),
    ]:
        with subtests.test(cause=cause):
            text = delta(0, "text_delta", text="So far")

            result = result_of(START, TEXT, text, cause=cause)

            assert result.ext.status == status
            assert result.output[0].content == "So far"
            assert result.ext.native["content"] == [{"type": "text", "text": "So far"}]


def test_t42_call_cut_by_a_stop_is_not_offered() -> None:
    call = started(0, type="tool_use", id="t1", name="tide", input={})
    pieces = delta(0, "input_json_delta", partial_json="{}")

    result = result_of(START, call, pieces, cause="stopped")

    assert result.ext.status == "stopped"
    assert result.output[0].metadata.type == "incomplete"
    assert result.ext.native is None


def test_t15_nothing_is_read_after_the_last_event() -> None:
    parser = MESSAGES.parser(model="m", options={})
    for frame in frames_in(START, TEXT, END):
        parser.feed(frame)

    assert parser.is_done
    assert all(not parser.feed(frame) for frame in frames_in(TEXT, END))


def test_stop_after_the_end_changes_nothing() -> None:
    result = result_of(START, TEXT, delta(0, "text_delta", text="All."), END, cause="stopped")

    assert result.ext.status == "completed"


def test_details_of_a_stop_can_be_stored() -> None:
    stop = {"stop_reason": "end_turn", "stop_details": ["\ud83c"]}

    events = decode(
        MESSAGES, frames_in(named_frame("message_delta", delta=stop), named_frame("message_stop"))
    )

    assert b'"details":["\xef\xbf\xbd"]' in encode(events[-1])


def test_generated_call_ids_contain_the_run() -> None:
    call = started(0, type="tool_use", name="tide", input={"n": 1})

    result = result_of(START, call, stopped(0), END, run_id="3f2a")

    assert result.output[0].call_id == "toolu_3f2a_0"
    assert result.output[0].id_synthesised
    assert result.ext.native["content"][0]["id"] == "toolu_3f2a_0"


# --- what goes back is what came ----------------------------------------------------------


WITH_NATIVE_TURN = [
    "plain",
    "thinking",
    "t27_redacted_thinking",
    "web_search",
    "fallback",
    "mcp_tools",
]


def test_t27_native_turn_equals_the_complete_answer(subtests: pytest.Subtests) -> None:
    for name in WITH_NATIVE_TURN:
        with subtests.test(name=name):
            streamed = result_of((MINE / f"{name}.sse").read_bytes()).ext.native
            body = {"type": "message", "stop_reason": "end_turn", **streamed}

            parser = MESSAGES.parser(model="m", options={})
            events = parser.feed_body(json.dumps(body).encode()) + parser.close()

            (native,) = [e.data for e in events if isinstance(e, ReplayData) and e.kind == "native"]
            assert native == streamed


def test_signature_in_pieces_goes_back_whole() -> None:
    pieces = [delta(0, "signature_delta", signature=piece) for piece in ("YWJj", "ZGVm")]
    thought = started(0, type="thinking", thinking="") + delta(0, "thinking_delta", thinking="Hm")

    result = result_of(START, thought, *pieces, stopped(0), END)

    assert result.ext.native["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "YWJjZGVm"}
    ]


def test_recordings_hold_every_block_type() -> None:
    known = {
        *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
        *("web_search", "web_fetch", "code_execution", "bash_code_execution"),
        *("text_editor_code_execution", "tool_search", "advisor", "mcp"),
        *("container_upload", "compaction", "fallback"),
    }
    kinds = {
        json.loads(frame.data)["content_block"]["type"].removesuffix("_tool_result")
        for path in STREAMS
        if path.parent == MINE and path.stem != "t06_without_blank_lines"
        for frame in frames_in(path.read_bytes())
        if frame.event == "content_block_start" and '"content_block":' in frame.data
    }

    assert known <= kinds


def test_encrypted_members_stay_in_the_native_turn(subtests: pytest.Subtests) -> None:
    lines = events_path(MINE / "web_search.sse").read_text().splitlines()
    shown = [row for row in lines if '"replay.data"' not in row and '"chat.end"' not in row]

    for secret in ("RW5jcnlwdGVkUGFnZQ==", "SW5kZXg="):
        with subtests.test(secret):
            assert any(secret in row for row in lines if '"kind":"native"' in row)
            assert not any(secret in row for row in shown)


# --- cost ------------------------------------------------------------------------------------


def text_deltas(count: int) -> bytes:
    return START + TEXT + delta(0, "text_delta", text="word ") * count + stopped(0) + END


def general_way(count: int) -> bytes:
    return START + TEXT + delta(0, "text_delta", text="word ", mood="calm") * count + END


def arguments(count: int) -> bytes:
    call = started(0, type="tool_use", id="t", name="n", input={})
    first = delta(0, "input_json_delta", partial_json='{"a":"')
    pieces = delta(0, "input_json_delta", partial_json="x") * count
    last = delta(0, "input_json_delta", partial_json='"}')
    return START + call + first + pieces + last + stopped(0) + END


def blocks(count: int) -> bytes:
    one = [started(n, type="text", text="a", citations=[]) + stopped(n) for n in range(count // 2)]
    return START + b"".join(one) + END


def calls_with_results(count: int) -> bytes:
    one = [
        started(n, type="server_tool_use", id=f"s{n}", name="web_search", input={})
        + stopped(n)
        + started(n, type="web_search_tool_result", tool_use_id=f"s{n}", content=[])
        + stopped(n)
        for n in range(count // 4)
    ]
    return START + b"".join(one) + END


def usages(count: int) -> bytes:
    return START + named_frame("message_delta", delta={}, usage={"output_tokens": 5}) * count + END


def signatures(count: int) -> bytes:
    thought = started(0, type="thinking", thinking="")
    return (
        START + thought + delta(0, "signature_delta", signature="YWJj") * count + stopped(0) + END
    )


LONG_STREAMS: list[Stream] = [
    *(text_deltas, general_way, arguments, blocks, calls_with_results, usages, signatures)
]


def test_cost_is_linear(subtests: pytest.Subtests) -> None:
    for stream in LONG_STREAMS:
        with subtests.test(stream.__name__):
            assert_linear(MESSAGES.name, stream)


# --- whatever comes ----------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("type", "index", "delta", "text", "thinking", "signature", "content", "content_block"),
        *("partial_json", "citation", "citations", "id", "name", "input", "tool_use_id", "usage"),
        *("stop_reason", "stop_details", "explanation", "message", "error", "container", "model"),
        *("a", "\ud83c", "\udf0a", "\x00", '{"a":1}', "{", ""),
    ]
)
JSON = json_values(WORDS, WORDS)
KINDS = st.sampled_from(
    [
        *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
        *("web_search_tool_result", "mcp_tool_result", "container_upload", "compaction"),
        *("fallback", "weather"),
    ]
)
DELTA_KINDS = st.sampled_from(
    [
        *("text_delta", "thinking_delta", "signature_delta", "input_json_delta"),
        *("citations_delta", "compaction_delta", "glow_delta"),
    ]
)
INDEXES = st.integers(0, 3) | JSON
BLOCKS = st.fixed_dictionaries(
    {"type": KINDS | JSON},
    optional={
        **dict.fromkeys(["signature", "data", "input", "content", "is_error", "to"], JSON),
        **dict.fromkeys(["server_name", "encrypted_content"], JSON),
        **dict.fromkeys(["text", "name"], WORDS | JSON),
        **dict.fromkeys(["id", "tool_use_id"], st.sampled_from(["s1", "s2"]) | JSON),
        "thinking": WORDS,
        "citations": st.lists(JSON, max_size=2) | JSON,
    },
)
DELTAS = st.fixed_dictionaries(
    {"type": DELTA_KINDS | JSON},
    optional={
        **dict.fromkeys(["text", "signature", "partial_json", "content"], WORDS | JSON),
        **dict.fromkeys(["citation", "encrypted_content"], JSON),
        "thinking": WORDS,
    },
)
MESSAGES_SO_FAR = st.fixed_dictionaries(
    {}, optional={"id": JSON, "usage": JSON, "content": st.lists(BLOCKS, max_size=2)}
)
USAGES = st.dictionaries(st.just("output_tokens"), JSON) | JSON
STOPS = st.fixed_dictionaries(
    {"stop_reason": st.sampled_from(["end_turn", "tool_use", "refusal", "max_tokens"])},
    optional={"stop_details": JSON},
)


def event(name: str, optional: dict[str, Strategy] | None = None, **members: Strategy) -> Strategy:
    return st.fixed_dictionaries({"type": st.just(name), **members}, optional=optional)


EVENTS = st.one_of(
    event("message_start", message=JSON),
    event("message_start", message=MESSAGES_SO_FAR),
    event("content_block_start", index=INDEXES, content_block=BLOCKS),
    event("content_block_delta", index=INDEXES, delta=DELTAS),
    event("content_block_stop", index=INDEXES),
    event("message_delta", delta=JSON | DELTAS, optional={"usage": USAGES}),
    event("message_delta", delta=STOPS),
    st.sampled_from([{"type": "message_stop"}, {"type": "ping"}, {"type": "error"}]),
    JSON,
)


@given(events=st.lists(EVENTS, max_size=14), cause=CAUSES)
@examples(300)
def test_any_events_can_be_stored_and_sent_back(events: list[JsonObject], cause: Cause) -> None:
    sent = [Frame(name_of_event(event), json.dumps(event)) for event in events]

    found = decode(MESSAGES, sent, cause)

    check_log(found)
    end = found[-1]
    assert isinstance(end, ChatEnd)
    answer = AssistantTurn(result=end.result, is_native=True)
    prompt = Prompt(model="m", turns=(UserTurn.of("a"), answer, UserTurn.of("b")))
    messages = json.loads(MESSAGES.request(prompt).body)["messages"]
    assert all(message["content"] for message in messages)


def name_of_event(event: JsonObject) -> str | None:
    name = event.get("type") if isinstance(event, dict) else None
    return name if isinstance(name, str) and name.isascii() and name.isprintable() else None


def test_claim_for_credit_is_only_kept_for_the_next_request() -> None:
    recording = ROOT / "anthropic_messages" / "refusal_with_a_recommended_model.sse"

    events = decode_recording(recording)

    holders = [event for event in events if b"fct_secret" in encode(event)]
    assert [type(event) for event in holders] == [ReplayData]
