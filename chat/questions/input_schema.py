"""The form that a tool asks people to fill in, read from the schema that its server sent.

The protocol allows an object of texts, numbers, yes or no, and choices, without nesting (MCP, "Elicitation",
requested schema). Nothing of it is trusted: names, texts and numbers of entries are bounded, and everything
else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext_noop

from chat.core.text import clean
from chat.events import Json, JsonObject
from chat.result.asks import MOST_FIELDS, MOST_OPTIONS

Kind = Literal["text", "number", "integer", "boolean", "choice", "choices"]

NAME_LENGTH = 200
# Characters of a label, a description, and a value that can be chosen.
LABEL_LENGTH = 200
DESCRIPTION_LENGTH = 1000
VALUE_LENGTH = 1000
# Characters of a text that somebody types.
TEXT_LENGTH = 10_000
# Integers that every JSON library reads exactly.
LARGEST_INTEGER = 2**53 - 1
# Limits and numbers beyond are no use to people.
LARGEST_FIGURE = 1e15
FORMATS = ("email", "uri", "date", "date-time")

# Sentences for people and for the model, stored in English; pages translate them.
NOT_A_FORM = gettext_noop("The tool asks for input in a form that isn’t supported.")
TOO_MANY = gettext_noop("The tool asks for more input than fits into a form.")


class UnsupportedSchema(Exception):
    """The schema can't be a form. Its text is a sentence for people, in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """``options`` are values and labels. ``least`` and ``most`` are characters of a text, values of a number, or
    chosen options."""

    name: str
    kind: Kind
    label: str
    description: str = ""
    is_required: bool = False
    text_format: str = ""
    default: Json = None
    options: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None


def fields_of(schema: JsonObject) -> list[InputField]:
    """The fields in the order of the schema. Raises ``UnsupportedSchema``."""
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise UnsupportedSchema(NOT_A_FORM)
    if len(properties) > MOST_FIELDS:
        raise UnsupportedSchema(TOO_MANY)
    listed = schema.get("required")
    required = (
        {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else ()
    )
    fields = [_field(name, entry, name in required) for name, entry in properties.items()]
    if not set(required) <= properties.keys():
        raise UnsupportedSchema(NOT_A_FORM)
    return fields


def _field(name: str, entry: Json, is_required: bool) -> InputField:
    if not name or len(name) > NAME_LENGTH or clean(name) != name or not isinstance(entry, dict):
        raise UnsupportedSchema(NOT_A_FORM)
    given = _without_null(entry)
    field = _reader_of(given)(name, given)
    return InputField(
        name=field.name,
        kind=field.kind,
        label=_text(entry.get("title"), LABEL_LENGTH) or name,
        description=_text(entry.get("description"), DESCRIPTION_LENGTH),
        is_required=is_required,
        text_format=field.text_format,
        default=_default(field, entry.get("default")),
        options=field.options,
        least=field.least,
        most=field.most,
    )


def _without_null(entry: JsonObject) -> JsonObject:
    """The one other type of an entry that may be null, as libraries write optional values."""
    arms = entry.get("anyOf")
    if not isinstance(arms, list):
        return entry
    others = [arm for arm in arms if isinstance(arm, dict) and arm.get("type") != "null"]
    if len(others) != 1 or len(arms) != 2:
        raise UnsupportedSchema(NOT_A_FORM)
    return others[0]


def _reader_of(entry: JsonObject) -> Callable[[str, JsonObject], InputField]:
    kind = entry.get("type")
    if kind == "string" and ("enum" in entry or "oneOf" in entry):
        return _choice
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise UnsupportedSchema(NOT_A_FORM)
    return reader


def _string(name: str, entry: JsonObject) -> InputField:
    most = _figure(entry.get("maxLength"))
    text_format = entry.get("format")
    return InputField(
        name=name,
        kind="text",
        label="",
        text_format=text_format if text_format in FORMATS else "",
        least=_figure(entry.get("minLength")),
        most=TEXT_LENGTH if most is None else min(most, TEXT_LENGTH),
    )


def _number(name: str, entry: JsonObject) -> InputField:
    return InputField(
        name=name,
        kind="number",
        label="",
        least=_figure(entry.get("minimum")),
        most=_figure(entry.get("maximum")),
    )


def _integer(name: str, entry: JsonObject) -> InputField:
    least, most = _figure(entry.get("minimum")), _figure(entry.get("maximum"))
    return InputField(
        name=name,
        kind="integer",
        label="",
        least=-LARGEST_INTEGER if least is None else max(math.ceil(least), -LARGEST_INTEGER),
        most=LARGEST_INTEGER if most is None else min(math.floor(most), LARGEST_INTEGER),
    )


def _boolean(name: str, entry: JsonObject) -> InputField:
    return InputField(name=name, kind="boolean", label="")


def _choice(name: str, entry: JsonObject) -> InputField:
    return InputField(name=name, kind="choice", label="", options=_options(entry, "oneOf"))


def _choices(name: str, entry: JsonObject) -> InputField:
    items = entry.get("items")
    if not isinstance(items, dict):
        raise UnsupportedSchema(NOT_A_FORM)
    return InputField(
        name=name,
        kind="choices",
        label="",
        options=_options(items, "anyOf", "oneOf"),
        least=_figure(entry.get("minItems")),
        most=_figure(entry.get("maxItems")),
    )


_READERS: Mapping[str, Callable[[str, JsonObject], InputField]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _choices,
}


def _options(entry: JsonObject, *names: str) -> tuple[tuple[str, str], ...]:
    """Values with their titles: of ``enum``, with the older ``enumNames``, or of constants with a title each."""
    values = entry.get("enum")
    titles: list[Json] = []
    if isinstance(values, list):
        named = entry.get("enumNames")
        titles = named if isinstance(named, list) and len(named) == len(values) else list(values)
    else:
        found = next((entry[name] for name in names if isinstance(entry.get(name), list)), None)
        arms = [arm for arm in found if isinstance(arm, dict)] if isinstance(found, list) else []
        values = [arm.get("const") for arm in arms]
        titles = [arm.get("title", arm.get("const")) for arm in arms]
        if not isinstance(found, list) or len(arms) != len(found):
            raise UnsupportedSchema(NOT_A_FORM)
    if len(values) > MOST_OPTIONS:
        raise UnsupportedSchema(TOO_MANY)
    if not values or not all(map(_is_value, values)):
        raise UnsupportedSchema(NOT_A_FORM)
    pairs = {
        str(value): _text(title, LABEL_LENGTH) for value, title in zip(values, titles, strict=True)
    }
    return tuple((value, label or value) for value, label in pairs.items())


def _is_value(value: Json) -> bool:
    return isinstance(value, str) and len(value) <= VALUE_LENGTH and clean(value) == value


def _default(field: InputField, value: Json) -> Json:
    """The default, if it is one that could be typed."""
    known = {option for option, _ in field.options}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits: Mapping[Kind, bool] = {
        "text": isinstance(value, str) and len(value) <= TEXT_LENGTH,
        "number": _figure(value) is not None,
        "integer": isinstance(value, int) and is_number and abs(value) <= LARGEST_INTEGER,
        "boolean": isinstance(value, bool),
        "choice": isinstance(value, str) and value in known,
        "choices": isinstance(value, list)
        and all(isinstance(v, str) and v in known for v in value),
    }
    return value if fits[field.kind] else None


def _figure(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < LARGEST_FIGURE else None


def _text(value: Json, most: int) -> str:
    return clean(" ".join(value.split()))[:most] if isinstance(value, str) else ""
