"""Forms for changes of conversations: which ones, and for some changes a title or a place."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms

# A page shows fewer.
MOST_CHOSEN = 200


class ChosenField(forms.Field):
    """Ids of conversations, from any number of fields with this name."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> list[UUID]:
        try:
            return [UUID(each) for each in (value or [])[:MOST_CHOSEN]]
        except ValueError:
            raise forms.ValidationError("no ids") from None


class ChangeForm(forms.Form):
    conversation = ChosenField()
    title = forms.CharField(required=False, max_length=200)
    place = forms.IntegerField(required=False, min_value=0)
