"""The form of a tool server."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from chat.core.errors import ActionRefused
from chat.models import ToolServer
from chat.tools.server_headers import (
    ADDRESS_LENGTH,
    HEADERS_LENGTH,
    check_address,
    read_headers,
)
from chat.tools.servers import NAME_LENGTH


class WrittenOnly(forms.Textarea):
    """A text that is not sent back, also not with an error beside it."""

    def format_value(self, value: object) -> None:
        return None


class ToolServerForm(forms.Form):
    """Name, address and headers. Stored headers are never shown."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Shown on the cards of its tools, such as “Office calendar”."),
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
            "The address of an MCP server with streamable HTTP, such as https://tools.example.com/mcp."
        ),
    )
    headers = forms.CharField(
        label=gettext_lazy("Headers"),
        required=False,
        max_length=HEADERS_LENGTH,
        widget=WrittenOnly(
            attrs={
                "rows": 3,
                "class": "code",
                "autocomplete": "off",
                "autocapitalize": "none",
                "spellcheck": "false",
            }
        ),
        help_text=gettext_lazy(
            "One a line, such as “Authorization: Bearer …” with the server’s key. They are stored encrypted and "
            "never shown again."
        ),
    )
    signs_in_people = forms.BooleanField(
        label=gettext_lazy("Each person signs in at this server"),
        required=False,
        help_text=gettext_lazy(
            "Calls use the account of the person who asked (OAuth). Nobody shares a key, and there are no headers."
        ),
    )
    clear_headers = forms.BooleanField(
        label=gettext_lazy("Remove the stored headers"), required=False
    )

    def __init__(
        self,
        data: Any = None,
        *,
        server: ToolServer | None = None,
        commands: Collection[str] = (),
    ) -> None:
        """``commands``: the names of those that the person may use."""
        initial = (
            {
                "name": server.name,
                "address": server.address,
                "signs_in_people": server.signs_in_people,
            }
            if server
            else None
        )
        super().__init__(data, initial=initial, label_suffix="")
        self.has_stored_headers = server is not None and server.has_headers
        if not self.has_stored_headers:
            del self.fields["clear_headers"]
        else:
            self.fields["headers"].help_text = gettext_lazy(
                "The stored headers are encrypted and never shown. Leave this empty to keep them; what you enter "
                "replaces all of them."
            )
        if commands:
            text = gettext(
                "Or a command of this installation, as command:name. There is: %(names)s."
            )
            field = self.fields["address"]
            field.help_text = f"{field.help_text} {text % {'names': ', '.join(sorted(commands))}}"
        if server is not None and server.is_demo:
            self.fields["address"].disabled = True

    def clean_address(self) -> str:
        return _refused_as_error(check_address, self.cleaned_data["address"])

    def clean_headers(self) -> dict[str, str]:
        return _refused_as_error(read_headers, self.cleaned_data["headers"])

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        if said.get("signs_in_people") and said.get("headers"):
            self.add_error(
                "headers",
                gettext("Leave the headers empty if each person signs in."),
            )
        return said

    @property
    def new_headers(self) -> dict[str, str] | None:
        """The headers to store; ``None`` keeps the stored ones."""
        typed: dict[str, str] = self.cleaned_data["headers"]
        return typed if typed or self.cleaned_data.get("clear_headers") else None


def _refused_as_error(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ActionRefused as refusal:
        raise forms.ValidationError(str(refusal)) from None
