"""The forms that tools ask people to fill in: read from hostile schemas, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.models import ToolInput
from chat.questions.input_forms import InputForm, labelled
from chat.questions.input_schema import UnsupportedSchema, fields_of


def schema_of(*required: str, **properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def answered(schema: dict[str, Any], *values: object) -> InputForm:
    """The form with these values of its fields, in their order; ``None`` for one that isn't sent."""
    data: dict[str, object] = {
        f"field-{at}": each for at, each in enumerate(values) if each is not None
    }
    return InputForm(MultiData({"action": "accept", **data}), asked=ToolInput(schema=schema))


class MultiData(dict[str, Any]):
    """Posted data, of which a list is several values of one name."""

    def getlist(self, name: str) -> list[Any]:
        value = self.get(name, [])
        return value if isinstance(value, list) else [value]


TITLED = {"oneOf": [{"const": "n", "title": "North"}, {"const": "s", "title": "South"}]}
VALUES = [
    ({"type": "string"}, " two words ", "two words"),
    ({"type": "string", "format": "email"}, "a@b.test", "a@b.test"),
    ({"type": "string", "format": "uri"}, "https://a.test/x", "https://a.test/x"),
    ({"type": "string", "format": "date"}, "2026-11-30", "2026-11-30"),
    ({"type": "string", "format": "date-time"}, "2026-11-30T10:00Z", "2026-11-30T10:00:00+00:00"),
    ({"type": "number"}, "2.5", 2.5),
    ({"type": "integer"}, "-3", -3),
    ({"type": "boolean"}, "false", False),
    ({"type": "string", "enum": ["n", "s"]}, "1", "s"),
    ({"type": "string", "enum": ["n", "s"], "enumNames": ["North", "South"]}, "0", "n"),
    ({"type": "string", **TITLED}, "1", "s"),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        ["0", "2"],
        ["a", "c"],
    ),
    ({"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, ["1"], ["s"]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "4", 4),
    ({"type": "string"}, "", None),
    ({"type": "boolean"}, "", None),
    ({"type": "string", "enum": ["n"]}, "", None),
]


@pytest.mark.parametrize(("entry", "typed", "value"), VALUES)
def test_answer_has_the_type_that_the_schema_asks_for(
    entry: dict[str, Any], typed: object, value: object
) -> None:
    form = answered(schema_of(x=entry), typed)

    assert form.is_valid(), form.errors
    assert form.content() == ({} if value is None else {"x": value})


WRONG = [
    ({"type": "string", "minLength": 3}, "ab"),
    ({"type": "string", "maxLength": 3}, "abcd"),
    ({"type": "string", "format": "email"}, "nobody"),
    ({"type": "string", "format": "uri"}, "javascript:alert(1)"),
    ({"type": "string", "format": "date"}, "30.11.2026"),
    ({"type": "number", "minimum": 1}, "0.5"),
    ({"type": "number"}, "nan"),
    ({"type": "integer", "maximum": 7}, "8"),
    ({"type": "integer"}, "1.5"),
    ({"type": "integer"}, "9" * 30),
    ({"type": "boolean"}, "maybe"),
    ({"type": "string", "enum": ["n", "s"]}, "n"),
    ({"type": "string", "enum": ["n", "s"]}, "2"),
    ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b", "c"]}}, ["0"]),
    ({"type": "array", "maxItems": 1, "items": {"enum": ["a", "b", "c"]}}, ["0", "1"]),
    ({"type": "array", "items": {"enum": ["a"]}}, ["1"]),
]


@pytest.mark.parametrize(("entry", "typed"), WRONG)
def test_answer_that_does_not_fit_names_the_field(entry: dict[str, Any], typed: object) -> None:
    form = answered(schema_of(x={"title": "The field", **entry}), typed)

    assert not form.is_valid()
    assert form.first_error().startswith("The field: ")


def test_required_fields_are_needed_for_an_answer_only() -> None:
    schema = schema_of("x", x={"type": "string"}, y={"type": "string"})

    assert not answered(schema, "", "here").is_valid()
    for action in ("decline", "cancel"):
        form = InputForm({"action": action}, asked=ToolInput(schema=schema))
        assert form.is_valid()
        assert form.content() == {}


def test_defaults_that_fit_are_filled_in() -> None:
    schema = schema_of(
        a={"type": "string", "default": "x"},
        b={"type": "integer", "default": "3"},
        c={"type": "string", "enum": ["n", "s"], "default": "s"},
        d={"type": "array", "items": {"enum": ["n", "s"]}, "default": ["s"]},
        e={"type": "boolean", "default": True},
    )
    form = InputForm(asked=ToolInput(schema=schema))

    initial = [form.fields[f"field-{at}"].initial for at in range(5)]
    assert initial == ["x", None, "1", ["1"], "true"]


def test_answer_is_shown_by_the_labels_of_the_form() -> None:
    schema = schema_of(
        pier={"type": "string", "title": "Pier", **TITLED}, n={"type": "integer", "title": "Pier"}
    )
    asked = ToolInput(schema=schema, content={"pier": "s", "n": 2})

    assert labelled(asked) == {"Pier": "South", "n": 2}


def test_hidden_characters_of_labels_are_shown() -> None:
    schema = schema_of(x={"type": "string", "title": "Pass\u202eword", "description": "a\u200bb"})
    field = InputForm(asked=ToolInput(schema=schema)).fields["field-0"]

    assert (field.label, field.help_text) == ("Pass[U+202E]word", "a[U+200B]b")


UNSUPPORTED = [
    {"type": "array"},
    {"type": "object", "properties": []},
    schema_of("missing"),
    schema_of(x={"type": "object"}),
    schema_of(x={"type": "array", "items": {"type": "object"}}),
    schema_of(x={"type": "array"}),
    schema_of(x={"type": "string", "enum": []}),
    schema_of(x={"type": "string", "enum": [1]}),
    schema_of(x={"type": "string", "oneOf": ["n"]}),
    schema_of(x={"type": "string", "oneOf": [{"title": "no value"}]}),
    schema_of(x={"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    schema_of(x={}),
    schema_of(x=True),
    {"properties": {"": {"type": "string"}}},
    {"properties": {"a\x00b": {"type": "string"}}},
    {"properties": {"x" * 201: {"type": "string"}}},
    schema_of(**{f"f{at}": {"type": "string"} for at in range(51)}),
    schema_of(x={"type": "string", "enum": [str(at) for at in range(201)]}),
]


@pytest.mark.parametrize("schema", UNSUPPORTED)
def test_everything_else_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSchema):
        fields_of(schema)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = (
    "type",
    "title",
    "description",
    "default",
    "enum",
    "enumNames",
    "oneOf",
    "anyOf",
    "items",
)
LIMITS = ("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "format")
types = st.sampled_from(["string", "number", "integer", "boolean", "array"]) | json_values
entries = st.fixed_dictionaries(
    {"type": types}, optional=dict.fromkeys((*KEYWORDS[1:], *LIMITS), json_values)
)


@given(properties=st.dictionaries(st.text(max_size=8), entries | json_values, max_size=3))
def test_no_schema_breaks_the_form(properties: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": properties}
    try:
        fields = fields_of(schema)
    except UnsupportedSchema:
        return

    form = InputForm(asked=ToolInput(schema=schema))
    assert len(fields) == len(properties) == len(form.bound_fields)
    assert all(str(bound) for bound, _ in form.bound_fields)
