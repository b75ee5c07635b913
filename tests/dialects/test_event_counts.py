"""Counting the events of an upstream by kind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import dialects
from chat.dialects import event_counts
from chat.dialects.event_counts import MAX_NAMES, OTHERS, EventCounter, Seen, merged
from tests.dialects.decoding import data_frame, frames_in, named_frame


def chunk(delta: dict[str, object] | None, **members: object) -> dict[str, object]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": None}]
    return {"id": "c", "object": "chat.completion.chunk", "choices": choices, **members}


def data(*payloads: object) -> bytes:
    return b"".join(map(data_frame, payloads))


def tally_of(name: str, stream: bytes, *, keeps_content: bool = True) -> dict[str, Seen]:
    parser = dialects.get(name).parser(model="m", options={})
    tally = EventCounter(keeps_content=keeps_content)
    for frame in frames_in(stream):
        tally.add(frame, parser.feed(frame))
    parser.close()
    return {kind.name: kind for kind in tally.result(parser)}


def counts_of(name: str, stream: bytes) -> dict[str, int]:
    return {kind.name: kind.count for kind in tally_of(name, stream).values()}


def test_chunks_are_counted_by_content() -> None:
    finish = chunk({})
    finish["choices"][0]["finish_reason"] = "tool_calls"
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}

    stream = b": waiting\n\n" + data(
        chunk({"role": "assistant", "content": ""}),
        *[chunk({"reasoning_content": "Hm"})] * 3,
        *[chunk({"content": "a"})] * 40,
        chunk({"tool_calls": [call]}),
        finish,
        chunk(None, usage={"total_tokens": 3}),
    )

    assert counts_of("openai_chat", stream + b"data: [DONE]\n\n") == {
        ": comment": 1,
        "chunk: without content": 1,
        "chunk: reasoning_content": 3,
        "chunk: content": 40,
        "chunk: tool_calls": 1,
        "chunk: finish_reason": 1,
        "chunk: usage": 1,
        "[DONE]": 1,
    }


def test_named_events_keep_their_names() -> None:
    stream = named_frame("chat.start", model_instance_id="m")
    stream += named_frame("message.delta", content="a") * 5

    assert counts_of("lmstudio", stream) == {"chat.start": 1, "message.delta": 5}


def test_unknown_event_keeps_its_first_sample() -> None:
    stream = data(
        chunk({"content": "a"}), *({"type": "x_new.thing", "n": number} for number in range(3))
    )

    kind = tally_of("openai_chat", stream)["x_new.thing"]

    assert (kind.count, kind.is_known) == (3, False)
    assert json.loads(kind.sample) == {"type": "x_new.thing", "n": 0}


def test_sample_of_a_conversation_is_an_outline() -> None:
    event = {
        "type": "x_new.thing",
        "words": ["secret", "more"],
        "at": {"type": "secret", "n": 7, "p": 0.5, "ok": True, "none": None},
    }

    found = tally_of("openai_chat", data(event) + b"data: secret\n\n", keeps_content=False)

    assert json.loads(found["x_new.thing"].sample) == {
        "type": "x_new.thing",
        "words": ["…"],
        "at": {"type": "…", "n": 0, "p": 0.0, "ok": True, "none": None},
    }
    assert found["(text that is no JSON)"].sample == ""


def test_unknown_member_is_counted() -> None:
    stream = data(*(chunk({"content": "a"}, mood=number) for number in range(4)))

    found = tally_of("openai_chat", stream)

    assert found["chunk: content"] == Seen(name="chunk: content", count=4)
    kind = found["chunk.mood"]
    assert (kind.count, kind.is_known, json.loads(kind.sample)) == (4, False, {"mood": 0})


def test_invalid_json_is_a_kind_of_its_own() -> None:
    kind = tally_of("openai_chat", b"data: oops\n\n")["(text that is no JSON)"]

    assert (kind.count, kind.is_known, kind.sample) == (1, False, "oops")


def test_partly_known_name_is_listed_twice() -> None:
    stream = named_frame("message.delta", content="a")
    stream += b"event: message.delta\ndata: oops\n\n"

    found = tally_of("lmstudio", stream)

    assert found["message.delta"].is_known
    assert (found["message.delta, in part"].count, found["message.delta, in part"].sample) == (
        1,
        "oops",
    )


def test_names_and_samples_are_bounded() -> None:
    stream = data(*({"type": f"x_{number}", "text": "y" * 5000} for number in range(500)))

    found = tally_of("openai_chat", stream)

    assert len(found) <= 2 * (MAX_NAMES + 1)
    assert found[OTHERS].count >= 500 - MAX_NAMES
    assert max(len(kind.sample) for kind in found.values()) == event_counts.SAMPLE_CHARACTERS


def test_only_the_first_delta_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    name_of = event_counts.name_of
    monkeypatch.setattr(event_counts, "name_of", lambda frame: read.append(frame) or name_of(frame))

    counts = counts_of("openai_chat", data(*[chunk({"content": "a"})] * 1000))

    assert counts == {"chunk: content": 1000}
    assert len(read) <= 2


def test_counts_of_two_streams_are_added() -> None:
    first = [Seen(name="a", count=1), Seen(name="b", count=2, is_known=False, sample="s")]
    second = [Seen(name="b", count=5)]

    assert merged([*first, *second]) == [
        Seen(name="a", count=1),
        Seen(name="b", count=7, is_known=False, sample="s"),
    ]


@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"data: {text}\n\n".encode())
)
def test_any_stream_gives_storable_counts(stream: bytes) -> None:
    kinds = [
        kind
        for keeps_content in (True, False)
        for kind in tally_of("openai_chat", stream, keeps_content=keeps_content).values()
    ]
    for kind in kinds:
        assert kind.count > 0
        assert "\x00" not in kind.name
        kind.name.encode()
        kind.sample.encode()
