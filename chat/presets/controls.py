"""The controls of a preset as lines of text, as people write them::

Low: Reasoning effort = low
High: Reasoning effort = high; Max tokens = 8000
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from django import forms
from django.utils.translation import gettext

from chat.conversations.choice_form import parameter_field
from chat.conversations.preset_choice import Control, ControlChoice
from chat.dialects import DIALECTS
from chat.dialects.parameters import Parameter
from chat.events import Json

MOST_CONTROLS = 3
MOST_CHOICES = 8
LABEL_LENGTH = 40


def to_stored(controls: Iterable[Control]) -> Json:
    # As the database gives it back: JSON has no tuples.
    return msgspec.json.decode(msgspec.json.encode(list(controls)))


def lines_of(control: Control) -> str:
    return "\n".join(
        f"{choice.label}: {_settings(choice.parameters)}" for choice in control.choices
    )


def _settings(parameters: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} = {in_words(value)}" for name, value in parameters.items())


def in_words(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def choices_in(text: str, dialect: str) -> tuple[ControlChoice, ...]:
    """The choices that the lines describe. Raises ``ValidationError`` with the line that is wrong."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not 2 <= len(lines) <= MOST_CHOICES:
        words = gettext("Enter two to %(most)d choices, one per line.")
        raise forms.ValidationError(words % {"most": MOST_CHOICES})
    choices = tuple(_choice_in(line, dialect) for line in lines)
    if len({choice.label for choice in choices}) < len(choices):
        raise forms.ValidationError(gettext("Give each choice another name."))
    return choices


def _choice_in(line: str, dialect: str) -> ControlChoice:
    label, colon, settings = line.partition(":")
    label = label.strip()
    if not colon or not label or len(label) > LABEL_LENGTH:
        words = gettext("Write “%(line)s” like this: Name: parameter = value")
        raise forms.ValidationError(words % {"line": line[:LABEL_LENGTH]})
    pairs = [each for each in settings.split(";") if each.strip()]
    parameters = dict(_parameter_in(each, dialect) for each in pairs)
    return ControlChoice(label=label, parameters=parameters)


def _parameter_in(pair: str, dialect: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in pair.partition("="))
    parameter = _named(name, dialect)
    if parameter is None:
        words = gettext("This model has no parameter “%(name)s”.")
        raise forms.ValidationError(words % {"name": name[:LABEL_LENGTH]})
    switches = {"on": "true", "off": "false"} if parameter.kind == "boolean" else {}
    try:
        if not equals or not value:
            raise forms.ValidationError(gettext("Enter a value."))
        read = parameter_field(parameter).clean(switches.get(value.lower(), value))
    except forms.ValidationError as error:
        words = gettext("%(name)s: %(error)s")
        raise forms.ValidationError(
            words % {"name": parameter.name, "error": error.messages[0]}
        ) from None
    return parameter.name, read


def _named(name: str, dialect: str) -> Parameter | None:
    """The parameter with this name in requests or on screens."""
    folded = name.casefold()
    for parameter in DIALECTS[dialect].parameters:
        if folded in (parameter.name.casefold(), gettext(parameter.label).casefold()):
            return parameter
    return None
