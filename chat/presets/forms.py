"""The form of a preset: what a message needs but its text, and what only presets have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from chat.conversations.choice_form import ChoiceForm, SkillsField, ToolsField
from chat.conversations.preset_choice import Control, controls_of
from chat.models import Conversation, PresetVersion, Project, Skill, Team, Tool, Upstream
from chat.presets.actions import DEFAULT_ICON, Content
from chat.presets.controls import LABEL_LENGTH, MOST_CONTROLS, choices_in, lines_of
from chat.web.forms import NameField, WordsField
from chat.web.places import PlaceField

MOST_STARTERS = 6
STARTER_LENGTH = 2_000
ICONS = (
    *(DEFAULT_ICON, "sparkles", "brain", "book-open", "pen-line", "file-text", "code", "terminal"),
    *("table", "list-checks", "search", "globe", "wrench", "database", "mail", "image", "gauge"),
)


class PresetForm(ChoiceForm):
    """``version`` is the one that is edited; ``tools`` and ``skills`` are those that its people may turn on."""

    is_shown_again: ClassVar[bool] = True

    name = NameField(
        label=gettext_lazy("Name"), widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    icon = forms.ChoiceField(
        label=gettext_lazy("Icon"),
        choices=[(each, each) for each in ICONS],
        widget=forms.RadioSelect,
        initial=DEFAULT_ICON,
    )
    tools = ToolsField(
        label=gettext_lazy("Tools"),
        queryset=Tool.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    skills = SkillsField(
        label=gettext_lazy("Skills"),
        queryset=Skill.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    starters = WordsField(
        label=gettext_lazy("Suggested messages"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "dir": "auto"}),
        help_text=gettext_lazy("Up to six, one per line. A new conversation offers them."),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        upstreams: Iterable[Upstream],
        tools: QuerySet[Tool],
        skills: QuerySet[Skill],
        version: PresetVersion | None = None,
        remembered: Conversation | None = None,
    ) -> None:
        super().__init__(data, upstreams=upstreams, remembered=remembered)
        self.version = version
        self.fields["tools"].queryset = tools.select_related("team")
        self.fields["skills"].queryset = skills.order_by("name", "pk")
        controls = controls_of(version.controls) if version else []
        self.control_rows = []
        for number in range(MOST_CONTROLS):
            control = controls[number] if number < len(controls) else None
            self.control_rows.append(self._add_control(number, control))
        if version is not None:
            self.initial |= {
                "name": version.preset.name,
                "icon": version.icon,
                "tools": [each["id"] for each in version.tools],
                "skills": [each["id"] for each in version.skills],
                "starters": "\n".join(version.starters),
            }

    def _add_control(self, number: int, control: Control | None) -> tuple[str, str]:
        """The names of the fields of one control."""
        name, lines = f"control_{number}_name", f"control_{number}_choices"
        self.fields[name] = forms.CharField(
            label=gettext("Name"), max_length=LABEL_LENGTH, required=False
        )
        self.fields[lines] = WordsField(
            label=gettext("Choices"),
            required=False,
            max_length=5_000,
            widget=forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
            help_text=gettext("One per line, such as “Low: temperature = 0.2; seed = 1”."),
        )
        if control is not None:
            self.initial |= {name: control.name, lines: lines_of(control)}
        return name, lines

    @property
    def control_fields(self) -> list[tuple[Any, Any]]:
        return [(self[name], self[lines]) for name, lines in self.control_rows]

    def clean_starters(self) -> list[str]:
        lines = [line.strip() for line in self.cleaned_data["starters"].split("\n")]
        starters = [line for line in lines if line]
        if len(starters) > MOST_STARTERS:
            raise forms.ValidationError(gettext("Enter up to six suggested messages."))
        if any(len(line) > STARTER_LENGTH for line in starters):
            raise forms.ValidationError(gettext("One of these messages is too long."))
        return starters

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        cleaned["controls"] = [
            control for row in self.control_rows if (control := self._control_in(cleaned, *row))
        ]
        names = {control.name for control in cleaned["controls"]}
        if len(names) < len(cleaned["controls"]):
            self.add_error(self.control_rows[0][0], gettext("Give each control another name."))
        return cleaned

    def _control_in(self, cleaned: dict[str, Any], name: str, lines: str) -> Control | None:
        label, text = cleaned.get(name, "").strip(), cleaned.get(lines, "")
        upstream = cleaned.get("upstream")
        if (not label and not text.strip()) or upstream is None:
            return None
        if not label:
            self.add_error(name, gettext("Enter a name."))
            return None
        try:
            return Control(name=label, choices=choices_in(text, upstream.dialect))
        except forms.ValidationError as error:
            self.add_error(lines, error)
            return None

    def content(self) -> Content:
        """The settings of a valid form. Tools and skills of the edited version that this person can't turn on stay in
        it."""
        said = self.cleaned_data
        return Content(
            upstream=said["upstream"],
            model=said["model"],
            icon=said["icon"],
            parameters=self.chosen_parameters(),
            system_prompt=said["system_prompt"].strip(),
            tools=self._chosen("tools", self.version.tools if self.version else []),
            skills=self._chosen("skills", self.version.skills if self.version else []),
            starters=said["starters"],
            controls=said["controls"],
        )

    def _chosen(self, field: str, kept: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
        offered = {str(each.public_id) for each in self.fields[field].queryset}
        chosen = entries_of(self.cleaned_data[field])
        return [*chosen, *(each for each in kept if each["id"] not in offered)]


class NewPresetForm(PresetForm):
    place = PlaceField()
    field_order = ("place", "name")

    def __init__(
        self, data: Any = None, *, teams: Sequence[Team], projects: Sequence[Project], **more: Any
    ) -> None:
        super().__init__(data, **more)
        self.fields["place"].offer(teams, projects)


class SavePresetForm(forms.Form):
    """The name and place of a preset that is made of what the composer has."""

    preset_name = NameField(
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": gettext_lazy("Enter a name for the preset.")},
    )
    preset_place = PlaceField()

    def __init__(
        self, data: Any = None, *, teams: Sequence[Team], projects: Sequence[Project]
    ) -> None:
        super().__init__(data)
        self.fields["preset_place"].offer(teams, projects)


def entries_of(things: Iterable[Tool | Skill]) -> list[dict[str, str]]:
    """Tools or skills as a version stores them."""
    return [{"id": str(each.public_id), "name": each.name} for each in things]
