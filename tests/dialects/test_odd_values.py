"""Values of kinds that nobody documents: what is stored of a run can be read again, and is the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from chat import dialects, events
from chat.dialects.base import Parser
from chat.events import Json, JsonObject
from chat.result import Fold, fold
from chat.wire.sse import Decoder
from tests.fixtures import STREAMS, name_of, parser_of

ODD: list[Json] = [
    *(None, True, -1, -0.5, 1.5, 0, 2**53, 10**30, 1e300, "", "123"),
    *([], {}, [None], [[]], {"a": None}, {"type": "text"}, [{"type": "text"}]),
]
TIMES = 12


def mutated(value: Json, chance: random.Random, share: float) -> Json:
    if chance.random() < share:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {name: mutated(member, chance, share) for name, member in value.items()}
    if isinstance(value, list):
        return [mutated(member, chance, share) for member in value]
    return value


def mutated_line(line: bytes, chance: random.Random) -> bytes:
    name, _, data = line.partition(b":")
    try:
        value = json.loads(data) if name == b"data" and chance.random() < 0.3 else None
    except ValueError:
        value = None
    if value is None:
        return line
    return b"data: " + json.dumps(mutated(value, chance, chance.choice((0.02, 0.1)))).encode()


def check(parser: Parser, body: bytes) -> events.Result:
    """Whatever came: each event, and the result, are read back as what they were."""
    decoder = Decoder()
    found = [event for frame in decoder.feed(body) for event in parser.feed(frame)]
    found += parser.close()
    state = Fold()
    for seq, event in enumerate(found, start=1):
        event.seq = seq
        state.add(event)
    result = state.result(parser.ending)
    found.append(events.ChatEnd(seq=len(found) + 1, result=result))

    logged = [events.decode(events.encode(event)) for event in found]
    assert [type(event) for event in logged] == [type(event) for event in found]
    assert events.encode(fold(logged)) == events.encode(result)
    return events.decode_result(events.encode(result))


@pytest.mark.parametrize("recording", STREAMS, ids=name_of)
def test_a_recording_with_odd_values_is_read_back_as_it_was_stored(recording: Path) -> None:
    lines = recording.read_bytes().split(b"\n")
    for seed in range(TIMES):
        chance = random.Random(f"{name_of(recording)} {seed}")
        check(parser_of(recording), b"\n".join(mutated_line(line, chance) for line in lines))


def stream_of(*payloads: JsonObject) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(payload).encode() for payload in payloads)


def chunk(**members: Json) -> JsonObject:
    return {"object": "chat.completion.chunk", "model": "m", "choices": [], **members}


def ended(**result: Json) -> bytes:
    return stream_of(
        {"type": "chat.start"}, {"type": "chat.end", "result": {"output": [], **result}}
    )


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("lmstudio", ended(stats={"input_tokens": 12.5, "total_output_tokens": 3.0})),
        ("lmstudio", ended(output=[{"type": ["message"], "content": "x"}])),
        ("openai_chat", stream_of(chunk(choices=[{"index": True, "delta": {"content": "x"}}]))),
        ("openai_chat", stream_of(chunk(usage={"prompt_tokens": 1, "cost": 0}))),
        ("openai_chat", stream_of(chunk(usage={"prompt_tokens": 1, "cost": 10**400}))),
    ],
    ids=["half a token", "a list for a kind", "true for an index", "no cost", "a huge cost"],
)
def test_odd_values_that_once_did_harm(dialect: str, body: bytes) -> None:
    check(dialects.get(dialect).parser(model="m", options={}), body)


def test_tokens_of_lm_studio_are_whole() -> None:
    parser = dialects.get("lmstudio").parser(model="m", options={})

    result = check(parser, ended(stats={"input_tokens": 12.5, "tokens_per_second": 7.25}))

    assert (result.stats.input_tokens, result.stats.tokens_per_second) == (12, 7.25)
