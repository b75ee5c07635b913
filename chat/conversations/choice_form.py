"""The choice of server, model and parameters in forms. The dialects declare the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise
from django.utils.text import Truncator, format_lazy
from django.utils.translation import gettext, gettext_lazy

from chat.conversations.actions.messages import ModelChoice
from chat.conversations.model_lists import MOST_RECENT, ModelLists
from chat.conversations.parameter_groups import ParameterGroups, grouped
from chat.dialects import DIALECTS
from chat.dialects.base import Audio, Image
from chat.dialects.parameters import Parameter
from chat.models import Conversation, PresetVersion, Project, Upstream
from chat.models.upstream import context_tokens_of
from chat.web import parameter_fields
from chat.web.forms import Sentences, WordsField
from chat.web.model_facts import short_facts
from chat.web.parameter_fields import FieldStyle

MODEL_LENGTH = 200
# Longer defaults are cut in the placeholder of their field.
DEFAULT_LENGTH = 60
SYSTEM_PROMPT_LIMIT = 100_000
# Short texts are stop sequences and formats, longer ones are templates.
STYLE = FieldStyle(
    text=forms.Textarea(attrs={"rows": 2}),
    text_limit=10_000,
    lines=forms.Textarea(attrs={"rows": 4}),
    lines_limit=100_000,
)
# Follows the name of a paused server. The page has it for its script.
PAUSED = gettext_lazy("(paused)")
# Follows the name of a server or model that was chosen once and is switched off now.
UNAVAILABLE = gettext_lazy("(unavailable)")
SERVER_GONE = gettext_lazy("This server is no longer available. Choose another model.")
MODEL_GONE = gettext_lazy("This model is no longer available. Choose another model.")
NO_MODELS = gettext_lazy("No models available. Ask an administrator.")
NO_CHOICE = gettext_lazy("Server default")
# The first part of the value of an option that is a preset, and the name of their group.
PRESET = "preset"
PRESETS = gettext_lazy("Presets")
DEFAULT_OF = {
    "person": gettext_lazy("your default"),
    "project": gettext_lazy("project default"),
    "team": gettext_lazy("team default"),
}
NO_SUCH_SKILL = gettext_lazy("One of these skills no longer exists. Reload the page.")
NO_SUCH_TOOL = gettext_lazy("One of these tools no longer exists. Reload the page.")


class ModelSelect(forms.Select):
    """A select whose options have their server's data for the page's scripts: its dialect, for the
    parameters, whether it takes pictures, sounds and tools, how much its model can read, and whether it is a demo or
    can't be used."""

    upstreams: Mapping[str, Upstream] = {}
    # Hints beside the labels of options, by their values.
    hints: Callable[[], Mapping[str, str]] = staticmethod(dict)
    # Tokens that a model can read, by the value of its option, where the server says so.
    context_tokens: Callable[[], Mapping[str, int]] = staticmethod(dict)
    unavailable = ""
    # The models that the page's script shows first; read only if the form is shown.
    lists: Callable[[], ModelLists] | None = None

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        if self.lists is not None:
            context["widget"]["attrs"] |= self._listed(self.lists())
        return context

    def _listed(self, lists: ModelLists) -> dict[str, str]:
        """The lists without models that can't be chosen at present, a line for each."""
        known = {
            choice_value(upstream, entry["id"])
            for upstream in self.upstreams.values()
            for entry in upstream.chat_models
        }
        return {
            "data-favorites": "\n".join(each for each in lists.favorites if each in known),
            "data-recent": "\n".join(
                [each for each in lists.recent if each in known][:MOST_RECENT]
            ),
        }

    def create_option(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(*args, **kwargs)
        identity = str(option["value"]).partition(":")[0]
        attributes = option["attrs"]
        upstream = self.upstreams.get(identity)
        if hint := self.hints().get(str(option["value"])):
            attributes["data-hint"] = hint
        attributes["data-dialect"] = upstream.dialect if upstream else ""
        if tokens := self.context_tokens().get(str(option["value"])):
            attributes["data-context"] = str(tokens)
        if upstream:
            dialect = DIALECTS[upstream.dialect]
            takes = {
                "images": Image in dialect.takes_parts,
                "audio": Audio in dialect.takes_parts,
                "tools": dialect.takes_tools,
            }
            attributes |= {f"data-{name}": "no" for name, is_taken in takes.items() if not is_taken}
        if upstream and upstream.is_demo:
            attributes["data-demo"] = True
        if self.unavailable and option["value"] == self.unavailable:
            attributes["data-unavailable"] = True
        return option


class ToolsField(forms.ModelMultipleChoiceField):
    """Tools, by the ids that the page has for them."""

    default_error_messages = {
        "invalid_choice": NO_SUCH_TOOL,
        "invalid_pk_value": NO_SUCH_TOOL,
        "invalid_list": NO_SUCH_TOOL,
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(to_field_name="public_id", **kwargs)


class SkillsField(ToolsField):
    """Skills, by their ids."""

    default_error_messages = dict.fromkeys(ToolsField.default_error_messages, NO_SUCH_SKILL)


class ChoiceForm(Sentences):
    """Server, model, parameters and system prompt: everything of a request but the text."""

    # The label of an option that chooses nothing; without one, a model must be chosen.
    no_choice_label: ClassVar[Promise | None] = None
    # True for the form that shows again what was posted. Others have no fields for empty parameters, which
    # are almost all of about thirty.
    is_shown_again: ClassVar[bool] = False

    # A text field, because the name of a model may be typed.
    choice = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        widget=ModelSelect(
            attrs={"aria-label": gettext_lazy("Model"), "data-draining-mark": PAUSED}
        ),
    )
    typed_model = forms.CharField(
        label=gettext_lazy("Custom model"),
        required=False,
        max_length=MODEL_LENGTH,
        help_text=gettext_lazy(
            "The name of a model that isn’t in the list. Leave empty to use the selected model."
        ),
    )
    system_prompt = WordsField(
        label=gettext_lazy("System prompt"),
        required=False,
        strip=False,
        max_length=SYSTEM_PROMPT_LIMIT,
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text=gettext_lazy("Instructions that apply to the whole conversation."),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        upstreams: Iterable[Upstream],
        remembered: Conversation | None = None,
        chosen: Upstream | None = None,
        presets: Iterable[PresetVersion] | None = None,
        lists: Callable[[], ModelLists] | None = None,
    ) -> None:
        """``presets`` are offered above the models, and those of ``lists`` come first. Both are queried only if the form
        is shown."""
        super().__init__(data, prefix=None)
        self.presets = () if presets is None else presets
        self.upstreams = [upstream for upstream in upstreams if upstream.dialect in DIALECTS]
        self.remembered = remembered
        if remembered is not None:
            self.initial = {
                "system_prompt": remembered.system_prompt,
                "choice": choice_value(remembered.upstream, remembered.model),
            }
        select = self.fields["choice"].widget
        # Queried only if the form is shown.
        select.choices = self._groups
        select.upstreams = {each.public_id.hex: each for each in self.upstreams}
        select.hints = cache(self._hints)
        select.lists = lists
        select.context_tokens = cache(self._context_tokens)
        if self.unavailable and remembered:
            select.unavailable = choice_value(remembered.upstream, remembered.model)
        self.chosen = (
            self._posted_upstream() if self.is_bound else chosen or self._offered_upstream()
        )
        if self.chosen:
            self._add_parameters(self.chosen)
            # Else browsers would choose the first option, which may be a preset.
            if presets is not None and not self.initial.get("choice"):
                model = next(iter(self._models(self.chosen)), "")
                self.initial["choice"] = choice_value(self.chosen, model)

    @cached_property
    def unavailable(self) -> str:
        """The server of the last choice, or its model, if it can't be used any more."""
        kept = self.remembered
        if kept is None or kept.upstream is None:
            return ""
        # The form's own object knows what the team may use of it.
        offered = next((each for each in self.upstreams if each == kept.upstream), None)
        if offered is None:
            return kept.upstream.name
        return kept.model if offered.is_off(kept.model) else ""

    def _offered_upstream(self) -> Upstream | None:
        """The server that the form shows as chosen."""
        last = self.remembered.upstream if self.remembered else None
        if last and last.dialect in DIALECTS:
            return last
        if self.no_choice_label is not None:
            return None
        return next(iter(self._with_models()), None)

    def _with_models(self) -> list[Upstream]:
        """The servers of which a model can be chosen."""
        return [each for each in self.upstreams if self._models(each)]

    @property
    def has_models(self) -> bool:
        return any(self._models(each) for each in self.upstreams)

    def _groups(self) -> list[tuple[str, Any]]:
        groups: list[tuple[str, Any]] = [
            (group_label(each), self._options(each)) for each in self._with_models()
        ]
        kept = self.remembered
        if self.unavailable and kept and kept.upstream:
            label = kept.model or gettext("No model")
            option = (choice_value(kept.upstream, kept.model), label)
            groups.insert(0, (f"{kept.upstream.name} {UNAVAILABLE}", [option]))
        if groups and (presets := list(self.presets)):
            groups.insert(
                0, (str(PRESETS), [(preset_value(each), str(each.preset)) for each in presets])
            )
        if self.no_choice_label is not None:
            groups.insert(0, ("", self.no_choice_label))
        return groups or [("", gettext("No models available"))]

    def _models(self, upstream: Upstream) -> dict[str, str]:
        models = {entry["id"]: entry.get("label") or entry["id"] for entry in upstream.chat_models}
        kept = self.remembered
        if kept and kept.upstream_id == upstream.pk and kept.model and not self.unavailable:
            models.setdefault(kept.model, kept.model)
        return models

    def _hints(self) -> dict[str, str]:
        """The hints beside the labels of options, by their values."""
        return {preset_value(each): _preset_hint(each) for each in self.presets} | {
            choice_value(upstream, entry["id"]): facts
            for upstream in self.upstreams
            for entry in upstream.chat_models
            if (facts := short_facts(entry))
        }

    def _context_tokens(self) -> dict[str, int]:
        return {
            choice_value(upstream, entry["id"]): tokens
            for upstream in self.upstreams
            for entry in upstream.chat_models
            if (tokens := context_tokens_of(entry))
        }

    def _options(self, upstream: Upstream) -> list[tuple[str, str]]:
        models = self._models(upstream)
        return [(choice_value(upstream, model), label) for model, label in models.items()]

    def _posted_upstream(self) -> Upstream | None:
        identity = str((self.data or {}).get("choice", "")).partition(":")[0]
        return next((each for each in self.upstreams if each.public_id.hex == identity), None)

    def _add_parameters(self, upstream: Upstream) -> None:
        dialect = upstream.dialect
        kept = self.remembered.parameters if self.remembered else {}
        is_only_read = self.is_bound and not self.is_shown_again
        for parameter in DIALECTS[dialect].parameters:
            name = field_name(dialect, parameter.name)
            if is_only_read and self.data.get(name) in (None, ""):
                continue
            self.fields[name] = parameter_field(parameter, _default_of(upstream, parameter))
            if parameter.name in kept and parameter.accepts(kept[parameter.name]):
                self.initial[name] = as_typed(kept[parameter.name])

    @property
    def draining(self) -> str:
        """The offered servers that are draining, by their ids in the page's scripts."""
        return " ".join(each.public_id.hex for each in self.upstreams if each.is_draining)

    @property
    def parameter_groups(self) -> ParameterGroups | None:
        """The parameters of the chosen server's dialect."""
        if self.chosen is None:
            return None
        dialect = self.chosen.dialect
        return grouped(
            dialect,
            (
                (each.name, self[field_name(dialect, each.name)])
                for each in DIALECTS[dialect].parameters
            ),
        )

    @property
    def is_adjusted(self) -> bool:
        """True if anything differs from the server's defaults."""
        groups = self.parameter_groups
        return bool(self["system_prompt"].value() or (groups and groups.is_adjusted))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        upstream = self._posted_upstream()
        if upstream is None:
            # A page that offers no model posts none.
            self.add_error("choice", SERVER_GONE if cleaned.get("choice") else NO_MODELS)
            return cleaned
        model = (cleaned.get("typed_model") or cleaned.get("choice", "").partition(":")[2]).strip()
        if not model or len(model) > MODEL_LENGTH or not model.isprintable():
            self.add_error(
                "choice", gettext("Choose a model, or enter a custom model in the parameters.")
            )
        elif upstream.is_off(model):
            self.add_error("choice", MODEL_GONE)
        cleaned["upstream"], cleaned["model"] = upstream, model
        return cleaned

    def chosen_parameters(self) -> dict[str, object]:
        """The parameters of a valid form with a server, without empty ones."""
        dialect = self.cleaned_data["upstream"].dialect
        values = {
            parameter.name: self.cleaned_data.get(field_name(dialect, parameter.name))
            for parameter in DIALECTS[dialect].parameters
        }
        return {name: value for name, value in values.items() if value not in (None, "")}

    def model_choice(self) -> ModelChoice:
        """The choice of a valid form."""
        return ModelChoice(
            upstream=self.cleaned_data["upstream"],
            model=self.cleaned_data["model"],
            parameters=self.chosen_parameters(),
            system_prompt=self.cleaned_data["system_prompt"].strip(),
        )


def offered_in(project: Project) -> Conversation:
    """The defaults of a project as a conversation that isn't stored, for forms."""
    return Conversation(
        upstream=project.upstream, model=project.model, parameters=project.parameters
    )


def group_label(upstream: Upstream) -> str:
    return f"{upstream.name} {PAUSED}" if upstream.is_draining else upstream.name


def choice_value(upstream: Upstream | None, model: str) -> str:
    return f"{upstream.public_id.hex}:{model}" if upstream else ""


def field_name(dialect: str, parameter: str) -> str:
    return f"{dialect}-{parameter}"


def preset_value(version: PresetVersion) -> str:
    """The value of the option that chooses a preset."""
    return f"{PRESET}:{version.preset.public_id}"


def _preset_hint(version: PresetVersion) -> str:
    """The model of a preset, and whose default it is (`access.with_defaults`)."""
    words = DEFAULT_OF.get(getattr(version, "default_of", ""))
    return f"{version.model}, {words}" if words else version.model


def _default_of(upstream: Upstream, parameter: Parameter) -> str:
    """The value that is sent if a field is left empty, in words; empty where the server decides."""
    value = upstream.parameters.get(parameter.name, parameter.default)
    if value in (None, ""):
        return ""
    if parameter.kind == "boolean":
        return gettext("On") if value else gettext("Off")
    if parameter.kind == "choice":
        return gettext(parameter.choice_label(str(value)))
    return Truncator(str(value)).chars(DEFAULT_LENGTH)


# Administrators set the defaults, so there are few.
@lru_cache(maxsize=2_000)
def parameter_field(parameter: Parameter, default: str = "") -> forms.Field:
    """The field of a parameter. ``default`` stands where nothing is chosen. Cached, because forms do not change their
    fields and each message needs about twenty."""
    no_choice = format_lazy("{} ({})", NO_CHOICE, default) if default else NO_CHOICE
    field = parameter_fields.parameter_field(parameter, STYLE, no_choice=no_choice)
    if not isinstance(field, forms.ChoiceField):
        field.widget.attrs["placeholder"] = default or NO_CHOICE
    # Multi-line fields take the full width of the panel.
    field.kind = parameter.kind
    return field


def as_typed(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
