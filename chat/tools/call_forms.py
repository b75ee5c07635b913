"""The forms with which people decide about calls that Tributary runs."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.utils.translation import gettext, gettext_lazy

from chat.events import Json, JsonObject
from chat.web.forms import JsonField, Sentences, WordsField

REASON_LENGTH = 2000


class ApproveForm(Sentences):
    """The arguments as JSON. Without the field, the call runs with those that the model asked for."""

    arguments = JsonField(required=False, max_length=settings.TOOL_RESULT_BYTES)
    always = forms.BooleanField(required=False)
    # For calls with an account; without the field, the tool's default holds.
    result = forms.ChoiceField(required=False, choices=[("share", ""), ("private", "")])

    @property
    def keeps_private(self) -> bool | None:
        said = self.cleaned_data["result"]
        return said == "private" if said else None

    def clean_arguments(self) -> JsonObject | None:
        value: Json = self.cleaned_data["arguments"]
        if value is None:
            return {} if "arguments" in self.data else None
        if not isinstance(value, dict):
            raise forms.ValidationError(gettext("Enter the arguments as a JSON object {…}."))
        return value


class RefuseForm(Sentences):
    reason = WordsField(label=gettext_lazy("Reason"), required=False, max_length=REASON_LENGTH)
    never = forms.BooleanField(required=False)


class CallResultForm(Sentences):
    """The result that a person gives for a call that may have run."""

    output = WordsField(required=False, strip=False, max_length=settings.TOOL_RESULT_BYTES)
    is_error = forms.BooleanField(required=False)


class ChosenToolForm(forms.Form):
    tool = forms.UUIDField()
