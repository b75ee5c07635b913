"""The further models of a message that several models answer, in the composer's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.utils.text import get_text_list
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat.conversations.actions.messages import ModelChoice
from chat.conversations.choice_form import MODEL_GONE, MODEL_LENGTH, SERVER_GONE, ChoiceForm
from chat.dialects import DIALECTS
from chat.dialects.parameters import Parameter
from chat.models import Upstream
from chat.models.comparison import MOST_COMPARED

CHOSEN_TWICE = gettext_lazy("Choose each model only once.")


class ComparedField(forms.Field):
    """Values of the model picker, in the order of the columns."""

    widget = forms.MultipleHiddenInput

    def __init__(self) -> None:
        super().__init__(required=False)

    def clean(self, value: Any) -> list[str]:
        chosen = [str(each) for each in value or ()]
        # The model of the composer is one of them.
        if len(chosen) >= MOST_COMPARED:
            words = ngettext(
                "You can compare at most %(count)d model.",
                "You can compare at most %(count)d models.",
                MOST_COMPARED,
            )
            raise forms.ValidationError(words % {"count": MOST_COMPARED})
        return chosen


class ComparedForm(ChoiceForm):
    """A choice, and the further models that answer the same message beside it."""

    compare = ComparedField()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("compare") and "upstream" in cleaned:
            cleaned["compared"] = self._read(cleaned["compare"])
            chosen = [(cleaned["upstream"], cleaned["model"]), *cleaned["compared"]]
            if len(set(chosen)) < len(chosen):
                self.add_error("compare", CHOSEN_TWICE)
        return cleaned

    def _read(self, values: Sequence[str]) -> list[tuple[Upstream, str]]:
        servers = {each.public_id.hex: each for each in self.upstreams}
        found = []
        for value in values:
            identity, _, model = value.partition(":")
            upstream, model = servers.get(identity), model.strip()
            if upstream is None:
                self.add_error("compare", SERVER_GONE)
            elif not _is_name(model) or upstream.is_off(model):
                self.add_error("compare", MODEL_GONE)
            else:
                found.append((upstream, model))
        return found

    def model_choice(self) -> ModelChoice:
        first = super().model_choice()
        others = [adapted(first, *each) for each in self.cleaned_data.get("compared", ())]
        return replace(first, compared=others)


def _is_name(model: str) -> bool:
    return bool(model) and len(model) <= MODEL_LENGTH and model.isprintable()


def adapted(choice: ModelChoice, upstream: Upstream, model: str) -> ModelChoice:
    """The same choice with another model: without the parameters that its server lacks, which its notes name."""
    known = {each.name: each for each in DIALECTS[upstream.dialect].parameters}
    kept = {name: value for name, value in choice.parameters.items() if _takes(known, name, value)}
    lacking = [name for name in choice.parameters if name not in kept]
    notes = list(choice.notes)
    if lacking:
        words = ngettext(
            "The parameter %(names)s wasn’t sent, because this server doesn’t take it.",
            "The parameters %(names)s weren’t sent, because this server doesn’t take them.",
            len(lacking),
        )
        notes.append(words % {"names": get_text_list(lacking, gettext("and"))})
    return replace(
        choice,
        upstream=upstream,
        model=model,
        parameters=kept,
        notes=notes,
        # With another model it isn't the preset any more.
        preset=None,
        keeps_preset=False,
    )


def _takes(known: Mapping[str, Parameter], name: str, value: object) -> bool:
    parameter = known.get(name)
    if parameter is None or not parameter.accepts(value):
        return False
    return parameter.kind != "choice" or str(value) in parameter.choices
