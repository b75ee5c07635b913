"""The forms of a team's tools: their definition, and when they run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.core.errors import ActionRefused
from chat.models import Tool, ToolKind, ToolRule
from chat.tools.actions import (
    DESCRIPTION_LENGTH,
    NAME,
    CallTraits,
    HttpRequestValues,
    read_schema,
)
from chat.tools.http_definition import (
    ADDRESS_LENGTH,
    METHODS,
    check_address,
    read_headers,
)
from chat.tools.server_forms import WrittenOnly
from chat.tools.server_headers import HEADERS_LENGTH
from chat.web.forms import JsonField, WordsField

EXAMPLE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where to measure"},
        "unit": {"type": "string", "enum": ["meters", "feet"]},
    },
    "required": ["city"],
}
EXAMPLE_ADDRESS = "https://api.example.com/rivers/{city}/level"

# The kinds of tools that people define on this page.
KINDS: Mapping[str, tuple[str | Promise, str | Promise]] = {
    ToolKind.PERSON: (
        gettext_lazy("A person gives the result"),
        gettext_lazy("Somebody in the conversation looks it up and types the result."),
    ),
    ToolKind.HTTP: (
        gettext_lazy("HTTP request"),
        gettext_lazy("Tributary calls an address of yours, and the model gets what it returns."),
    ),
}
RULES: Mapping[str, str | Promise] = {
    ToolRule.OFF: gettext_lazy("Nobody can enable it, and no call runs."),
    ToolRule.ASK: gettext_lazy(
        "Somebody who can write in the conversation approves each call and may edit its arguments."
    ),
    ToolRule.AUTO_PRIVATE: gettext_lazy(
        "It runs by itself where only the person who asked reads the conversation, and asks "
        "everywhere else."
    ),
    ToolRule.AUTO: gettext_lazy("Every call runs by itself. Best for tools that only read."),
}


class ToolForm(forms.Form):
    """The definition of a tool that a model gets, and what runs it. The action validates all of it."""

    # Cleaned in this order: whether there is an address depends on the kind.
    field_order = ("kind",)

    rule = forms.ChoiceField(
        label=gettext_lazy("When it runs"),
        choices=ToolRule.choices,
        initial=ToolRule.ASK,
        # Without one it asks.
        required=False,
        widget=forms.RadioSelect,
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("What gives the result"),
        choices=[(kind, words) for kind, (words, _) in KINDS.items()],
        initial=ToolKind.PERSON,
        required=False,
        widget=forms.RadioSelect,
    )
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
    method = forms.ChoiceField(
        label=gettext_lazy("Method"),
        choices=[(method, method) for method in METHODS],
        help_text=gettext_lazy(
            "GET reads something. The others usually change something, and send the arguments as JSON."
        ),
    )
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=ADDRESS_LENGTH,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "off",
                "autocapitalize": "none",
                "spellcheck": "false",
                "inputmode": "url",
            }
        ),
        help_text=gettext_lazy(
            "Write {name} where the value of an argument belongs, such as "
            "https://api.example.com/rivers/{city}/level. The other arguments are added by themselves."
        ),
    )
    headers = WordsField(
        label=gettext_lazy("Headers"),
        required=False,
        max_length=HEADERS_LENGTH,
        widget=WrittenOnly(
            attrs={
                "rows": 2,
                "class": "code",
                "autocomplete": "off",
                "autocapitalize": "off",
                "spellcheck": "false",
            }
        ),
        help_text=gettext_lazy(
            "One per line, such as “Authorization: Bearer …”. They are stored encrypted and never "
            "shown again, to nobody, and the model doesn’t get them."
        ),
    )
    clear_headers = forms.BooleanField(
        label=gettext_lazy("Remove the stored headers"), required=False
    )
    schema = JsonField(
        label=gettext_lazy("Arguments"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 12}),
        help_text=gettext_lazy(
            "A JSON Schema whose type is “object”. Leave empty for a tool without arguments."
        ),
    )
    is_read_only = forms.BooleanField(label=gettext_lazy("Only reads"), required=False)
    is_idempotent = forms.BooleanField(label=gettext_lazy("May be repeated safely"), required=False)
    is_destructive = forms.BooleanField(
        label=gettext_lazy("Changes or deletes things"), required=False
    )

    def __init__(
        self, data: Any = None, *, tool: Tool | None = None, kinds: Collection[str] = KINDS
    ) -> None:
        super().__init__(data, initial=_initial(tool) if tool else {})
        # Only what is shown: the action refuses a kind that the person may not define.
        self.fields["kind"].widget.choices = [(kind, KINDS[kind][0]) for kind in kinds]
        self.has_stored_headers = bool(
            tool and tool.kind == ToolKind.HTTP and tool.request.has_headers
        )
        if not self.has_stored_headers:
            del self.fields["clear_headers"]
        if self.is_bound and self.data.get("kind") != ToolKind.HTTP:
            for name in ("method", "address"):
                self.fields[name].required = False

    @property
    def rule_choices(self) -> list[tuple[forms.boundfield.BoundWidget, str | Promise]]:
        """The choices, each with its sentence."""
        return [(choice, RULES[str(choice.data["value"])]) for choice in self["rule"]]

    @property
    def has_lost_headers(self) -> bool:
        """True if the refused form had headers, which have to be entered again."""
        return self.is_bound and bool(self.data.get("headers"))

    @property
    def kind_choices(self) -> list[tuple[forms.boundfield.BoundWidget, str | Promise]]:
        """The choices, each with its sentence."""
        return [(choice, KINDS[str(choice.data["value"])][1]) for choice in self["kind"]]

    @property
    def is_http(self) -> bool:
        return self.cleaned_data.get("kind") == ToolKind.HTTP

    def clean_schema(self) -> str:
        """Returns the text: what is stored is what the action parses from it."""
        value = self.cleaned_data["schema"]
        text = "" if value is None else json.dumps(value)
        try:
            read_schema(text)
        except ActionRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None
        return text

    def clean_address(self) -> str:
        address = str(self.cleaned_data["address"])
        if not self.is_http:
            return address
        return self._checked(check_address, address)

    def clean_headers(self) -> str:
        text = str(self.cleaned_data["headers"])
        if self.is_http:
            self._checked(read_headers, text)
        return text

    def _checked(self, check: Any, text: str) -> Any:
        try:
            return check(text)
        except ActionRefused as refusal:
            raise forms.ValidationError(str(refusal)) from None

    def values(self) -> dict[str, Any]:
        """The valid form as the actions take it."""
        said = self.cleaned_data
        return {
            "name": said["name"],
            "description": said["description"],
            "schema": said["schema"],
            "rule": said["rule"] or ToolRule.ASK,
            "traits": CallTraits(
                is_read_only=said["is_read_only"],
                is_idempotent=said["is_idempotent"],
                is_destructive=said["is_destructive"],
            ),
            "request": HttpRequestValues(
                method=said["method"] or METHODS[0],
                address=said["address"],
                headers=said["headers"],
                clear_headers=bool(said.get("clear_headers")),
            )
            if self.is_http
            else None,
        }


def _initial(tool: Tool) -> dict[str, object]:
    names = ("kind", "name", "description", "schema", "rule")
    traits = ("is_read_only", "is_idempotent", "is_destructive")
    initial = {name: getattr(tool, name) for name in (*names, *traits)}
    if tool.kind == ToolKind.HTTP:
        initial |= {"method": tool.request.method, "address": tool.request.address}
    return initial
