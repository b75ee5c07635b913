"""The form that chooses of which kinds of entries the browser notifies a person."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from chat.models import User
from chat.web.inbox_sources import inbox_sources


def notified_kinds() -> list[tuple[str, str]]:
    """The kinds with their names."""
    return [(source.kind, str(source.label)) for source in inbox_sources() if source.notice]


def muted_kinds(user: User) -> list[str]:
    return user.muted_kinds.split()


class NotificationForm(forms.Form):
    kinds = forms.MultipleChoiceField(
        label=gettext_lazy("Notify me about"),
        choices=notified_kinds,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    def muted_kinds(self) -> str:
        chosen = self.cleaned_data["kinds"]
        return " ".join(kind for kind, _ in notified_kinds() if kind not in chosen)
