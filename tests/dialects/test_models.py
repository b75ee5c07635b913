"""Model lists of every known shape."""

import json

import pytest

from chat import dialects

LM = dialects.get("lmstudio")
OPENAI = dialects.get("openai_chat")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
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
    ],
)
def test_list_is_read(value: object, expected: list[tuple[str, str]]) -> None:
    models = OPENAI.read_models(json.dumps(value).encode())

    assert [(model.id, model.label) for model in models] == expected


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"data": NaN}'])
@pytest.mark.parametrize("dialect", [LM, OPENAI], ids=["lmstudio", "openai_chat"])
def test_what_is_no_list_has_no_models(dialect: dialects.Dialect, body: bytes) -> None:
    assert dialect.read_models(body) == []


def test_lm_studio_offers_what_can_chat() -> None:
    body = {
        "models": [
            {
                "type": "llm",
                "key": "river-7b",
                "display_name": "River 7B",
                "capabilities": {"vision": True},
            },
            {"type": "embedding", "key": "embed"},
        ]
    }

    (model,) = LM.read_models(json.dumps(body).encode())

    assert (model.id, model.label) == ("river-7b", "River 7B")
    assert model.detail["capabilities"] == {"vision": True}
