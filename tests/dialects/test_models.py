"""Model lists of every known shape."""

import json
from itertools import product

import pytest

from chat import dialects

LM = dialects.get("lmstudio")
OPENAI = dialects.get("openai_chat")


LISTS = [
    ({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}, [("a", "a"), ("b", "b")]),
    ({"data": [{"id": "a", "display_name": "A"}]}, [("a", "A")]),
    ({"data": [{"id": "a", "name": "A"}]}, [("a", "A")]),
    ({"models": [{"name": "accounts/x", "displayName": "X"}]}, [("accounts/x", "X")]),
    ([{"model": "a"}, "b"], [("a", "a"), ("b", "b")]),
    (
        {"data": {"endpoint": {"status": "RUNNING"}, "other": None}},
        [("endpoint", "endpoint"), ("other", "other")],
    ),
    ({"data": [{"id": ""}, {"id": 7}, 7, None, {}]}, []),
    ({"data": []}, []),
    ({"error": "no"}, []),
    ("text", []),
    (None, []),
]


def test_lists_are_read(subtests: pytest.Subtests) -> None:
    for value, expected in LISTS:
        with subtests.test(value=value):
            models = OPENAI.read_models(json.dumps(value).encode())

            assert [(model.id, model.label) for model in models] == expected


def test_other_bodies_have_no_models(subtests: pytest.Subtests) -> None:
    bodies = (b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"data": NaN}')
    for dialect, body in product((LM, OPENAI), bodies):
        with subtests.test(dialect=dialect.name, body=body[:20]):
            assert dialect.read_models(body) == []


def test_lm_studio_lists_only_chat_models() -> None:
    body = {
        "models": [
            {
                "type": "llm",
                "key": "river-7b",
                "display_name": "River 7B",
                "capabilities": {"vision": True},
            },
            {"type": "embedding", "key": "embed"},
            {"type": "decision", "key": "typesafe/jev"},
        ]
    }

    (model,) = LM.read_models(json.dumps(body).encode())

    assert (model.id, model.label) == ("river-7b", "River 7B")
    assert model.detail["capabilities"] == {"vision": True}
