"""The style guide: every component in every state, for administrators."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chat.models import ProjectColor, User
from chat.rendering.text_diff import compare
from chat.web.decorators import administrators_only
from chat.web.tags import AVATAR_HUES

# A name for each hue.
NAMES = ("Ana Lima", "Ben Okafor", "Cho", "Dana Roy", "Eva Ek", "Finn Berg", "Gita Rao", "Hana Ito")


class SampleForm(forms.Form):
    """One field of each kind, valid and not."""

    name = forms.CharField(help_text="Shown in the list of servers.")
    address = forms.URLField(initial="not an address", assume_scheme="https")
    password = forms.CharField(widget=forms.PasswordInput, required=False)
    kind = forms.ChoiceField(choices=[("chat", "Chat"), ("completions", "Completions")])
    notes = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    is_enabled = forms.BooleanField(label="Enabled", required=False)
    fixed = forms.CharField(initial="Cannot be changed", disabled=True, required=False)


class SampleChoiceForm(forms.Form):
    """A combobox."""

    model = forms.ChoiceField(
        widget=forms.Select(attrs={"aria-label": "Model"}),
        initial="m2",
        choices=[
            ("Workshop", [("m1", "River 7B"), ("m2", "River 70B")]),
            ("Cloud gateway", [("m3", "Large"), ("m4", "Small")]),
        ],
    )


@administrators_only
def styleguide(request: HttpRequest) -> HttpResponse:
    sample = {"name": "Workshop", "address": "not an address", "kind": "chat", "notes": "Two lines"}
    people = [User(pk=number, name=name) for number, name in enumerate(NAMES, start=AVATAR_HUES)]
    context = {"form": SampleForm(sample), "choice": SampleChoiceForm()["model"], "people": people}
    context["projects"] = [{"color": value, "name": label} for value, label in ProjectColor.choices]
    context["difference"] = compare("Answer in German.\nBe brief.", "Answer in French.\nBe brief.")
    return render(request, "styleguide/styleguide.html", context)
