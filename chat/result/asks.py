"""The options and fields of a question, whatever form its server uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chat.events import JsonObject

# The limit of options of a question and of each field: nobody reads more to choose one.
MOST_OPTIONS = 200
# A question has no more fields than this. Each is an element of the page, in every view.
MOST_FIELDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """``value`` is sent back, ``label`` is shown."""

    value: str
    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    label: str
    is_required: bool = False
    # The upstream's own type, such as "text" or "number"; empty if there is none.
    kind: str = ""
    options: tuple[Option, ...] = ()


def options_in(body: JsonObject) -> list[Option]:
    """The options, without repeated values. ``body`` has the members of an ``ask.question``
    event."""
    return _options(body.get("options"))


def fields_in(body: JsonObject) -> list[Field]:
    """The fields, each name once."""
    fields = [_field(entry) for entry in _first_of(body.get("fields"), MOST_FIELDS)]
    return list({field.name: field for field in fields if field.name}.values())


def in_words(
    body: JsonObject, *, text: str, selected: Iterable[str], fields: Mapping[str, str]
) -> str:
    """A reply as people read it: with labels instead of values."""
    options = {option.value: option.label for option in options_in(body)}
    known = {field.name: field for field in fields_in(body)}
    filled = [
        f"{known[name].label}: {_label_in(known[name].options, value)}" if name in known else value
        for name, value in fields.items()
        if value.strip()
    ]
    said = [*(options.get(value, value) for value in selected), *filled, text]
    return ", ".join(part for part in said if part.strip())


def _label_in(options: Iterable[Option], value: str) -> str:
    return next((option.label for option in options if option.value == value), value)


def _options(entries: object) -> list[Option]:
    options = [_option(entry) for entry in _first_of(entries, MOST_OPTIONS)]
    return list({option.value: option for option in options if option.value}.values())


def _first_of(entries: object, most: int) -> Sequence[object]:
    return entries[:most] if isinstance(entries, list) else ()


def _option(entry: object) -> Option:
    if not isinstance(entry, dict):
        return Option(value=_text(entry), label=_text(entry))
    value = _first(entry, "value", "id", "key", "label", "text", "title", "name")
    label = _first(entry, "label", "title", "text", "name") or value
    return Option(value=value, label=label, description=_first(entry, "description", "help"))


def _field(entry: object) -> Field:
    if not isinstance(entry, dict):
        return Field(name=_text(entry), label=_text(entry))
    name = _first(entry, "name", "id", "key", "label")
    return Field(
        name=name,
        label=_first(entry, "label", "title") or name,
        is_required=entry.get("required") is True,
        kind=_first(entry, "type", "kind"),
        options=tuple(_options(entry.get("options"))),
    )


def _first(entry: Mapping[str, object], *names: str) -> str:
    return next((text for name in names if (text := _text(entry.get(name)))), "")


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()
