"""Form fields for what a dialect declares: one for each option and parameter, by its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django import forms
from django.utils.translation import gettext

from chat.dialects.base import Dialect
from chat.dialects.parameters import Parameter
from chat.web.parameter_fields import FieldStyle, parameter_field

OPTION_PREFIX = "option_"
CLEAR_PREFIX = "clear_option_"
PARAMETER_PREFIX = "parameter_"
_PLAIN_TYPING = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
_CODE = _PLAIN_TYPING | {"class": "code"}
STYLE = FieldStyle(
    text=forms.TextInput(attrs=_PLAIN_TYPING),
    text_limit=500,
    lines=forms.Textarea(attrs=_CODE | {"rows": 6}),
    # Room for a prompt template, or a list of MCP servers with their headers.
    lines_limit=20_000,
)


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
    field = parameter_field(option, STYLE, no_choice=_default_label(option))
    if option.is_secret:
        field.widget = (
            UnseenTextarea(attrs=_CODE | {"rows": 4})
            if option.kind in ("lines", "json")
            else forms.PasswordInput(attrs=_PLAIN_TYPING | {"autocomplete": "new-password"})
        )
    return field


def as_initial(option: Parameter, value: object) -> object:
    """A stored value, or the default, as its field shows it."""
    if option.is_secret:
        return None
    if not option.accepts(value):
        value = None
    if not is_prefilled(option):
        return str(value).lower() if isinstance(value, bool) else value
    return option.default if value is None else value


def is_prefilled(option: Parameter) -> bool:
    """Returns whether the field shows the default itself; in a list the first entry stands for it."""
    return option.kind not in ("choice", "boolean")


def _default_label(option: Parameter) -> str:
    if option.default is None:
        return gettext("Default")
    if isinstance(option.default, bool):
        return gettext("Default (On)") if option.default else gettext("Default (Off)")
    value = gettext(option.choice_label(str(option.default)))
    return gettext("Default (%(value)s)") % {"value": value}


class UnseenTextarea(forms.Textarea):
    """Takes a secret of several lines and never shows one, not even what was just typed."""

    def format_value(self, value: object) -> str:
        return ""
