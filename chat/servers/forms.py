"""The form of a server's settings. Labels and options come from the dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, gettext_lazy

from chat.core.encryption import DecryptionError
from chat.core.errors import ActionRefused
from chat.core.text import check_name, one_line
from chat.dialects import DIALECTS
from chat.dialects.base import Dialect
from chat.models import Upstream
from chat.servers.actions.base_url import likely_base_url, normal_base_url
from chat.servers.actions.servers import (
    CONCURRENCY,
    MOST_CONCURRENT,
    NAME_LIMIT,
    ServerSettings,
    typed_models,
)
from chat.servers.kinds import ServerKind
from chat.servers.option_fields import (
    CLEAR_PREFIX,
    OPTION_PREFIX,
    PARAMETER_PREFIX,
    OptionRow,
    chosen,
    initial_of,
    option_fields,
    option_rows,
    options_of,
    parameter_fields,
    parameters_of,
    secret_names,
)

# A longer list is a mistake, such as a pasted file.
TYPED_MODELS_LIMIT = 200
KEY_LIMIT = 4000


# The field beside which a step of the connection test is shown.
_FIELDS = {"address": "base_url", "key": "key", "model": "typed_models"}
# Fields of every API type, apart from the key, which is never sent back.
_KEPT = ("name", "base_url", "concurrency_limit", "typed_models")


class UpstreamForm(forms.Form):
    """All settings of a server except whether it is enabled. Keys and secret options are written,
    never read.

    ``typed`` is the current content of the form when the user picks another ``dialect``: options of
    the same name keep their values. ``kind`` fills in the form of a new server, and ``address`` its
    address.
    """

    # The address that was probably meant, for a button beside the field.
    correction = ""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        help_text=gettext_lazy(
            "Shown in the model picker, such as “LM Studio in the server room”."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    dialect = forms.ChoiceField(label=gettext_lazy("API type"))
    base_url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "off",
                "autocapitalize": "none",
                "spellcheck": "false",
                "inputmode": "url",
                "placeholder": "http://localhost:1234",
            }
        ),
    )
    key = forms.CharField(
        label=gettext_lazy("API key"),
        required=False,
        max_length=KEY_LIMIT,
        strip=True,
        widget=forms.PasswordInput(
            render_value=False, attrs={"autocomplete": "new-password", "spellcheck": "false"}
        ),
    )
    clear_key = forms.BooleanField(required=False, label=gettext_lazy("Remove the stored key"))
    concurrency_limit = forms.IntegerField(
        label=gettext_lazy("Concurrent answers"),
        min_value=1,
        max_value=MOST_CONCURRENT,
        initial=CONCURRENCY,
        help_text=gettext_lazy(
            "Further messages are queued. One GPU usually handles one to four answers at a time."
        ),
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
    )
    typed_models = forms.CharField(
        label=gettext_lazy("Additional models"),
        required=False,
        max_length=TYPED_MODELS_LIMIT * (NAME_LIMIT + 1),
        help_text=gettext_lazy("Names of models that the server doesn’t list, one per line."),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
    )

    def __init__(
        self,
        data: Mapping[str, object] | None = None,
        *,
        upstream: Upstream | None = None,
        dialect: str = "",
        typed: Mapping[str, object] | None = None,
        kind: ServerKind | None = None,
        address: str = "",
    ) -> None:
        super().__init__(data, initial=_initial(upstream, dialect, kind), label_suffix="")
        self.upstream = upstream
        self.kind = kind
        self.passed: dict[str, str] = {}
        self.fields["dialect"].choices = [
            (name, gettext(dialect.label))
            for name, dialect in sorted(DIALECTS.items(), key=lambda pair: pair[1].label)
        ]
        self.shown_dialect = self._shown_dialect()
        self.fields |= option_fields(self.shown_dialect, stored=_stored_secrets(upstream))
        self.fields |= parameter_fields(self.shown_dialect)
        typed = typed or {}
        self.initial |= {name: typed[name] for name in _KEPT if name in typed}
        self.initial |= self._initial_of_dialect(typed)
        if address:
            self.initial["base_url"] = address
        if upstream is None or not upstream.has_key:
            del self.fields["clear_key"]
        if upstream is not None and upstream.is_demo:
            self.fields["base_url"].disabled = True

    def _shown_dialect(self) -> Dialect | None:
        name = self.data.get("dialect") if self.is_bound else self.initial.get("dialect")
        return DIALECTS.get(str(name)) or next(iter(DIALECTS.values()), None)

    def _initial_of_dialect(self, typed: Mapping[str, object]) -> dict[str, object]:
        filled_in = self.kind.options if self.kind else {}
        options = self.upstream.options if self.upstream else filled_in
        parameters = self.upstream.parameters if self.upstream else {}
        shown = self.shown_dialect
        return {
            **initial_of(options_of(shown), OPTION_PREFIX, stored=options, typed=typed),
            **initial_of(parameters_of(shown), PARAMETER_PREFIX, stored=parameters, typed=typed),
        }

    @property
    def dialect_help(self) -> str:
        return gettext(self.shown_dialect.help) if self.shown_dialect else ""

    @property
    def option_rows(self) -> list[OptionRow]:
        return option_rows(self, self.shown_dialect)

    @property
    def has_option_errors(self) -> bool:
        return any(row.field.errors for row in self.option_rows)

    @property
    def parameter_rows(self) -> list[forms.BoundField]:
        return [self[PARAMETER_PREFIX + each.name] for each in parameters_of(self.shown_dialect)]

    @property
    def has_parameter_errors(self) -> bool:
        return any(bound.errors for bound in self.parameter_rows)

    def show_test(self, steps: Iterable[Mapping[str, object]]) -> None:
        """Puts what a connection test of this bound form has found beside the fields: why it failed, with
        the focus on the first one; and what passed, in ``passed``."""
        for step in steps:
            name, text = _FIELDS[str(step["subject"])], str(step["text"])
            if step["state"] == "failed":
                self.correction = self.correction or str(step["correction"])
                self.add_error(name, text)
            elif step["state"] == "ok":
                self.passed.setdefault(name, text)
        for name in self.errors:
            self.passed.pop(name, None)
        for name in self.passed:
            own = self[name].auto_id
            self.fields[name].widget.attrs["aria-describedby"] = f"{own}_passed {own}_helptext"
        if self.errors and not self.correction:
            first = next(name for name in self.fields if name in self.errors)
            self.fields[first].widget.attrs["autofocus"] = True

    def clean_name(self) -> str:
        name = one_line(self.cleaned_data["name"])
        check_name(name)
        others = Upstream.objects.filter(name=name)
        if self.upstream is not None:
            others = others.exclude(pk=self.upstream.pk)
        if others.exists():
            raise ValidationError(gettext("Another server already has this name."))
        return name

    def clean_base_url(self) -> str:
        try:
            return normal_base_url(self.cleaned_data["base_url"])
        except ActionRefused as refusal:
            self.correction = likely_base_url(self.cleaned_data["base_url"])
            raise ValidationError(str(refusal)) from None

    def clean_key(self) -> str:
        key = self.cleaned_data["key"]
        # The key is sent in a header, and a line break would start another header.
        if any(not "!" <= letter <= "~" for letter in key):
            raise ValidationError(
                gettext(
                    "An API key can’t contain spaces, line breaks or special characters. "
                    "Paste it again."
                )
            )
        return key

    def clean_typed_models(self) -> list[str]:
        lines = (line.strip() for line in self.cleaned_data["typed_models"].splitlines())
        names = list(dict.fromkeys(line for line in lines if line))
        if len(names) > TYPED_MODELS_LIMIT:
            raise ValidationError(
                gettext("Enter at most %(limit)d names.") % {"limit": TYPED_MODELS_LIMIT}
            )
        if any(len(name) > NAME_LIMIT or not name.isprintable() for name in names):
            raise ValidationError(
                gettext("Each name must be one line of at most %(limit)d visible characters.")
                % {"limit": NAME_LIMIT}
            )
        return names

    def settings(self) -> ServerSettings:
        """The settings of a valid form."""
        data = self.cleaned_data
        shown = self.shown_dialect
        options = chosen(options_of(shown), OPTION_PREFIX, data)
        secrets = secret_names(shown)
        cleared = {name for name in secrets if data.get(CLEAR_PREFIX + name)}
        return ServerSettings(
            name=data["name"],
            dialect=data["dialect"],
            base_url=data["base_url"],
            concurrency_limit=data["concurrency_limit"],
            options={name: value for name, value in options.items() if name not in secrets},
            secret_options={name: value for name, value in options.items() if name in secrets},
            kept_secrets=secrets - cleared,
            parameters=chosen(parameters_of(shown), PARAMETER_PREFIX, data),
            typed_models=data["typed_models"],
            key=data["key"],
            clear_key=bool(data.get("clear_key")),
        )


def _stored_secrets(upstream: Upstream | None) -> set[str]:
    """The names of the secret options that have a value."""
    if upstream is None:
        return set()
    try:
        return set(upstream.open_secret_options())
    except DecryptionError:
        # Secrets that the present keys can't decrypt must be entered again.
        return set()


def _initial(upstream: Upstream | None, dialect: str, kind: ServerKind | None) -> dict[str, object]:
    if upstream is None and kind is not None:
        return {
            "name": "" if Upstream.objects.filter(name=kind.name).exists() else kind.name,
            "dialect": dialect or kind.dialect,
            "base_url": kind.base_url,
            "typed_models": "\n".join(kind.models),
        }
    if upstream is None:
        return {"dialect": dialect or "openai_chat"}
    return {
        "name": upstream.name,
        "dialect": dialect or upstream.dialect,
        "base_url": upstream.base_url,
        "concurrency_limit": upstream.concurrency_limit,
        "typed_models": "\n".join(typed_models(upstream)),
    }
