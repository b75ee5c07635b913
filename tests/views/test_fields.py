from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from chat.dialects.base import Parameter
from chat.views.fields import JsonField
from chat.views.forms import parameter_field


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
def test_an_object_or_a_list_is_read(typed: str, value: object) -> None:
    assert parameter_field(parameter("json")).clean(typed) == value


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ('{"a": 1,\n "b": }', "in line 2"),
        ("7", "must be an object or a list"),
        ('"text"', "must be an object or a list"),
        ("NaN", "not JSON"),
        ('{"a": Infinity}', "not JSON"),
        ("[" * 90_000, "not JSON"),
        ("[" * 100 + "]" * 100, "nests too deep"),
        ("[" + "1," * 60_000 + "1]", "at most 100000"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_neither_is_refused_with_a_reason(typed: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        parameter_field(parameter("json")).clean(typed)


def test_a_stored_value_is_laid_out_and_a_typed_one_stays() -> None:
    assert JsonField().prepare_value({"a": "ü"}) == '{\n  "a": "ü"\n}'
    assert JsonField().prepare_value('{"a"') == '{"a"'


def test_lines_keep_their_newlines_and_spaces() -> None:
    assert parameter_field(parameter("lines")).clean(" one\r\n two ") == " one\n two "
