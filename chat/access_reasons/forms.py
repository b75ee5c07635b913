"""The form in which an administrator gives a reason."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from chat.models import AccessReason

REASON_LENGTH = AccessReason._meta.get_field("reason").max_length


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=REASON_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto", "autofocus": True}),
    )
