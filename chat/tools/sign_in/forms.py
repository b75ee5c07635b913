"""The form with which an administrator enters a client id."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from chat.tools.sign_in.clients import ID_LENGTH, SECRET_LENGTH
from chat.tools.sign_in.metadata import ADDRESS_LENGTH
from chat.web.forms import Sentences


class ClientForm(Sentences):
    """The id and the secret that a sign-in server has given this installation."""

    # The sign-in server that the person has seen.
    issuer = forms.CharField(max_length=ADDRESS_LENGTH, widget=forms.HiddenInput)
    client_id = forms.CharField(
        label=gettext_lazy("Client ID"),
        max_length=ID_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    client_secret = forms.CharField(
        label=gettext_lazy("Client secret"),
        required=False,
        max_length=SECRET_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Stored encrypted and never shown again."),
    )
