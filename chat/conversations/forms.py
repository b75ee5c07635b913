"""Forms of the conversation page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.actions.messages import TEXT_LIMIT
from chat.conversations.choice_form import SkillsField, ToolsField
from chat.conversations.compared_form import ComparedForm
from chat.conversations.model_lists import ModelLists
from chat.core.text import as_uuid
from chat.files.actions import ChosenUnsent
from chat.models import (
    Conversation,
    PresetVersion,
    Project,
    Skill,
    Team,
    Tool,
    Upstream,
    Visibility,
    visibilities,
)
from chat.web.forms import Sentences, WordsField

RELOAD = gettext_lazy("Reload the page and try again.")


class KeyForm(Sentences):
    """The idempotency key: the same request, sent twice, is executed once."""

    key = forms.UUIDField(
        error_messages={
            "required": RELOAD,
            "invalid": RELOAD,
        }
    )


class WordsForm(KeyForm):
    """The text of a message, unchanged."""

    text = WordsField(
        label=gettext_lazy("Message"),
        strip=False,
        max_length=TEXT_LIMIT,
        error_messages={"required": gettext_lazy("Enter a message.")},
    )


class FilesField(forms.Field):
    """Files of the message, by the ids that the page has for them (`ChosenUnsent`)."""

    widget = forms.MultipleHiddenInput

    def __init__(self) -> None:
        super().__init__(required=False)

    def clean(self, value: Any) -> list[UUID]:
        ids = [as_uuid(each) for each in value or ()]
        if None in ids:
            raise forms.ValidationError(RELOAD)
        return list(dict.fromkeys(each for each in ids if each is not None))


class SendForm(ComparedForm, WordsForm):
    """A message in a conversation, below the answer ``parent``, with files of its author's draft."""

    parent = forms.UUIDField(required=False)
    files = FilesField()

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        upstreams: Iterable[Upstream],
        remembered: Conversation | None = None,
        presets: Iterable[PresetVersion] = (),
        lists: Callable[[], ModelLists] | None = None,
    ) -> None:
        super().__init__(
            data, upstreams=upstreams, remembered=remembered, presets=presets, lists=lists
        )

    def files_at(self, place: str) -> list[ChosenUnsent]:
        """The files of a valid form, which was written at this place."""
        return [ChosenUnsent(place=place, public_id=each) for each in self.cleaned_data["files"]]


# The readers that a conversation in a project may have.
IN_PROJECT = (
    (Visibility.PROJECT, gettext_lazy("Shared with the project")),
    (Visibility.PRIVATE, gettext_lazy("Private")),
)


class StartForm(SendForm):
    """The first message of a new conversation, perhaps in a ``project`` of the only team."""

    team = forms.ModelChoiceField(
        queryset=Team.objects.none(), to_field_name="public_id", empty_label=None
    )
    visibility = forms.ChoiceField(
        label=gettext_lazy("Visibility"),
        choices=[(each.value, each.label) for each in visibilities(in_project=False)],
        required=False,
        initial=Visibility.PRIVATE,
    )
    expires = forms.TypedChoiceField(
        label=gettext_lazy("Expiration"),
        choices=[
            ("", gettext_lazy("Never expires")),
            ("1", gettext_lazy("Expires in 1 day")),
            ("7", gettext_lazy("Expires in 7 days")),
            ("30", gettext_lazy("Expires in 30 days")),
        ],
        coerce=lambda days: timedelta(days=int(days)),
        empty_value=None,
        required=False,
    )
    tools = ToolsField(queryset=Tool.objects.none(), required=False)
    skills = SkillsField(queryset=Skill.objects.none(), required=False)

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        upstreams: Iterable[Upstream],
        teams: QuerySet[Team],
        without_team: Promise,
        remembered: Conversation | None = None,
        project: Project | None = None,
        presets: Iterable[PresetVersion] = (),
        lists: Callable[[], ModelLists] | None = None,
        skills: QuerySet[Skill] | None = None,
    ) -> None:
        super().__init__(
            data, upstreams=upstreams, remembered=remembered, presets=presets, lists=lists
        )
        if skills is not None:
            self.fields["skills"].queryset = skills
        self.fields["team"].queryset = teams
        self.fields["tools"].queryset = Tool.objects.filter(team__in=teams)
        if project is not None:
            self.fields["visibility"].choices = IN_PROJECT
            self.fields["visibility"].initial = Visibility.PROJECT
        for code in ("required", "invalid_choice"):
            self.fields["team"].error_messages[code] = without_team


class TitleForm(forms.Form):
    title = forms.CharField(max_length=200)


class SwitchForm(Sentences):
    """The team's tools and the skills that the conversation uses from the next message on. ``shown_skills``: those that the
    page has; others stay as they are."""

    tools = ToolsField(queryset=Tool.objects.none(), required=False)
    skills = SkillsField(queryset=Skill.objects.none(), required=False)
    shown_skills = SkillsField(queryset=Skill.objects.none(), required=False)

    def __init__(self, data: Any, *, tools: QuerySet[Tool], skills: QuerySet[Skill]) -> None:
        super().__init__(data)
        self.fields["tools"].queryset = tools
        for name in ("skills", "shown_skills"):
            self.fields[name].queryset = skills
