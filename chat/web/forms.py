"""Form fields for long texts and JSON, and errors as sentences."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext

from chat.core.text import check_name, one_line
from chat.dialects.reading import NotJson, read_json, scrub
from chat.events import Json


class NameField(forms.CharField):
    """One visible line of at most 80 characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 80, "validators": [check_name], **kwargs})

    def to_python(self, value: object) -> str:
        return one_line(super().to_python(value))


class WordsField(forms.CharField):
    """Text as it was typed. Forms send CRLF for a newline, and databases store no NUL."""

    def to_python(self, value: object) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n").replace("\x00", "\u2400")


class JsonField(WordsField):
    """A JSON object or list; an empty field is ``None``. The error names the line that is wrong."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.Textarea(attrs={"rows": 4}))
        super().__init__(**kwargs)
        self.widget.attrs |= {"class": "code", "spellcheck": "false", "autocapitalize": "off"}

    def clean(self, value: object) -> Json:
        text = super().clean(value)
        return _object_or_list(text) if text else None

    def prepare_value(self, value: Json) -> str | None:
        """The typed text unchanged, or a stored value indented for reading."""
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False, indent=2)

    def has_changed(self, initial: object, data: object) -> bool:
        return bool(self.prepare_value(initial) != data)


def _object_or_list(text: str) -> Json:
    try:
        json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise forms.ValidationError(
            gettext("Invalid JSON on line %(line)d: %(problem)s."),
            params={"problem": error.msg[:1].lower() + error.msg[1:], "line": error.lineno},
        ) from None
    except RecursionError:
        raise forms.ValidationError(gettext("This JSON is nested too deeply.")) from None
    except ValueError:
        raise forms.ValidationError(
            gettext("This JSON contains a number that servers don’t accept.")
        ) from None
    try:
        value = scrub(read_json(text)[0])
    except NotJson:
        raise forms.ValidationError(gettext("This JSON is nested too deeply.")) from None
    if not isinstance(value, dict | list):
        raise forms.ValidationError(gettext("Enter a JSON object {…} or a list […]."))
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


class Sentences(forms.Form):
    """A form whose error is one sentence beside the composer."""

    def first_error(self) -> str:
        for name, errors in self.errors.items():
            # Names of parameters contain a hyphen. Their errors need the label to be understood.
            is_parameter = "-" in name and name in self.fields
            if not is_parameter:
                return str(errors[0])
            return gettext("%(field)s: %(error)s") % {
                "field": self.fields[name].label,
                "error": errors[0],
            }
        return ""
