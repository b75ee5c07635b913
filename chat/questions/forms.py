"""The forms that settle what a run waits for: a question, an approval, a tool's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext, gettext_lazy

from chat.models import Question, QuestionKind
from chat.questions import actions as actions
from chat.web.forms import Sentences, WordsField

# With more options than this they are listed below each other, and chosen before they are sent.
MOST_BUTTONS = 4
YES_OR_NO = (("true", gettext_lazy("Yes")), ("false", gettext_lazy("No")))
NO_CHOICE = ("", gettext_lazy("Choose…"))


class ReplyForm(Sentences):
    """A form of one question. Its ids start with the question's id, because a page has many of
    them."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, question: Question) -> None:
        super().__init__(data, auto_id=f"ask-{question.public_id.hex}-%s")
        self.question = question


class ResultForm(ReplyForm):
    output = WordsField(
        label=gettext_lazy("Result"),
        required=False,
        strip=False,
        max_length=settings.TOOL_RESULT_BYTES,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    is_error = forms.BooleanField(label=gettext_lazy("Report an error"), required=False)


class ReasonForm(ReplyForm):
    """Why something is declined; the model is told."""

    reason = WordsField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 1}),
    )


class AnswerForm(ReplyForm):
    """Options, free text and fields, as far as the question offers them.

    Options and fields are posted by their position, because a browser may change the characters of
    a value.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, *, question: Question) -> None:
        super().__init__(data, question=question)
        self.options = actions.options_of(question)
        self.asked_fields = actions.fields_of(question)
        self.takes_several = actions.takes_several(question)
        if self.options:
            self.fields["selected"] = forms.TypedMultipleChoiceField(
                choices=[(str(place), one.label) for place, one in enumerate(self.options)],
                coerce=int,
                required=False,
                error_messages={"invalid_choice": gettext("This option is no longer available.")},
            )
        for place, field in enumerate(self.asked_fields):
            self.fields[f"field-{place}"] = asked_field(field)
        if actions.takes_text(question):
            self.fields["text"] = WordsField(
                label=gettext("Other answer")
                if self.options or self.asked_fields
                else gettext("Your answer"),
                required=False,
                strip=False,
                max_length=settings.TOOL_RESULT_BYTES,
                widget=forms.Textarea(attrs={"rows": 2}),
            )

    @property
    def is_one_click(self) -> bool:
        """True if one click on an option is the whole reply."""
        return (
            0 < len(self.options) <= MOST_BUTTONS
            and len(self.fields) == 1
            and not self.takes_several
        )

    @property
    def bound_fields(self) -> list[tuple[forms.BoundField, bool]]:
        """The fields, each with whether it may be empty."""
        has_required = any(field.is_required for field in self.asked_fields)
        return [
            (self[f"field-{place}"], has_required and not field.is_required)
            for place, field in enumerate(self.asked_fields)
        ]

    @property
    def chosen(self) -> list[str]:
        """The options that were chosen when the form came back with an error."""
        chosen = self["selected"].value() if "selected" in self.fields else None
        return [str(place) for place in chosen or ()]

    def reply(self) -> dict[str, Any]:
        """The valid form as the action takes it."""
        said = self.cleaned_data
        return {
            "text": said.get("text", ""),
            "selected": [self.options[place].value for place in said.get("selected", ())],
            "fields": {
                field.name: said[f"field-{place}"]
                for place, field in enumerate(self.asked_fields)
                if said.get(f"field-{place}")
            },
        }


def asked_field(field: actions.Field) -> forms.Field:
    """A field for the upstream's own type name; a line of text for an unknown type."""
    common = {"label": field.label, "required": False}
    if field.options:
        choices = [NO_CHOICE, *((one.value, one.label) for one in field.options)]
        return forms.ChoiceField(choices=choices, **common)
    return _FIELDS.get(field.kind.lower(), _line)(common)


def value_label(field: actions.Field, value: str) -> str:
    """A field's value as the user saw it."""
    if field.options:
        return next((one.label for one in field.options if one.value == value), value)
    is_choice = _FIELDS.get(field.kind.lower()) is _yes_or_no
    return str(dict(YES_OR_NO).get(value, value)) if is_choice else value


def _line(common: dict[str, Any], **attributes: str) -> forms.Field:
    widget = forms.TextInput(attrs=attributes)
    return WordsField(max_length=10_000, widget=widget, **common)


def _lines(common: dict[str, Any]) -> forms.Field:
    widget = forms.Textarea(attrs={"rows": 3})
    return WordsField(max_length=100_000, strip=False, widget=widget, **common)


def _yes_or_no(common: dict[str, Any]) -> forms.Field:
    return forms.ChoiceField(choices=[NO_CHOICE, *YES_OR_NO], **common)


def _typed(**attributes: str) -> Callable[[dict[str, Any]], forms.Field]:
    return lambda common: _line(common, **attributes)


_FIELDS: Mapping[str, Callable[[dict[str, Any]], forms.Field]] = {
    "textarea": _lines,
    "multiline": _lines,
    "longtext": _lines,
    "boolean": _yes_or_no,
    "bool": _yes_or_no,
    "checkbox": _yes_or_no,
    "number": _typed(inputmode="decimal"),
    "integer": _typed(inputmode="numeric"),
    "date": _typed(type="date"),
    "email": _typed(type="email"),
    "url": _typed(type="url"),
}

FORMS: Mapping[str, type[ReplyForm]] = {
    QuestionKind.ASK: AnswerForm,
    QuestionKind.TOOL: ResultForm,
    QuestionKind.APPROVAL: ReasonForm,
}
