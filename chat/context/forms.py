"""Forms of the choice what is sent."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from chat.web.forms import Sentences

RELOAD = gettext_lazy("Reload the page and try again.")
_UNREADABLE = {"required": RELOAD, "invalid": RELOAD}


class StartForm(Sentences):
    """The message with which the context is to start; none for the whole conversation."""

    start = forms.UUIDField(required=False, error_messages=_UNREADABLE)


class SummaryForm(Sentences):
    """A request for a summary below the answer ``parent``; the choice of the model comes with the composer's fields."""

    key = forms.UUIDField(error_messages=_UNREADABLE)
    parent = forms.UUIDField(required=False, error_messages=_UNREADABLE)
