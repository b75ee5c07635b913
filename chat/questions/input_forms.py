"""The form with which people answer what a tool asks in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from django import forms
from django.core.validators import URLValidator
from django.utils.translation import gettext

from chat.events import Json, JsonObject
from chat.models import ToolInput
from chat.questions.forms import NO_CHOICE, YES_OR_NO
from chat.questions.input_schema import InputField, UnsupportedSchema, fields_of
from chat.rendering.components import name_of
from chat.rendering.safety import reveal
from chat.web.forms import Sentences, WordsField

# A text that may be longer than this gets more than one line.
LONG_TEXT = 500
ACTIONS = (("accept", "accept"), ("decline", "decline"), ("cancel", "cancel"))


class InputForm(Sentences):
    """The fields of a request. They are posted by their position, and choices by theirs, because a browser may
    change the characters of a value."""

    # Declining and dismissing need no field, and browsers would insist.
    use_required_attribute = False

    action = forms.ChoiceField(choices=ACTIONS)

    def __init__(self, data: Mapping[str, Any] | None = None, *, asked: ToolInput) -> None:
        super().__init__(data, auto_id=f"input-{asked.public_id.hex}-%s")
        self.asked = asked
        is_answer = data is None or data.get("action") == "accept"
        self.asked_fields = fields_in(asked) if is_answer else []
        for place, field in enumerate(self.asked_fields):
            self.fields[_name(place)] = _form_field(field)

    @property
    def bound_fields(self) -> list[tuple[forms.BoundField, bool]]:
        """The fields, each with whether it may be empty."""
        return [
            (self[_name(place)], not field.is_required)
            for place, field in enumerate(self.asked_fields)
        ]

    def content(self) -> JsonObject:
        """The valid form as the tool gets it; without the fields that were left empty."""
        found: JsonObject = {}
        for place, field in enumerate(self.asked_fields):
            value = _value_of(field, self.cleaned_data.get(_name(place)))
            if value is not None:
                found[field.name] = value
        return found


def fields_in(asked: ToolInput) -> list[InputField]:
    """None for an address, or a schema that this version can't read."""
    try:
        return fields_of(asked.schema) if asked.schema else []
    except UnsupportedSchema:
        return []


def labelled(asked: ToolInput) -> JsonObject:
    """The answer by the labels that people saw."""
    shown: JsonObject = {}
    for field in fields_in(asked):
        if field.name in asked.content:
            labels = dict(field.options)
            value = asked.content[field.name]
            if isinstance(value, list):
                value = [labels.get(each, each) for each in value]
            elif isinstance(value, str):
                value = labels.get(value, value)
            label = field.label if field.label not in shown else field.name
            shown[label] = value
    return shown


def _name(place: int) -> str:
    return f"field-{place}"


def _form_field(field: InputField) -> forms.Field:
    common: dict[str, Any] = {
        "label": name_of(field.label),
        "help_text": reveal(field.description),
        "required": field.is_required,
        "initial": field.default,
    }
    return _MAKERS[field.kind](field, common)


def _text(field: InputField, common: dict[str, Any]) -> forms.Field:
    most, least = int(field.most or 0), int(field.least or 0)
    if field.text_format == "date":
        return forms.DateField(widget=_typed("date"), input_formats=["%Y-%m-%d"], **common)
    if field.text_format == "date-time":
        return forms.DateTimeField(widget=_typed("datetime-local"), **common)
    if field.text_format == "email":
        return forms.EmailField(max_length=min(most, 320), min_length=least, **common)
    if field.text_format == "uri":
        return WordsField(
            max_length=most,
            min_length=least,
            widget=_typed("url"),
            validators=[URLValidator()],
            **common,
        )
    is_long = most > LONG_TEXT
    widget = (
        forms.Textarea(attrs={"rows": 2}) if is_long and not field.default else forms.TextInput()
    )
    return WordsField(max_length=most, min_length=least, widget=widget, **common)


def _number(field: InputField, common: dict[str, Any]) -> forms.Field:
    return forms.FloatField(
        min_value=field.least, max_value=field.most, widget=_numeric("decimal"), **common
    )


def _integer(field: InputField, common: dict[str, Any]) -> forms.Field:
    return forms.IntegerField(
        min_value=int(field.least or 0) if field.least is not None else None,
        max_value=int(field.most or 0) if field.most is not None else None,
        widget=_numeric("numeric"),
        **common,
    )


def _boolean(field: InputField, common: dict[str, Any]) -> forms.Field:
    initial = {True: "true", False: "false"}.get(common.pop("initial"))
    choices = [NO_CHOICE, *YES_OR_NO]
    return forms.ChoiceField(choices=choices, initial=initial, **common)


def _choice(field: InputField, common: dict[str, Any]) -> forms.Field:
    default = common.pop("initial")
    initial = next(
        (str(at) for at, (value, _) in enumerate(field.options) if value == default), None
    )
    choices = [NO_CHOICE, *_numbered(field)]
    return forms.ChoiceField(choices=choices, initial=initial, **common)


def _choices(field: InputField, common: dict[str, Any]) -> forms.Field:
    default = common.pop("initial") or []
    initial = [str(at) for at, (value, _) in enumerate(field.options) if value in default]
    return _Several(field, choices=_numbered(field), initial=initial, **common)


class _Several(forms.MultipleChoiceField):
    """Several of the options, as many as the tool wants."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, field: InputField, **values: Any) -> None:
        super().__init__(**values)
        self._least, self._most = int(field.least or 0), field.most

    def validate(self, value: list[str]) -> None:
        super().validate(value)
        if value and len(value) < self._least:
            text = gettext("Choose at least %(number)s.")
            raise forms.ValidationError(text % {"number": self._least})
        if self._most is not None and len(value) > self._most:
            text = gettext("Choose at most %(number)s.")
            raise forms.ValidationError(text % {"number": int(self._most)})


def _numbered(field: InputField) -> list[tuple[str, str]]:
    return [(str(at), reveal(label)) for at, (_, label) in enumerate(field.options)]


def _typed(kind: str) -> forms.Widget:
    return forms.TextInput(attrs={"type": kind})


def _numeric(mode: str) -> forms.Widget:
    return forms.TextInput(attrs={"inputmode": mode})


_MAKERS: Mapping[str, Callable[[InputField, dict[str, Any]], forms.Field]] = {
    "text": _text,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
}


def _value_of(field: InputField, said: Any) -> Json:
    """The JSON value; ``None`` for a field that was left empty."""
    if said is None or said in ("", []):
        return None
    if field.kind == "choices":
        return [field.options[int(at)][0] for at in said]
    if field.kind == "choice":
        return field.options[int(said)][0]
    if field.kind == "boolean":
        return said == "true"
    return said.isoformat() if isinstance(said, date | datetime) else said
