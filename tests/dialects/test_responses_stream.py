"""The Responses stream beyond its recordings: its events, hostile streams, and cost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects.items import NO_NAME
from chat.dialects.openai_responses.parser import HANDLERS
from chat.events import Cause, ToolCallFailure, encode
from chat.result import Fold, finish
from chat.wire.sse import Frame
from tests.dialects.cost import Stream, assert_linear
from tests.dialects.decoding import check_log, data_frame, decode, frames_in
from tests.dialects.strategies import CAUSES, JSON, TEXTS
from tests.fixtures import RECORDINGS, decode_recording
from tests.support.selection import examples

RESPONSES = dialects.get("openai_responses")
MINE = {path.stem: path for path in RECORDINGS if path.parent.name == RESPONSES.name}

# The union of OpenAI's own client.
UNION = [
    "error",
    *(
        f"response.{name}"
        for name in (
            *("created", "queued", "in_progress", "completed", "incomplete", "failed"),
            *("output_item.added", "output_item.done", "content_part.added", "content_part.done"),
            *("output_text.delta", "output_text.done", "output_text.annotation.added"),
            *("refusal.delta", "refusal.done", "reasoning_text.delta", "reasoning_text.done"),
            *("reasoning_summary_part.added", "reasoning_summary_part.done"),
            *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
            *("function_call_arguments.delta", "function_call_arguments.done"),
            *("custom_tool_call_input.delta", "custom_tool_call_input.done"),
            *("mcp_call_arguments.delta", "mcp_call_arguments.done"),
            *("mcp_call.in_progress", "mcp_call.completed", "mcp_call.failed"),
            *("mcp_list_tools.in_progress", "mcp_list_tools.completed", "mcp_list_tools.failed"),
            *("web_search_call.in_progress", "web_search_call.searching"),
            *("web_search_call.completed", "file_search_call.in_progress"),
            *("file_search_call.searching", "file_search_call.completed"),
            *("code_interpreter_call.in_progress", "code_interpreter_call.interpreting"),
            *("code_interpreter_call.completed", "code_interpreter_call_code.delta"),
            *("code_interpreter_call_code.done", "shell_call_command.added"),
            *("shell_call_command.delta", "shell_call_command.done"),
            *("shell_call_output_content.delta", "shell_call_output_content.done"),
            *("image_generation_call.in_progress", "image_generation_call.generating"),
            *("image_generation_call.completed", "image_generation_call.partial_image"),
            *("audio.delta", "audio.done", "audio.transcript.delta", "audio.transcript.done"),
        )
    ),
]
# Fireworks' spelling, an event newer than the union, and one that is documented as a webhook.
FURTHER = [
    *("response.mcp_call.arguments.delta", "response.mcp_call.arguments.done"),
    *("response.compaction.compacting", "response.cancelled"),
]
# What the mapping names as the canonical event of each group; the recordings must show it.
SHOWN = {
    "web_search": '"family":"web_search"',
    "file_search": '"family":"file_search"',
    "code_interpreter": '"family":"code"',
    "shell": '"family":"shell"',
    "image": '"state":"partial"',
    "mcp": '"step":"list_tools"',
    "mcp_approval": '"style":"approval"',
    "queued": '"step":"queued"',
    "other_items": '"kind":"compaction"',
    "reasoning_summary": '"kind":"reasoning_encrypted"',
    "audio": '"media_type":"audio/*"',
    "citations": '"kind":"container_file_citation"',
    "logprobs": '"type":"logprobs.add"',
    "refusal": '"type":"refusal.delta"',
    "custom_tool": '"arguments":{"input":',
}


def test_union_of_events_is_complete() -> None:
    assert len(set(UNION)) == 58


def test_events_have_handlers_and_recordings(subtests: pytest.Subtests) -> None:
    streams = [path.read_text() for path in MINE.values() if path.suffix == ".sse"]

    for name in [*UNION, *FURTHER]:
        with subtests.test(name):
            assert name in HANDLERS
            assert any(f'"type":"{name}"' in stream for stream in streams)


def test_event_groups_become_what_the_mapping_says(subtests: pytest.Subtests) -> None:
    for name, text in SHOWN.items():
        with subtests.test(name):
            events = decode_recording(MINE[name])

            assert any(text in encode(event).decode() for event in events[:-1])


def test_echoed_tool_credentials_are_in_no_event() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    response = {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": [message],
        "instructions": "Be brief.",
        "tools": [{"type": "mcp", "headers": {"Authorization": "Bearer sk-river"}}],
    }
    parser = RESPONSES.parser(model="m", options={})

    events = [*parser.feed_body(json.dumps(response).encode()), *parser.close()]

    assert len(events) > 3
    assert not any(b"sk-river" in encode(event) for event in events)


def test_reason_with_a_lone_surrogate_can_be_stored() -> None:
    response = '{"status": "incomplete", "incomplete_details": {"reason": "\\ud83c"}, "output": []}'
    parser = RESPONSES.parser(model="m", options={})
    state = Fold()

    state.extend(parser.feed_body(response.encode()))
    end = finish(parser, state)[-1]

    assert b'"reason":"\xef\xbf\xbd"' in encode(end)


def test_call_without_a_name_fails_once() -> None:
    events = decode(
        RESPONSES,
        frames_in(
            data_frame({"type": "response.custom_tool_call_input.delta", "delta": "north"}),
            data_frame({"type": "response.completed"}),
        ),
    )

    check_log(events)
    assert [event.reason for event in events if isinstance(event, ToolCallFailure)] == [NO_NAME]


# --- hostile streams ---

KINDS = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "custom_tool_call", "mcp_call", "compaction"),
        *("mcp_list_tools", "mcp_approval_request", "web_search_call", "code_interpreter_call"),
        *("image_generation_call", "shell_call", "shell_call_output", "function_call_output"),
        *("tool_output", "tool_search_call", "local_shell_call", "computer_call", "weather_call"),
    ]
)
IDS = st.sampled_from(["", "a", "b", "call"])
STATUSES = st.sampled_from(["completed", "incomplete", "failed", "in_progress"])
PART = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["output_text", "refusal", "reasoning_text", "summary_text", "logs", "image", "x"]
        )
    },
    optional={"text": TEXTS, "refusal": TEXTS, "annotations": JSON, "logprobs": JSON, "url": TEXTS},
)
ITEM = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        **dict.fromkeys(["id", "call_id", "tool_call_id"], IDS),
        **dict.fromkeys(["name", "code"], TEXTS),
        **dict.fromkeys(["arguments", "input", "encrypted_content", "output"], TEXTS | JSON),
        **dict.fromkeys(["action", "operation", "mcp", "error", "tools", "queries"], JSON),
        **dict.fromkeys(["content", "summary"], st.lists(PART, max_size=3) | JSON),
        "outputs": st.lists(PART, max_size=2) | JSON,
        "result": TEXTS | JSON,
        "status": STATUSES | JSON,
        "environment": st.just({"type": "local"}) | JSON,
        "execution": st.sampled_from(["client", "server"]),
    },
)
RESPONSE = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["usage", "error", "incomplete_details", "reasoning"], JSON),
        "id": IDS | JSON,
        "model": TEXTS | JSON,
        "status": st.sampled_from(["completed", "incomplete", "failed", "cancelled", "queued"]),
        "output": st.lists(ITEM, max_size=4) | JSON,
    },
)


def events_named(names: list[str]) -> st.SearchStrategy[dict[str, object]]:
    texts = ["delta", "text", "arguments", "input", "code", "command", "partial_image_b64"]
    places = ["content_index", "summary_index", "command_index"]
    return st.fixed_dictionaries(
        {"type": st.sampled_from(names)},
        optional={
            **dict.fromkeys(texts, TEXTS | JSON),
            **dict.fromkeys(["refusal", "name"], TEXTS),
            **dict.fromkeys(["annotation", "logprobs", "output"], JSON),
            **dict.fromkeys(places, st.integers(0, 2)),
            "item_id": IDS,
            "output_index": st.integers(0, 3) | JSON,
            "sequence_number": st.integers(-1, 30),
            "part": PART | JSON,
            "item": ITEM | JSON,
            "response": RESPONSE | JSON,
        },
    )


EVENT = events_named(sorted(HANDLERS))
# The last event ends everything, so that what is after it would never be looked at.
ONGOING = events_named(
    [
        name
        for name in sorted(HANDLERS)
        if name.rpartition(".")[2] in ("added", "delta", "done", "created")
    ]
)


@given(events=st.lists(ONGOING | EVENT, max_size=8), end=EVENT, cause=CAUSES)
@examples(120)
def test_no_events_raise(events: list[object], end: object, cause: Cause) -> None:
    check_log(
        decode(RESPONSES, [Frame(None, json.dumps(event)) for event in [*events, end]], cause)
    )


@given(response=RESPONSE, cause=CAUSES)
@examples(120)
def test_no_complete_answer_raises(response: object, cause: Cause) -> None:
    body = json.dumps({"object": "response", **response}).encode()  # type: ignore[dict-item]
    parser = RESPONSES.parser(model="m", options={})

    events = parser.feed_body(body)

    assert parser.feed(Frame(None, "{}")) == []
    assert len([*events, *parser.close(cause)]) >= 1


# --- cost ---


def line(name: str, **members: object) -> bytes:
    return data_frame({"type": f"response.{name}", **members})


def completed(output: list[object] | None = None) -> bytes:
    return line("completed", response={"status": "completed", "output": output or []})


def delta(text: str, number: int = 0, **members: object) -> bytes:
    place = {"item_id": f"m{number}", "output_index": number, "content_index": 0}
    return line("output_text.delta", delta=text, **place, **members)


def numbered_text(count: int) -> bytes:
    return b"".join(delta("word ", sequence_number=n) for n in range(count)) + completed()


def general_way(count: int) -> bytes:
    return delta("word ", mood="calm") * count + completed()


def surrogates(count: int) -> bytes:
    return (delta("\ud83c") + delta("\udf0a")) * (count // 2) + completed()


def many_messages(count: int) -> bytes:
    return b"".join(delta("word", number) for number in range(count)) + completed()


def repeated_wholes(count: int) -> bytes:
    place = {"item_id": "m0", "output_index": 0, "content_index": 0}
    return delta("word " * 40) * count + line("output_text.done", text="word", **place) * count


def reasoning_parts(count: int) -> bytes:
    return b"".join(
        line("reasoning_summary_text.delta", item_id="r", summary_index=n, delta="a")
        + line("reasoning_summary_text.done", item_id="r", summary_index=n, text="ab")
        for n in range(count // 2)
    )


def many_calls_and_results(count: int) -> bytes:
    items = (
        line("output_item.done", item={"type": "mcp_call", "id": f"c{n}", "arguments": "{}"})
        + line("output_item.done", item={"type": "tool_output", "id": f"o{n}", "output": "x"})
        for n in range(count // 2)
    )
    return b"".join(items) + completed()


def final_with_other_ids(count: int) -> bytes:
    wholes: list[object] = [
        {"type": "message", "id": f"x{n}", "content": [{"type": "output_text", "text": "word"}]}
        for n in range(count // 2)
    ]
    return b"".join(delta("word", number) for number in range(count // 2)) + completed(wholes)


def arguments(count: int) -> bytes:
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": ""}
    piece = line("function_call_arguments.delta", item_id="f", output_index=0, delta="1,")
    return line("output_item.added", output_index=0, item=item) + piece * count + completed()


def annotations(count: int) -> bytes:
    return b"".join(
        line("output_text.annotation.added", item_id="m", annotation_index=n, annotation={})
        for n in range(count)
    )


def gaps(count: int) -> bytes:
    return b"".join(delta("word ", sequence_number=2 * n) for n in range(count)) + completed()


def unknown_events(count: int) -> bytes:
    return line("tide.rising", height=1) * count + completed()


STREAMS: list[Stream] = [
    *(numbered_text, general_way, surrogates, many_messages, repeated_wholes, reasoning_parts),
    *(many_calls_and_results, final_with_other_ids, arguments, annotations, gaps),
    unknown_events,
]


def test_cost_is_linear(subtests: pytest.Subtests) -> None:
    for stream in STREAMS:
        with subtests.test(stream.__name__):
            assert_linear(RESPONSES.name, stream)
