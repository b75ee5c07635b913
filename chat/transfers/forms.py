"""Forms that start an export and an import."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.exports.many import FORMS_OF_MANY
from chat.models import AccessReason, JobScope, Team, User

_LABELS: dict[str, Promise] = {
    "markdown": gettext_lazy("Markdown"),
    "json": gettext_lazy("JSON"),
    "html": gettext_lazy("HTML"),
}
FORM_CHOICES = [(name, _LABELS[name]) for name in FORMS_OF_MANY]


class ExportForm(forms.Form):
    """The conversations that a person may export: their own, those that their teams share, or all."""

    what = forms.ChoiceField(label=gettext_lazy("Conversations"))
    form = forms.ChoiceField(label=gettext_lazy("Format"), choices=FORM_CHOICES)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=AccessReason._meta.get_field("reason").max_length,
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}),
        help_text=gettext_lazy(
            "Required to export everyone’s conversations. Everyone sees the reason in their settings, "
            "and it is recorded in the audit log."
        ),
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="export-%s", **kwargs)
        self._teams = {team.public_id.hex: team for team in access.owned_teams(user)}
        choices = [(JobScope.OWN.value, JobScope.OWN.label)]
        for hex_id, team in self._teams.items():
            words = gettext("Conversations shared with %(team)s")
            choices.append((hex_id, words % {"team": team}))
        if user.is_staff:
            choices.append((JobScope.ALL.value, gettext("Everyone’s conversations")))
        else:
            del self.fields["reason"]
        self.fields["what"].choices = choices

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"]
        if not reason and self.cleaned_data.get("what") == JobScope.ALL:
            raise forms.ValidationError(gettext("Enter a reason."))
        return reason

    @property
    def scope(self) -> str:
        return JobScope.TEAM if self.team else self.cleaned_data["what"]

    @property
    def team(self) -> Team | None:
        return self._teams.get(self.cleaned_data["what"])


class TeamForm(forms.Form):
    """The team whose member imports."""

    team = forms.ModelChoiceField(
        queryset=Team.objects.none(),
        label=gettext_lazy("Import into"),
        to_field_name="public_id",
        empty_label=None,
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", "import-%s")
        super().__init__(*args, **kwargs)
        self.fields["team"].queryset = access.writable_teams(user)


class ImportForm(TeamForm):
    """The whole file in one request, for browsers without scripts."""

    field_order = ("file", "team")
    file = forms.FileField(
        label=gettext_lazy("File"),
        help_text=gettext_lazy("The ZIP or JSON file exported from the other app."),
        widget=forms.FileInput(attrs={"accept": ".zip,.json,application/zip,application/json"}),
    )


class UploadForm(TeamForm):
    """An upload in pieces, which a script sends."""

    name = forms.CharField(max_length=1000)
    size = forms.IntegerField(min_value=0)
