"""Form fields for parameters that are JSON or lines of text."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from chat.conversations.choice_form import parameter_field
from chat.dialects.parameters import Parameter
from chat.web.forms import JsonField


def parameter(kind: str) -> Parameter:
    return Parameter(name="extra", label="Extra", kind=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ('{"a": [1, "ü"]}', {"a": [1, "ü"]}),
        ("[]", []),
        ("  ", None),
        ("", None),
        ('{"a": "\\u0000"}', {"a": "\u2400"}),
    ],
)
def test_json_field_reads_objects_and_lists(typed: str, value: object) -> None:
    assert parameter_field(parameter("json")).clean(typed) == value


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ('{"a": 1,\n "b": }', "on line 2"),
        ("7", "Enter a JSON object"),
        ('"text"', "Enter a JSON object"),
        ("NaN", "a number that servers don’t accept"),
        ('{"a": Infinity}', "a number that servers don’t accept"),
        ("[" * 90_000, "nested too deeply"),
        ("[" * 100 + "]" * 100, "nested too deeply"),
        ("[" + "1," * 60_000 + "1]", "at most 100000"),
    ],
    ids=lambda value: value[:20],
)
def test_json_field_refuses_the_rest_with_a_reason(typed: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        parameter_field(parameter("json")).clean(typed)


def test_json_field_indents_values_and_keeps_typed_text() -> None:
    assert JsonField().prepare_value({"a": "ü"}) == '{\n  "a": "ü"\n}'
    assert JsonField().prepare_value('{"a"') == '{"a"'


def test_lines_keep_their_newlines_and_spaces() -> None:
    assert parameter_field(parameter("lines")).clean(" one\r\n two ") == " one\n two "
