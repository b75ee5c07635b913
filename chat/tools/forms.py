"""The forms of a team's tools: their definition, and which are enabled."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from chat.core.errors import ActionRefused
from chat.models import Tool
from chat.tools.actions import DESCRIPTION_LENGTH, NAME, read_schema
from chat.web.forms import JsonField, WordsField

EXAMPLE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where to measure"},
        "unit": {"type": "string", "enum": ["meters", "feet"]},
    },
    "required": ["city"],
}


class ToolForm(forms.Form):
    """The definition of a tool that a model gets. The action validates all of it."""

    name = forms.RegexField(
        label=gettext_lazy("Name"),
        regex=rf"^(?:{NAME.pattern})$",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "spellcheck": "false"}),
        error_messages={
            "invalid": gettext_lazy("Use 1 to 64 letters, digits, underscores and dashes.")
        },
        help_text=gettext_lazy("Letters, digits, underscores and dashes, such as river_level."),
    )
    description = WordsField(
        label=gettext_lazy("Description"),
        required=False,
        max_length=DESCRIPTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy(
            "What the tool does. The model uses this to decide when to call it."
        ),
    )
    schema = JsonField(
        label=gettext_lazy("Arguments"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 12}),
        help_text=gettext_lazy(
            "A JSON Schema whose type is “object”. Leave empty for a tool without arguments."
        ),
    )

    @classmethod
    def of(cls, tool: Tool, data: Any = None) -> ToolForm:
        initial = {"name": tool.name, "description": tool.description, "schema": tool.schema}
        return cls(data, initial=initial)

    def clean_schema(self) -> str:
        """Returns the text: what is stored is what the action parses from it."""
        value = self.cleaned_data["schema"]
        text = "" if value is None else json.dumps(value)
        try:
            read_schema(text)
        except ActionRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None
        return text
