"""The forms of a team's tools: their definition, and which are enabled."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from chat.core.errors import ActionRefused
from chat.models import Tool
from chat.tools.actions import DESCRIPTION_LENGTH, NAME, read_schema
from chat.web.forms import JsonField, WordsField

EXAMPLE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where to measure"},
        "unit": {"type": "string", "enum": ["metres", "feet"]},
    },
    "required": ["city"],
}


class ToolForm(forms.Form):
    """What a model is told about a tool. The action validates all of it."""

    name = forms.RegexField(
        label="Name",
        regex=rf"^(?:{NAME.pattern})$",
        widget=forms.TextInput(attrs={"autocapitalize": "off", "spellcheck": "false"}),
        error_messages={
            "invalid": "1 to 64 letters, digits, underscores and dashes, and nothing else."
        },
        help_text="Letters, digits, underscores and dashes, such as river_level.",
    )
    description = WordsField(
        label="What it does",
        required=False,
        max_length=DESCRIPTION_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="The model decides by this text when to call it.",
    )
    schema = JsonField(
        label="Arguments",
        required=False,
        widget=forms.Textarea(attrs={"rows": 12}),
        help_text="A JSON Schema of type object. Empty: the tool takes no arguments.",
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
