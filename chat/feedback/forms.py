"""The forms of a rating, and of figures and their export."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from chat.feedback.figures import PERIODS, Scope
from chat.models import AccessReason, Feedback, Team
from chat.models.feedback import NOTE_LIMIT, REASONS
from chat.web.forms import Sentences, WordsField

REASON_LENGTH = AccessReason._meta.get_field("reason").max_length
VALUES = {1: gettext_lazy("Good answer"), -1: gettext_lazy("Bad answer")}


def _reasons(value: int) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        required=False,
        choices=[(code.value, code.label) for code in REASONS[value]],
        widget=forms.CheckboxSelectMultiple,
    )


class FeedbackForm(Sentences):
    """A rating with its reasons, of which those for the chosen value count, and a note."""

    value = forms.TypedChoiceField(
        choices=list(VALUES.items()),
        coerce=int,
        widget=forms.RadioSelect,
        error_messages={
            "required": gettext_lazy("Choose whether the answer was good or bad."),
            "invalid_choice": gettext_lazy("Choose whether the answer was good or bad."),
        },
    )
    good = _reasons(1)
    bad = _reasons(-1)
    note = WordsField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=NOTE_LIMIT,
        error_messages={
            "max_length": gettext_lazy("A note can have at most %(limit_value)d characters."),
        },
    )

    @property
    def is_brief(self) -> bool:
        """True for a click on a thumb, which gives no reasons and no note."""
        return "note" not in self.data

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of `chat.feedback.actions.rate`."""
        values = self.cleaned_data
        reasons = values["good"] if values["value"] > 0 else values["bad"]
        return {"value": values["value"], "reasons": reasons, "note": values["note"]}


def form_of(rating: Feedback | None) -> FeedbackForm:
    """The form with what this person has said."""
    if rating is None:
        return FeedbackForm()
    reasons = {"good" if rating.is_good else "bad": rating.reasons}
    return FeedbackForm(initial={"value": rating.value, "note": rating.note, **reasons})


class ScopeForm(forms.Form):
    """The period and the team of figures, from the address of the page. What is unknown counts as the usual."""

    days = forms.TypedChoiceField(
        required=False, choices=[(days, days) for days in PERIODS], coerce=int, empty_value=30
    )
    team = forms.ModelChoiceField(Team.objects.all(), required=False, to_field_name="public_id")

    def scope(self) -> Scope:
        self.full_clean()
        values = self.cleaned_data
        return Scope(days=values.get("days", 30), team=values.get("team"))


class ExportForm(forms.Form):
    """The reason of an export, and whether it has the conversations, where that is allowed."""

    with_conversations = forms.BooleanField(required=False)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=REASON_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}),
    )
