"""Values of undocumented types are stored and read back unchanged."""

from __future__ import annotations

import json
import random

import pytest

from chat import dialects, events
from chat.dialects.base import Parser
from chat.events import Json, JsonObject
from chat.result import Fold, fold
from tests.dialects.decoding import data_frame, frames_in
from tests.fixtures import STREAMS, name_of, parser_of
from tests.support.selection import sample

ODD: list[Json] = [
    *(None, True, -1, -0.5, 1.5, 0, 2**53, 10**30, 1e300, "", "123"),
    *([], {}, [None], [[]], {"a": None}, {"type": "text"}, [{"type": "text"}]),
]
# Variants of each recording.
SEEDS = 12


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


def check_stored(parser: Parser, body: bytes) -> events.Result:
    """Each event, and the result, are read back from the log as what they were."""
    found = [event for frame in frames_in(body) for event in parser.feed(frame)]
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


def test_recordings_with_odd_values(subtests: pytest.Subtests) -> None:
    for recording in STREAMS:
        lines = recording.read_bytes().split(b"\n")
        with subtests.test(name_of(recording)):
            for seed in sample(range(SEEDS), 4):
                chance = random.Random(f"{name_of(recording)} {seed}")
                body = b"\n".join(mutated_line(line, chance) for line in lines)
                check_stored(parser_of(recording), body)


def chunk(**members: Json) -> JsonObject:
    return {"object": "chat.completion.chunk", "model": "m", "choices": [], **members}


def ended(**result: Json) -> bytes:
    end = {"type": "chat.end", "result": {"output": [], **result}}
    return data_frame({"type": "chat.start"}) + data_frame(end)


def test_odd_values_that_once_failed(subtests: pytest.Subtests) -> None:
    index = [{"index": True, "delta": {"content": "x"}}]
    fractions = {"input_tokens": 12.5, "total_output_tokens": 3.0}
    for label, dialect, body in [
        ("half a token", "lmstudio", ended(stats=fractions)),
        ("a list for a type", "lmstudio", ended(output=[{"type": ["message"], "content": "x"}])),
        ("true for an index", "openai_chat", data_frame(chunk(choices=index))),
        ("no cost", "openai_chat", data_frame(chunk(usage={"prompt_tokens": 1, "cost": 0}))),
        (
            *("a huge cost", "openai_chat"),
            data_frame(chunk(usage={"prompt_tokens": 1, "cost": 10**400})),
        ),
    ]:
        with subtests.test(label):
            check_stored(dialects.get(dialect).parser(model="m", options={}), body)


def test_lm_studio_tokens_are_integers() -> None:
    parser = dialects.get("lmstudio").parser(model="m", options={})

    result = check_stored(parser, ended(stats={"input_tokens": 12.5, "tokens_per_second": 7.25}))

    assert (result.stats.input_tokens, result.stats.tokens_per_second) == (12, 7.25)
