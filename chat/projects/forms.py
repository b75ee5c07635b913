"""Forms of projects: what they are called, who sees them, their instructions and members, and moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy

from chat.models import Conversation, Project, ProjectRole, Team, User
from chat.web.forms import WordsField

INSTRUCTIONS_LIMIT = 100_000
NO_PROJECT = "none"
# A page shows fewer.
MOST_MOVED = 200


class ProjectForm(forms.ModelForm):
    """A project's name and description in lists, and its readers."""

    class Meta:
        model = Project
        fields = ("name", "color", "description", "access")
        widgets = {
            "name": forms.TextInput(attrs={"autocomplete": "off"}),
            "description": forms.Textarea(attrs={"rows": 2}),
            "color": forms.RadioSelect,
            "access": forms.RadioSelect,
        }


class NewProjectForm(ProjectForm):
    team = forms.ModelChoiceField(
        label=gettext_lazy("Team"),
        queryset=Team.objects.none(),
        to_field_name="public_id",
        empty_label=None,
    )

    def __init__(self, data: Any = None, *, teams: QuerySet[Team]) -> None:
        super().__init__(data)
        self.fields["team"].queryset = teams
        # Nobody has to choose between one.
        self.is_for_several = len(teams) > 1
        if not self.is_for_several:
            self.fields["team"].widget = forms.HiddenInput()
            self.initial["team"] = teams[0] if teams else None


class InstructionsForm(forms.Form):
    instructions = WordsField(
        label=gettext_lazy("Instructions"),
        required=False,
        strip=False,
        max_length=INSTRUCTIONS_LIMIT,
        widget=forms.Textarea(attrs={"rows": 8, "dir": "auto"}),
    )


class MemberForm(forms.Form):
    """A person to add, or one whose role changes."""

    person = forms.ModelChoiceField(
        label=gettext_lazy("Person"),
        queryset=User.objects.none(),
        to_field_name="public_id",
        empty_label=None,
    )
    role = forms.ChoiceField(
        label=gettext_lazy("Role"), choices=ProjectRole.choices, initial=ProjectRole.WRITER
    )

    def __init__(self, data: Any = None, *, people: QuerySet[User]) -> None:
        super().__init__(data)
        self.fields["person"].queryset = people


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=ProjectRole.choices)


class MoveForm(forms.Form):
    """Conversations, and where they go: a project, `NO_PROJECT`, or nothing as long as nothing is chosen."""

    conversation = forms.Field(required=False)
    project = forms.CharField(required=False)
    confirmed = forms.BooleanField(required=False)

    def clean_conversation(self) -> list[UUID]:
        try:
            return [UUID(each) for each in self.cleaned_data["conversation"][:MOST_MOVED]]
        except ValueError:
            raise forms.ValidationError("no ids") from None

    def clean_project(self) -> UUID | str:
        project: str = self.cleaned_data["project"]
        if project in ("", NO_PROJECT):
            return project
        try:
            return UUID(project)
        except ValueError:
            raise forms.ValidationError("no id") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a conversation before a move, in the form that takes the move back."""

    conversation: UUID
    project: UUID | None
    is_shared: bool

    @classmethod
    def of(cls, conversation: Conversation) -> Place:
        project = conversation.project
        return cls(
            conversation=conversation.public_id,
            project=project.public_id if project else None,
            is_shared=conversation.is_shared,
        )

    @classmethod
    def read(cls, value: str) -> Place:
        """Raises ``ValueError``."""
        conversation, project, shared = value.split(".")
        return cls(
            conversation=UUID(conversation),
            project=None if project == NO_PROJECT else UUID(project),
            is_shared=shared == "shared",
        )

    def __str__(self) -> str:
        project = self.project.hex if self.project else NO_PROJECT
        return f"{self.conversation.hex}.{project}.{'shared' if self.is_shared else 'private'}"


class MoveBackForm(forms.Form):
    conversation = forms.Field()

    def clean_conversation(self) -> list[Place]:
        try:
            return [Place.read(each) for each in self.cleaned_data["conversation"][:MOST_MOVED]]
        except ValueError:
            raise forms.ValidationError("no places") from None
