"""Form fields for what a dialect declares: one for each option and parameter, by its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from chat.dialects.base import Dialect
from chat.dialects.parameters import Parameter

OPTION_PREFIX = "option_"
CLEAR_PREFIX = "clear_option_"
PARAMETER_PREFIX = "parameter_"
TEXT_LIMIT = 500
# Enough for a prompt template, or a list of MCP servers with their headers.
LONG_TEXT_LIMIT = 20_000

_PLAIN_TYPING = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}


def options_of(dialect: Dialect | None) -> tuple[Parameter, ...]:
    return tuple(getattr(dialect, "options", ()))


def parameters_of(dialect: Dialect | None) -> tuple[Parameter, ...]:
    return tuple(getattr(dialect, "parameters", ()))


def secret_names(dialect: Dialect | None) -> frozenset[str]:
    return frozenset(option.name for option in options_of(dialect) if option.is_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option on the page. A secret one never shows its value, only that there is one, and
    offers to clear it."""

    field: forms.BoundField
    is_secret: bool
    clear: forms.BoundField | None = None

    @property
    def is_stored(self) -> bool:
        return self.clear is not None


def option_fields(dialect: Dialect | None, *, stored: Iterable[str]) -> dict[str, forms.Field]:
    """The fields by name, in the dialect's order; ``stored`` names the secrets that have a
    value."""
    fields: dict[str, forms.Field] = {}
    for option in options_of(dialect):
        fields[OPTION_PREFIX + option.name] = option_field(option)
        if option.is_secret and option.name in stored:
            fields[CLEAR_PREFIX + option.name] = forms.BooleanField(
                required=False, label=gettext("Remove the stored value")
            )
    return fields


def parameter_fields(dialect: Dialect | None) -> dict[str, forms.Field]:
    return {PARAMETER_PREFIX + each.name: option_field(each) for each in parameters_of(dialect)}


def chosen(
    declared: Iterable[Parameter], prefix: str, cleaned: Mapping[str, object]
) -> dict[str, object]:
    """The values of the declared fields. A value that equals the default is not stored."""
    values = {each.name: cleaned.get(prefix + each.name) for each in declared}
    defaults = {each.name: each.default for each in declared if is_prefilled(each)}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value != "" and value != defaults.get(name)
    }


def initial_of(
    declared: Iterable[Parameter],
    prefix: str,
    *,
    stored: Mapping[str, object],
    typed: Mapping[str, object],
) -> dict[str, object]:
    """The initial values: what was typed under the name, else what is stored."""
    return {
        prefix + each.name: typed[prefix + each.name]
        if prefix + each.name in typed and not each.is_secret
        else as_initial(each, stored.get(each.name))
        for each in declared
    }


def option_rows(form: forms.Form, dialect: Dialect | None) -> list[OptionRow]:
    return [
        OptionRow(
            field=form[OPTION_PREFIX + option.name],
            is_secret=option.is_secret,
            clear=form[name] if (name := CLEAR_PREFIX + option.name) in form.fields else None,
        )
        for option in options_of(dialect)
    ]


def option_field(option: Parameter) -> forms.Field:
    """A field for one declared option; an empty value always means the dialect's default."""
    field = _FIELDS[option.kind](option)
    if option.is_secret:
        field.widget = _hidden_widget(option)
    return field


def as_initial(option: Parameter, value: object) -> object:
    """A stored value, or the default, as its field shows it."""
    if option.is_secret:
        return None
    if not option.accepts(value):
        value = None
    if not is_prefilled(option):
        return str(value).lower() if isinstance(value, bool) else value
    shown = option.default if value is None else value
    if option.kind == "json" and isinstance(shown, dict | list):
        return json.dumps(shown, indent=2, ensure_ascii=False)
    return shown


def is_prefilled(option: Parameter) -> bool:
    """Whether the field shows the default itself; in a list the first entry stands for it."""
    return option.kind not in ("choice", "boolean")


# --- one per kind ------------------------------------------------------------------


def _number(option: Parameter) -> forms.Field:
    return forms.FloatField(**_common(option), min_value=option.minimum, max_value=option.maximum)


def _integer(option: Parameter) -> forms.Field:
    return forms.IntegerField(**_common(option), min_value=option.minimum, max_value=option.maximum)


def _choice(option: Parameter) -> forms.Field:
    choices = [
        ("", _default_label(option)),
        *((each, gettext(option.choice_label(each))) for each in option.choices),
    ]
    return forms.ChoiceField(**_common(option), choices=choices)


def _boolean(option: Parameter) -> forms.Field:
    return forms.TypedChoiceField(
        **_common(option),
        choices=[
            ("", _default_label(option)),
            ("true", gettext("On")),
            ("false", gettext("Off")),
        ],
        coerce=lambda value: value == "true",
        empty_value=None,
    )


def _text(option: Parameter) -> forms.Field:
    widget = forms.TextInput(attrs=_PLAIN_TYPING)
    return forms.CharField(**_common(option), max_length=TEXT_LIMIT, widget=widget)


def _lines(option: Parameter) -> forms.Field:
    return LinesField(**_common(option), max_length=LONG_TEXT_LIMIT, strip=False, widget=_area(6))


def _json(option: Parameter) -> forms.Field:
    return JsonTextField(**_common(option), max_length=LONG_TEXT_LIMIT, widget=_area(6))


_FIELDS: dict[str, Callable[[Parameter], forms.Field]] = {
    "number": _number,
    "integer": _integer,
    "choice": _choice,
    "boolean": _boolean,
    "text": _text,
    "lines": _lines,
    "json": _json,
}


def _common(option: Parameter) -> dict[str, object]:
    return {
        "label": gettext(option.label),
        "help_text": gettext(option.help),
        "required": False,
    }


def _default_label(option: Parameter) -> str:
    if option.default is None:
        return gettext("Default")
    if isinstance(option.default, bool):
        return gettext("Default (On)") if option.default else gettext("Default (Off)")
    value = gettext(option.choice_label(str(option.default)))
    return gettext("Default (%(value)s)") % {"value": value}


def _area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={**_PLAIN_TYPING, "rows": rows, "class": "code"})


def _hidden_widget(option: Parameter) -> forms.Widget:
    if option.kind in ("lines", "json"):
        return UnseenTextarea(attrs={**_PLAIN_TYPING, "rows": 4, "class": "code"})
    return forms.PasswordInput(
        render_value=False, attrs={"autocomplete": "new-password", "spellcheck": "false"}
    )


class UnseenTextarea(forms.Textarea):
    """Takes a secret of several lines and never shows one, not even what was just typed."""

    def format_value(self, value: object) -> str:
        return ""


class LinesField(forms.CharField):
    """A text whose line ends are LF, however the browser sent them."""

    def to_python(self, value: object) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n").replace("\r", "\n")


class JsonTextField(forms.CharField):
    """A JSON object or list, typed as text. The value is the object or list, or ``None``."""

    def clean(self, value: object) -> dict[str, object] | list[object] | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            found = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise ValidationError(_where(error)) from None
        if not isinstance(found, dict | list):
            raise ValidationError(gettext("Enter a JSON object {…} or a list […]."))
        return found


def _no_number(name: str) -> object:
    raise ValueError(name)


def _where(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        place = {"line": error.lineno, "column": error.colno}
        return gettext("This isn’t valid JSON: see line %(line)d, column %(column)d.") % place
    return gettext("This isn’t valid JSON.")
