"""Form fields for the parameters and options that dialects declare, by their kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.dialects.parameters import Parameter
from chat.web.forms import JsonField, WordsField


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldStyle:
    """How a form shows parameters that are texts: short ones (``text``), and ``lines`` or JSON."""

    text: forms.Widget
    text_limit: int
    lines: forms.Widget
    lines_limit: int


def parameter_field(
    parameter: Parameter, style: FieldStyle, *, no_choice: str | Promise
) -> forms.Field:
    """A field that accepts what the parameter declares. An empty value means the default, for which
    lists have the entry ``no_choice``."""
    common: dict[str, Any] = {
        "label": gettext_lazy(parameter.label),
        # Gettext would return the head of the catalogue for an empty text.
        "help_text": gettext_lazy(parameter.help) if parameter.help else "",
        "required": False,
    }
    limits = {"min_value": parameter.minimum, "max_value": parameter.maximum}
    lines = {"max_length": style.lines_limit, "widget": style.lines}
    match parameter.kind:
        case "number":
            field = forms.FloatField(**common, **limits)
            field.widget.attrs["step"] = parameter.step or "any"
            return field
        case "integer":
            whole = {name: None if value is None else int(value) for name, value in limits.items()}
            return forms.IntegerField(**common, **whole)
        case "choice":
            labels = [(each, parameter.choice_label(each)) for each in parameter.choices]
            choices = [(each, gettext_lazy(label)) for each, label in labels]
            return forms.ChoiceField(**common, choices=[("", no_choice), *choices])
        case "boolean":
            on_or_off = [("true", gettext_lazy("On")), ("false", gettext_lazy("Off"))]
            return forms.TypedChoiceField(
                **common,
                choices=[("", no_choice), *on_or_off],
                coerce=lambda value: value == "true",
                empty_value=None,
            )
        case "text":
            return forms.CharField(**common, max_length=style.text_limit, widget=style.text)
        case "lines":
            return WordsField(**common, **lines, strip=False)
        case "json":
            return JsonField(**common, **lines)
