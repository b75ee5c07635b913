"""The Messages stream beyond its recordings: what our side ends, and what long answers cost."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.anthropic_stream import AnthropicParser
from chat.dialects.base import AssistantTurn, Cause, Prompt, UserTurn
from chat.events import ChatEnd, ErrorInfo, Event, JsonObject, ReplayData, Result
from chat.result import Fold, finish
from chat.wire.sse import Decoder, Frame
from tests.dialects.test_hostile import check, run
from tests.dialects.test_linear_cost import FEW, MANY, MOST, calls_of, lines_of
from tests.fixtures import RECORDINGS, events_path

MESSAGES = dialects.get("anthropic_messages")
MINE = [path for path in RECORDINGS if path.parent.name == "anthropic_messages"]


def line(name: str, **members: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode()


def started(index: int, **block: object) -> bytes:
    return line("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **members: object) -> bytes:
    return line("content_block_delta", index=index, delta={"type": kind, **members})


def stopped(index: int) -> bytes:
    return line("content_block_stop", index=index)


START = line("message_start", message={"id": "m1", "role": "assistant", "content": []})
END = line("message_delta", delta={"stop_reason": "end_turn"}) + line("message_stop")
TEXT = started(0, type="text", text="")


def frames(*parts: bytes) -> list[Frame]:
    decoder = Decoder()
    return decoder.feed(b"".join(parts)) + decoder.close()


def decode(*parts: bytes, cause: Cause = "eof", run_id: str = "") -> tuple[list[Event], Result]:
    parser = MESSAGES.parser(model="m", options={"run_id": run_id})
    state = Fold()
    events = [event for frame in frames(*parts) for event in parser.feed(frame)]
    state.extend(events)
    error = ErrorInfo(message="Too slow.", kind="timeout") if cause == "failed" else None
    events += finish(parser, state, cause, error=error)
    end = events[-1]
    assert isinstance(end, ChatEnd)
    return events, end.result


# --- what our side ends ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "status"),
    [("stopped", "stopped"), ("interrupted", "interrupted"), ("failed", "failed"), ("eof", "cut")],
)
def test_t42_text_so_far_is_kept_and_can_go_back(cause: Cause, status: str) -> None:
    _, result = decode(START, TEXT, delta(0, "text_delta", text="So far"), cause=cause)

    assert result.ext.status == status
    assert result.output[0].content == "So far"
    assert result.ext.native["content"] == [{"type": "text", "text": "So far"}]


def test_t42_stop_during_a_call_never_offers_it() -> None:
    call = started(0, type="tool_use", id="t1", name="tide", input={})

    _, result = decode(
        START, call, delta(0, "input_json_delta", partial_json="{}"), cause="stopped"
    )

    assert result.ext.status == "stopped"
    assert result.output[0].metadata.type == "incomplete"
    assert result.ext.native is None


def test_t15_nothing_is_read_after_the_last_event() -> None:
    parser = MESSAGES.parser(model="m", options={})
    for frame in frames(START, TEXT, END):
        parser.feed(frame)

    assert parser.is_done
    assert all(not parser.feed(frame) for frame in frames(TEXT, END))


def test_stop_that_comes_after_the_end_leaves_it_as_it_was() -> None:
    _, result = decode(START, TEXT, delta(0, "text_delta", text="All."), END, cause="stopped")

    assert result.ext.status == "completed"


def test_ids_made_for_calls_carry_the_run() -> None:
    call = started(0, type="tool_use", name="tide", input={"n": 1})

    _, result = decode(START, call, stopped(0), END, run_id="3f2a")

    assert result.output[0].call_id == "toolu_3f2a_0"
    assert result.output[0].id_synthesised
    assert result.ext.native["content"][0]["id"] == "toolu_3f2a_0"


# --- what goes back is what came ----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plain", "thinking", "t27_redacted_thinking", "web_search", "fallback", "mcp_tools"]
)
def test_t27_native_turn_is_what_the_complete_answer_would_have_held(name: str) -> None:
    (recording,) = [path for path in MINE if path.stem == name]
    _, streamed = decode(recording.read_bytes())
    body = {"type": "message", "stop_reason": "end_turn", **streamed.ext.native}

    parser = MESSAGES.parser(model="m", options={})
    events = parser.feed_body(json.dumps(body).encode()) + parser.close()

    (native,) = [e.data for e in events if isinstance(e, ReplayData) and e.kind == "native"]
    assert native == streamed.ext.native


def test_recordings_hold_every_kind_of_block() -> None:
    known = {
        *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
        *("web_search", "web_fetch", "code_execution", "bash_code_execution"),
        *("text_editor_code_execution", "tool_search", "advisor", "mcp"),
        *("container_upload", "compaction", "fallback"),
    }
    kinds = {
        json.loads(frame.data)["content_block"]["type"].removesuffix("_tool_result")
        for path in MINE
        if path.suffix == ".sse" and path.stem != "t06_without_blank_lines"
        for frame in frames(path.read_bytes())
        if frame.event == "content_block_start" and '"content_block":' in frame.data
    }

    assert known <= kinds


@pytest.mark.parametrize("secret", ["RW5jcnlwdGVkUGFnZQ==", "SW5kZXg="])
def test_encrypted_members_are_in_the_native_turn_and_nowhere_else(secret: str) -> None:
    (path,) = [path for path in MINE if path.stem == "web_search"]
    lines = events_path(path).read_text().splitlines()
    shown = [row for row in lines if '"replay.data"' not in row and '"chat.end"' not in row]

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
    return START + line("message_delta", delta={}, usage={"output_tokens": 5}) * count + END


def signatures(count: int) -> bytes:
    thought = started(0, type="thinking", thinking="")
    return (
        START + thought + delta(0, "signature_delta", signature="YWJj") * count + stopped(0) + END
    )


@pytest.mark.parametrize(
    "stream",
    [text_deltas, general_way, arguments, blocks, calls_with_results, usages, signatures],
    ids=lambda stream: stream.__name__,
)
def test_cost_grows_with_the_events(stream: Callable[[int], bytes]) -> None:
    few, many = stream(FEW), stream(MANY)
    name = MESSAGES.name

    assert calls_of(name, many) <= MOST * calls_of(name, few)
    assert lines_of(name, many) <= MOST * lines_of(name, few)


def test_quick_way_is_taken_for_plain_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    general: list[str] = []
    handle = AnthropicParser.on_payload

    def spy(self: AnthropicParser, event: str | None, data: dict[str, object]) -> None:
        general.append(str(data.get("type")))
        handle(self, event, data)

    monkeypatch.setattr(AnthropicParser, "on_payload", spy)
    thought = started(1, type="thinking", thinking="")
    call = started(2, type="tool_use", id="t", name="n", input={})
    decode(
        *(START, TEXT, thought, call),
        delta(0, "text_delta", text="ä"),
        delta(1, "thinking_delta", thinking="b"),
        delta(2, "input_json_delta", partial_json="{}"),
        END,
    )

    assert "content_block_delta" not in general


# --- whatever comes ----------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("type", "index", "delta", "text", "thinking", "signature", "content", "content_block"),
        *("partial_json", "citation", "citations", "id", "name", "input", "tool_use_id", "usage"),
        *("stop_reason", "stop_details", "explanation", "message", "error", "container", "model"),
        *("a", "\ud83c", "\udf0a", "\x00", '{"a":1}', "{", ""),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
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
        "text": WORDS | JSON,
        "thinking": WORDS,
        "signature": JSON,
        "data": JSON,
        "id": st.sampled_from(["s1", "s2"]) | JSON,
        "tool_use_id": st.sampled_from(["s1", "s2"]) | JSON,
        "name": WORDS | JSON,
        "input": JSON,
        "content": JSON,
        "is_error": JSON,
        "citations": st.lists(JSON, max_size=2) | JSON,
        "to": JSON,
        "server_name": JSON,
        "encrypted_content": JSON,
    },
)
DELTAS = st.fixed_dictionaries(
    {"type": DELTA_KINDS | JSON},
    optional={
        "text": WORDS | JSON,
        "thinking": WORDS,
        "signature": WORDS | JSON,
        "partial_json": WORDS | JSON,
        "citation": JSON,
        "content": WORDS | JSON,
        "encrypted_content": JSON,
    },
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("message_start"), "message": JSON}),
    st.fixed_dictionaries(
        {
            "type": st.just("message_start"),
            "message": st.fixed_dictionaries(
                {}, optional={"id": JSON, "usage": JSON, "content": st.lists(BLOCKS, max_size=2)}
            ),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("content_block_start"), "index": INDEXES, "content_block": BLOCKS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("content_block_delta"), "index": INDEXES, "delta": DELTAS}
    ),
    st.fixed_dictionaries({"type": st.just("content_block_stop"), "index": INDEXES}),
    st.fixed_dictionaries(
        {"type": st.just("message_delta"), "delta": JSON | DELTAS},
        optional={"usage": st.dictionaries(st.just("output_tokens"), JSON) | JSON},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("message_delta"),
            "delta": st.fixed_dictionaries(
                {"stop_reason": st.sampled_from(["end_turn", "tool_use", "refusal", "max_tokens"])},
                optional={"stop_details": JSON},
            ),
        }
    ),
    st.sampled_from([{"type": "message_stop"}, {"type": "ping"}, {"type": "error"}]),
    JSON,
)
CAUSES = st.sampled_from(["eof", "stopped", "interrupted", "failed"])


@given(events=st.lists(EVENTS, max_size=14), cause=CAUSES)
@settings(max_examples=100, deadline=None)
def test_no_event_raises_and_what_goes_back_can_be_sent(
    events: list[JsonObject], cause: Cause
) -> None:
    sent = [Frame(_name_of(event), json.dumps(event)) for event in events]

    found = run(MESSAGES, sent, cause)

    check(found)
    end = found[-1]
    assert isinstance(end, ChatEnd)
    answer = AssistantTurn(result=end.result, is_native=True)
    prompt = Prompt(model="m", turns=(UserTurn(text="a"), answer, UserTurn(text="b")))
    messages = json.loads(MESSAGES.request(prompt).body)["messages"]
    assert all(message["content"] for message in messages)


@given(events=st.lists(EVENTS, max_size=14))
@settings(max_examples=50, deadline=None)
def test_quick_way_says_what_the_general_way_says(events: list[JsonObject]) -> None:
    sent = [Frame(_name_of(event), json.dumps(event)) for event in events]

    with pytest.MonkeyPatch.context() as patch:
        quick = run(MESSAGES, sent, "eof")
        patch.setattr(AnthropicParser, "has_quick_way", False)
        general = run(MESSAGES, sent, "eof")

    assert quick == general


def _name_of(event: JsonObject) -> str | None:
    name = event.get("type") if isinstance(event, dict) else None
    return name if isinstance(name, str) and name.isascii() and name.isprintable() else None
