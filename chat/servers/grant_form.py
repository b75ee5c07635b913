"""Forms of who may use a server, and with which models and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, gettext_lazy

from chat.dialects import DIALECTS
from chat.dialects.parameters import Parameter
from chat.models import Group, ModelGrant, Team, Upstream
from chat.servers.actions.grants import Terms
from chat.servers.actions.servers import NAME_LIMIT

# More names than this are better said by a pattern.
MOST_NAMES = 200
LIMIT_PREFIX = "limit_"
# Numbers of which a larger one costs and risks nothing.
_WITHOUT_LIMIT = frozenset({"seed", "mirostat_target", "mirostat_lr", "min_tokens"})
EVERYONE, SELECTED = "everyone", "selected"


class LimitedForm(forms.Form):
    """Everyone, or selected teams."""

    who = forms.ChoiceField(
        label=gettext_lazy("Who can use this server"),
        choices=[
            (EVERYONE, gettext_lazy("Everyone")),
            (SELECTED, gettext_lazy("Selected teams")),
        ],
        widget=forms.RadioSelect,
    )


class GrantForm(forms.Form):
    """``grant`` is the one that is changed; without it the form has a field for the team."""

    place = forms.ChoiceField(label=gettext_lazy("Team or group"))
    listed = forms.MultipleChoiceField(
        label=gettext_lazy("Models"), required=False, widget=forms.CheckboxSelectMultiple
    )
    patterns = forms.CharField(
        label=gettext_lazy("Other names or patterns"),
        required=False,
        max_length=MOST_NAMES * (NAME_LIMIT + 1),
        help_text=gettext_lazy("One per line. An asterisk stands for anything, as in gpt-5*."),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "autocapitalize": "none"}),
    )
    default_model = forms.ChoiceField(
        label=gettext_lazy("Default model"),
        required=False,
        help_text=gettext_lazy(
            "New conversations start with it. It replaces the team’s default on other servers."
        ),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        upstream: Upstream,
        grant: ModelGrant | None = None,
    ) -> None:
        super().__init__(data, label_suffix="")
        models = [(each["id"], each.get("label") or each["id"]) for each in upstream.chat_models]
        names = {name for name, _ in models}
        self.fields["listed"].choices = models
        self.fields["default_model"].choices = [("", gettext("None")), *models]
        self.parameters = _limited_parameters(upstream)
        for each in self.parameters:
            self.fields[LIMIT_PREFIX + each.name] = _limit_field(each)
        if grant is None:
            self.places = _places()
            self.fields["place"].choices = [(key, label) for key, (label, _) in self.places.items()]
            return
        del self.fields["place"]
        if grant.default_model and grant.default_model not in names:
            self.fields["default_model"].choices.append((grant.default_model, grant.default_model))
        self.initial = {
            "listed": [each for each in grant.model_names if each in names],
            "patterns": "\n".join(each for each in grant.model_names if each not in names),
            "default_model": grant.default_model,
            **{LIMIT_PREFIX + name: most for name, most in grant.limits.items()},
        }

    @property
    def limit_fields(self) -> list[forms.BoundField]:
        return [self[LIMIT_PREFIX + each.name] for each in self.parameters]

    @property
    def has_limits(self) -> bool:
        return any(each.value() not in (None, "") or each.errors for each in self.limit_fields)

    def clean_patterns(self) -> list[str]:
        lines = (line.strip() for line in self.cleaned_data["patterns"].splitlines())
        names = list(dict.fromkeys(line for line in lines if line))
        if len(names) > MOST_NAMES:
            raise ValidationError(gettext("Enter at most %(limit)d names.") % {"limit": MOST_NAMES})
        if any(len(name) > NAME_LIMIT or not name.isprintable() for name in names):
            raise ValidationError(
                gettext("Each name must be one line of at most %(limit)d visible characters.")
                % {"limit": NAME_LIMIT}
            )
        return names

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        names = [*cleaned.get("listed", ()), *cleaned.get("patterns", ())]
        default = cleaned.get("default_model")
        if default and not ModelGrant(model_names=names).allows(default):
            self.add_error("default_model", gettext("Choose one of the allowed models."))
        return cleaned

    def place_chosen(self) -> Team | Group:
        return self.places[self.cleaned_data["place"]][1]

    def terms(self) -> Terms:
        """The terms of a valid form."""
        data = self.cleaned_data
        limits = {each.name: data.get(LIMIT_PREFIX + each.name) for each in self.parameters}
        return Terms(
            model_names=[*data["listed"], *data["patterns"]],
            limits={name: most for name, most in limits.items() if most is not None},
            default_model=data["default_model"],
        )


def _limited_parameters(upstream: Upstream) -> list[Parameter]:
    dialect = DIALECTS.get(upstream.dialect)
    numbers = [
        each
        for each in (dialect.parameters if dialect else ())
        if each.kind in ("integer", "number") and each.name not in _WITHOUT_LIMIT
    ]
    # Tokens cost most, so they come first.
    return sorted(numbers, key=lambda each: "tokens" not in each.name)


def _limit_field(parameter: Parameter) -> forms.Field:
    make = forms.IntegerField if parameter.kind == "integer" else forms.FloatField
    return make(
        label=gettext(parameter.label),
        required=False,
        min_value=parameter.minimum,
        max_value=parameter.maximum,
    )


def _places() -> dict[str, tuple[str, Team | Group]]:
    """Every team, each followed by its groups, by the values of their options."""
    found: dict[str, tuple[str, Team | Group]] = {}
    for team in Team.objects.order_by("name", "pk").prefetch_related("groups"):
        found[team.public_id.hex] = (team.name, team)
        for group in team.groups.all():
            group.team = team
            found[f"group:{group.public_id.hex}"] = (f"{team.name} / {group.name}", group)
    return found
