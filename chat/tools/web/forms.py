"""The form that turns a team's web search on: one address, or one key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.core.errors import ActionRefused
from chat.models import SearchService, Tool, ToolKind, ToolRule
from chat.tools.http_definition import ADDRESS_LENGTH
from chat.tools.web.actions import ADDRESSES, KEY_LENGTH, checked_address, checked_key

SERVICES: Mapping[str, str | Promise] = {
    SearchService.SEARXNG: gettext_lazy("A search engine that you host. It needs no key."),
    SearchService.BRAVE: gettext_lazy("Searches go to Brave with your key."),
    SearchService.TAVILY: gettext_lazy("Searches go to Tavily with your key."),
}
_TYPED = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}


class WebSearchForm(forms.Form):
    """The service, its address or key, and when the two tools run. A stored key is never shown."""

    service = forms.ChoiceField(
        label=gettext_lazy("Search service"),
        choices=SearchService.choices,
        initial=SearchService.SEARXNG,
        widget=forms.RadioSelect,
    )
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=ADDRESS_LENGTH,
        widget=forms.TextInput(attrs={**_TYPED, "inputmode": "url"}),
        help_text=gettext_lazy(
            "The address of your SearXNG server, such as https://search.example.com. Its settings have to allow "
            "answers in JSON."
        ),
    )
    key = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=KEY_LENGTH,
        widget=forms.PasswordInput(attrs=_TYPED),
        help_text=gettext_lazy("It is stored encrypted and never shown again."),
    )
    rule = forms.ChoiceField(
        label=gettext_lazy("When searches run"), choices=ToolRule.choices, initial=ToolRule.AUTO
    )
    page_rule = forms.ChoiceField(
        label=gettext_lazy("When models read pages"),
        choices=ToolRule.choices,
        initial=ToolRule.ASK,
        help_text=gettext_lazy(
            "The model chooses the address, and can put words of the conversation into it."
        ),
    )

    def __init__(self, data: Any = None, *, tools: Mapping[str, Tool]) -> None:
        super().__init__(data, initial=_initial(tools), label_suffix="")
        search = tools.get(ToolKind.SEARCH)
        self._stored = search.request if search else None
        service = str((data or {}).get("service", ""))
        if data:
            # Each service has one of them.
            self.fields["address"].required = service not in ADDRESSES
            self.fields["key"].required = service in ADDRESSES and not self._keeps_key(service)
        if self._stored is not None and self._stored.has_headers:
            self.fields["key"].required = self.fields["key"].required and bool(data)
            self.fields["key"].help_text = gettext_lazy(
                "The stored key is never shown. Leave this empty to keep it."
            )

    def _keeps_key(self, service: str) -> bool:
        stored = self._stored
        return stored is not None and stored.has_headers and stored.service == service

    @property
    def service_choices(self) -> list[tuple[forms.boundfield.BoundWidget, str | Promise]]:
        """The choices, each with its sentence."""
        return [(choice, SERVICES[str(choice.data["value"])]) for choice in self["service"]]

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        service = str(said.get("service", ""))
        if service == SearchService.SEARXNG and said.get("address"):
            self._check("address", lambda: checked_address(service, said["address"]))
        elif service != SearchService.SEARXNG and said.get("key"):
            self._check("key", lambda: checked_key(said["key"]))
        return said

    def _check(self, name: str, check: Any) -> None:
        try:
            check()
        except ActionRefused as refusal:
            self.add_error(name, str(refusal))


def _initial(tools: Mapping[str, Tool]) -> dict[str, object]:
    search, page = tools.get(ToolKind.SEARCH), tools.get(ToolKind.PAGE)
    if search is None:
        return {}
    service = search.request.service
    return {
        "service": service,
        "address": "" if service in ADDRESSES else search.request.address,
        "rule": search.rule,
        "page_rule": page.rule if page else ToolRule.OFF,
    }
