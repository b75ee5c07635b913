"""Forms of prompts: their text, the settings of their variables, and the values to insert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.formats import date_format
from django.utils.translation import gettext, gettext_lazy

from chat.models import Team, VariableKind
from chat.prompts.variables import Variable, names_in
from chat.web.forms import NameField, WordsField

TEXT_LENGTH = 100_000
VALUE_LENGTH = 100_000
MOST_VARIABLES = 30
MOST_CHOICES = 50


class PromptForm(forms.Form):
    name = NameField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Type / and part of the name in a message to insert the prompt."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    text = WordsField(
        label=gettext_lazy("Text"),
        max_length=TEXT_LENGTH,
        widget=forms.Textarea(attrs={"rows": 10, "dir": "auto"}),
        help_text=gettext_lazy(
            "Write {{customer}} where something is filled in when the prompt is used."
        ),
    )

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if len(names_in(text)) > MOST_VARIABLES:
            words = gettext("A prompt can have up to %(count)d variables.")
            raise forms.ValidationError(words % {"count": MOST_VARIABLES})
        return text


class NewPromptForm(PromptForm):
    team = forms.ModelChoiceField(
        label=gettext_lazy("Who can use it"),
        queryset=Team.objects.none(),
        to_field_name="public_id",
        required=False,
        empty_label=gettext_lazy("Only me"),
    )
    field_order = ("team", "name", "text")

    def __init__(self, data: Any = None, *, teams: QuerySet[Team], **more: Any) -> None:
        super().__init__(data, **more)
        self.fields["team"].queryset = teams


class VariableForm(forms.Form):
    """The settings of one variable. Its prefix has the variable's name, so that each keeps its values while the text
    around it changes."""

    kind = forms.TypedChoiceField(
        label=gettext_lazy("Type"),
        choices=VariableKind.choices,
        coerce=VariableKind,
        required=False,
        empty_value=VariableKind.TEXT,
    )
    choices = WordsField(
        label=gettext_lazy("Choices, one per line"),
        max_length=5_000,
        error_messages={"required": gettext_lazy("Enter at least one choice.")},
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
    )
    default = WordsField(
        label=gettext_lazy("Default"),
        required=False,
        max_length=1_000,
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}),
    )

    def __init__(self, data: Any, variable: Variable) -> None:
        super().__init__(
            data,
            prefix=f"variable-{variable.name}",
            initial={
                "kind": variable.kind,
                "choices": "\n".join(variable.choices),
                "default": variable.default,
            },
        )
        self.variable_name = variable.name
        self.fields["choices"].required = self.is_choice

    @property
    def is_choice(self) -> bool:
        return self["kind"].value() == VariableKind.CHOICE

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        lines = (line.strip() for line in cleaned.get("choices", "").split("\n"))
        choices = tuple(dict.fromkeys(filter(None, lines)))
        if len(choices) > MOST_CHOICES:
            words = gettext("Enter up to %(count)d choices.")
            self.add_error("choices", words % {"count": MOST_CHOICES})
        self.variable = Variable(
            name=self.variable_name,
            kind=cleaned.get("kind") or VariableKind.TEXT,
            choices=choices if cleaned.get("kind") == VariableKind.CHOICE else (),
            default=cleaned.get("default", ""),
        )
        if not self.errors and not _accepts_default(self.variable):
            self.add_error("default", gettext("The default doesn’t fit the type."))
        return cleaned


def variable_forms(data: Any, variables: Iterable[Variable]) -> list[VariableForm]:
    return [VariableForm(data, variable) for variable in variables]


class FillForm(forms.Form):
    """The values of a prompt's variables. What is left empty is inserted as nothing."""

    def __init__(self, data: Any, variables: Sequence[Variable]) -> None:
        super().__init__(data)
        self._names: dict[str, str] = {}
        for number, variable in enumerate(variables):
            # Names may be anything that a person writes, such as the name of a method of a form.
            key = f"value-{number}"
            self._names[key] = variable.name
            self.fields[key] = field_for(variable)

    def values(self) -> Mapping[str, str]:
        return {name: _in_text(self.cleaned_data[key]) for key, name in self._names.items()}


def field_for(variable: Variable) -> forms.Field:
    shared: dict[str, Any] = {
        "label": variable.name,
        "required": False,
        "initial": variable.default,
    }
    match variable.kind:
        case VariableKind.LINES:
            area = forms.Textarea(attrs={"rows": 4, "dir": "auto"})
            return WordsField(max_length=VALUE_LENGTH, widget=area, **shared)
        case VariableKind.NUMBER:
            return forms.DecimalField(widget=forms.NumberInput(attrs={"step": "any"}), **shared)
        case VariableKind.DATE:
            return forms.DateField(
                input_formats=["%Y-%m-%d"],
                widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
                **shared,
            )
        case VariableKind.CHOICE:
            choices = [(each, each) for each in variable.choices]
            return forms.ChoiceField(choices=choices, **{**shared, "required": True})
        case VariableKind.TEXT:
            line = forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"})
            return WordsField(max_length=VALUE_LENGTH, widget=line, **shared)


def _accepts_default(variable: Variable) -> bool:
    if not variable.default:
        return True
    try:
        field_for(variable).clean(variable.default)
    except forms.ValidationError:
        return False
    return True


def _in_text(value: str | Decimal | date | None) -> str:
    if value is None:
        return ""
    return date_format(value) if isinstance(value, date) else str(value)
