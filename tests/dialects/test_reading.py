"""Reading untrusted JSON and frames."""

import json
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.reading import (
    MAX_DEPTH,
    NotJson,
    join_surrogates,
    read_frame,
    read_json,
    repair_text,
    scrub,
)
from tests.dialects.decoding import frames_in
from tests.dialects.strategies import json_values


def payloads(data: bytes) -> list[tuple[str, str | None, object]]:
    return [(p.kind, p.event, p.value) for frame in frames_in(data) for p in read_frame(frame)]


LENIENT = [
    ('{"a":NaN}', {"a": None}),
    ('{"a":-Infinity}', {"a": None}),
    ('{"a":1e999}', {"a": None}),
    ('{"a":"x\ty\x01"}', {"a": "x\ty\x01"}),
    ('{"a":"\\u0000"}', {"a": "\u2400"}),
    ('{"a\\u0000":[{"b":"\\u0000"}]}', {"a\u2400": [{"b": "\u2400"}]}),
    ('{"a":"\x00"}', {"a": "\u2400"}),
    ('{"a":12345678901234567890123}', {"a": 12345678901234567890123}),
    ('{"a":1,"a":2}', {"a": 2}),
    (' \ufeff{"a":1} ', {"a": 1}),
    ("[1,2]", [1, 2]),
    ('"text"', "text"),
]


def test_lenient_reading(subtests: pytest.Subtests) -> None:
    for text, value in LENIENT:
        with subtests.test(text=text):
            assert read_json(text)[0] == value


def test_huge_number_stays_text() -> None:
    digits = "9" * 5000

    assert read_json(f'{{"a":{digits}}}')[0] == {"a": digits}


def test_invalid_json_is_refused(subtests: pytest.Subtests) -> None:
    for text in ["", "{", "{]", "undefined", "[DONE]", "{} {}", "<html>"]:
        with subtests.test(text=text), pytest.raises(NotJson):
            read_json(text)


def test_depth_bomb_is_refused(subtests: pytest.Subtests) -> None:
    depths, pairs = (MAX_DEPTH + 2, 2_000, 200_000), (("[", "]"), ('{"a":', "}"))
    for depth, (opening, closing), inner in product(depths, pairs, ("1", '"\\u0000"', "NaN")):
        with subtests.test(depth=depth, opening=opening, inner=inner), pytest.raises(NotJson):
            read_json(opening * depth + inner + closing * depth)


def test_brackets_in_text_are_no_depth() -> None:
    text = "[{" * 500

    assert read_json(json.dumps({"a": text}))[0] == {"a": text}


def test_lone_surrogates_are_reported() -> None:
    assert read_json('{"a":"\\ud83c"}') == ({"a": "\ud83c"}, True)
    assert read_json('{"a":"\\ud83c\\udf0a"}') == ({"a": "🌊"}, False)


@given(st.text())
def test_repaired_text_can_be_stored(text: str) -> None:
    assert "\x00" not in repair_text(text)
    repair_text(text).encode()


@given(json_values(st.text(), st.text()))
def test_scrubbed_values_can_be_encoded(value: object) -> None:
    msgspec.json.encode(scrub(value))


def test_surrogate_pairs_are_joined() -> None:
    assert join_surrogates("\ud83c\udf0a\ud83c") == "🌊\ud83c"
    assert repair_text("\ud83c\udf0a\udf0a\x00") == "🌊\ufffd\u2400"


FRAMES = [
    (b'data: {"a":\ndata: 1}\n\n', [("json", None, {"a": 1})]),
    (
        b'event: e\ndata: {"a":1}\ndata: {"b":2}\n\n',
        [("json", "e", {"a": 1}), ("json", None, {"b": 2})],
    ),
    (b'data: {"a":1}\ndata: [DONE]\n\n', [("json", None, {"a": 1}), ("done", None, None)]),
    (b'data: {\n "a": 1,\n "b": [\n  2\n ]\n}\n\n', [("json", None, {"a": 1, "b": [2]})]),
    (b'event: e\ndata: {\n "a": 1\n}\n\n', [("json", "e", {"a": 1})]),
    (b'{"error":"x"}\n\n', [("json", None, {"error": "x"})]),
    (b"data:[DONE]\n\n", [("done", None, None)]),
    (b"data:  [DONE] \n\n", [("done", None, None)]),
    (b"data: [DONE] bye\n\n", [("done", None, None)]),
    (b"data: nonsense\n\n", [("text", None, None)]),
    (b'data: {"a":1}\ndata: nonsense\n\n', [("text", None, None)]),
    (b"event: e\ndata\n\n", [("json", "e", {})]),
    (b"data\n\n", []),
    (b": comment\n\nretry: 5\n\nid: 1\n\nevent: e\n\n", []),
    (b"stray\n\n", [("text", None, None)]),
]


def test_frame_payloads(subtests: pytest.Subtests) -> None:
    for data, expected in FRAMES:
        with subtests.test(data=data):
            assert payloads(data) == expected


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    payloads(data)
    payloads(b"data: " + data)
