"""The part of a project's settings that new conversations begin with: server and model, parameters,
tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.choice_form import ChoiceForm, ToolsField, offered_in
from chat.models import Project, Tool, Upstream


class DefaultsForm(ChoiceForm):
    """``project`` may be a new one that only has its team. `values` are fields of the project."""

    no_choice_label: ClassVar[Promise | None] = gettext_lazy("No default")
    is_shown_again: ClassVar[bool] = True
    # These fields belong to conversations, not to projects.
    system_prompt = None
    typed_model = None

    tools = ToolsField(
        label=gettext_lazy("Tools"),
        queryset=Tool.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        project: Project,
        upstreams: Iterable[Upstream],
    ) -> None:
        super().__init__(data, upstreams=upstreams, remembered=offered_in(project))
        self.fields["tools"].queryset = Tool.objects.filter(team=project.team_id)
        if project.pk is not None:
            self.initial["tools"] = [tool.public_id for tool in project.tools.all()]

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("choice"):
            return super().clean()
        return {**self.cleaned_data, "upstream": None, "model": ""}

    def values(self) -> dict[str, Any]:
        """The arguments of `actions.change_project`. A model that was chosen earlier and is unavailable now
        must be replaced, as in a conversation."""
        said = self.cleaned_data
        return {
            "upstream": said["upstream"],
            "model": said["model"],
            "parameters": self.chosen_parameters() if said["upstream"] else {},
            "tools": list(said["tools"]),
        }
