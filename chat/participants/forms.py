"""Forms of the Share dialog and of groups."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from chat.core.text import as_uuid
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    Membership,
    User,
    Visibility,
    visibilities,
)

# The choice of a conversation that everyone on the team may read, and only its participants write in.
TEAM_READS = "team_read"


class ShareForm(forms.Form):
    """A person or a group of the team, as the key of a `Candidate`, and their role."""

    who = forms.CharField()
    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=ConversationRole.choices,
        initial=ConversationRole.WRITER,
    )

    def __init__(self, data: Any = None, *, conversation: Conversation) -> None:
        super().__init__(data)
        self._team = conversation.team_id

    def clean_who(self) -> User | Group:
        kind, _, key = self.cleaned_data["who"].partition(":")
        public_id = as_uuid(key)
        found: User | Group | None = None
        if public_id is not None and kind == "group":
            found = Group.objects.filter(team=self._team, public_id=public_id).first()
        elif public_id is not None:
            found = User.objects.filter(
                memberships__in=Membership.objects.filter(team=self._team), public_id=public_id
            ).first()
        if found is None:
            raise forms.ValidationError(gettext("They’re no longer on the team."))
        return found


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=ConversationRole.choices)


class VisibilityForm(forms.Form):
    """Private, or shared: with the team, which may read or also write, or in a project with those who see
    that."""

    visibility = forms.ChoiceField()

    def __init__(self, data: Any = None, *, conversation: Conversation) -> None:
        super().__init__(data)
        in_project = conversation.project_id is not None
        values = [str(each) for each in visibilities(in_project=in_project)]
        more = [] if in_project else [TEAM_READS]
        self.fields["visibility"].choices = [(each, each) for each in (*values, *more)]

    def values(self) -> tuple[str, str]:
        """The visibility, and the role of the team."""
        chosen = self.cleaned_data["visibility"]
        if chosen == TEAM_READS:
            return Visibility.TEAM, ConversationRole.READER
        return chosen, ConversationRole.WRITER


class GroupForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class GroupMemberForm(forms.Form):
    """A person to add to a group, or to remove."""

    person = forms.ModelChoiceField(
        label=gettext_lazy("Person"),
        queryset=User.objects.none(),
        to_field_name="public_id",
        empty_label=None,
    )

    def __init__(self, data: Any = None, *, people: Any) -> None:
        super().__init__(data)
        self.fields["person"].queryset = people
