"""The part of a project's settings that new conversations begin with: a preset, or server and model, parameters and
tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.choice_form import ChoiceForm, ToolsField, offered_in, preset_value
from chat.models import DefaultPreset, PresetVersion, Project, Tool, Upstream


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
        presets: Sequence[PresetVersion] = (),
    ) -> None:
        """``presets`` are those that everyone in the project can choose."""
        super().__init__(data, upstreams=upstreams, remembered=offered_in(project), presets=presets)
        default = DefaultPreset.objects.filter(project=project.pk).first() if presets else None
        for each in presets:
            if default is not None and each.preset_id == default.preset_id:
                self.initial["choice"] = preset_value(each)
        self.fields["tools"].queryset = Tool.objects.filter(team=project.team_id)
        if project.pk is not None:
            self.initial["tools"] = [tool.public_id for tool in project.tools.all()]

    def clean(self) -> dict[str, Any]:
        choice = self.cleaned_data.get("choice")
        offered = {preset_value(each): each.preset for each in self.presets}
        if choice and choice not in offered:
            return {"preset": None, **super().clean()}
        preset = offered.get(choice or "")
        return {**self.cleaned_data, "upstream": None, "model": "", "preset": preset}

    def values(self) -> dict[str, Any]:
        """The arguments of `actions.change_project`. A model that was chosen earlier and is unavailable now
        must be replaced, as in a conversation."""
        said = self.cleaned_data
        return {
            "upstream": said["upstream"],
            "model": said["model"],
            "parameters": self.chosen_parameters() if said["upstream"] else {},
            "tools": list(said["tools"]),
            "preset": said["preset"],
        }
