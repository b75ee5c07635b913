"""Forms of providers, the rules for their groups, and passwords."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from chat.identity.claims import GROUP_LENGTH
from chat.identity.metadata import issuer_of
from chat.identity.providers import Connection, Policy
from chat.models import Group, IdentityProvider, SignUp, Team, TeamRole, User
from chat.models.identity import USUAL_SCOPES
from chat.tools.sign_in.metadata import checked_address, is_encrypted
from chat.web.forms import NameField

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def _line(**attrs: str) -> forms.TextInput:
    return forms.TextInput(
        attrs={"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", **attrs}
    )


class ProviderForm(forms.Form):
    name = NameField(
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("People see it on the sign-in page: “Continue with …”."),
    )
    issuer = forms.CharField(
        label=gettext_lazy("Discovery address"),
        max_length=500,
        widget=_line(inputmode="url"),
        help_text=gettext_lazy(
            "The issuer of the provider, such as https://login.example.com/realms/main. Its discovery document is "
            "below it at /.well-known/openid-configuration."
        ),
    )
    client_id = forms.CharField(label=gettext_lazy("Client ID"), max_length=500, widget=_line())
    client_secret = forms.CharField(
        label=gettext_lazy("Client secret"),
        required=False,
        max_length=2000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Stored encrypted and never shown again."),
    )
    scopes = forms.CharField(
        label=gettext_lazy("Scopes"), max_length=500, initial=USUAL_SCOPES, widget=_line()
    )
    groups_claim = forms.CharField(
        label=gettext_lazy("Claim with groups or roles"),
        required=False,
        max_length=200,
        widget=_line(placeholder="groups"),
        help_text=gettext_lazy(
            "Its name, or a path such as realm_access.roles. Leave empty if people here decide about teams and roles."
        ),
    )
    proves_addresses = forms.BooleanField(
        label=gettext_lazy("Email addresses of this provider are verified"),
        required=False,
        help_text=gettext_lazy(
            "Only for directories in which people can’t choose their address, such as Entra ID of your company. "
            "Otherwise the claim email_verified decides."
        ),
    )
    sign_up = forms.ChoiceField(
        label=gettext_lazy("People without an account"), choices=SignUp.choices
    )
    domains = forms.CharField(
        label=gettext_lazy("Only these email domains"),
        required=False,
        max_length=1000,
        widget=_line(placeholder="example.com"),
        help_text=gettext_lazy("For new accounts. Separate several by spaces."),
    )
    default_team = forms.ModelChoiceField(
        label=gettext_lazy("Team of new people"),
        queryset=Team.objects.none(),
        to_field_name="public_id",
        required=False,
        empty_label=gettext_lazy("None"),
        help_text=gettext_lazy(
            "For those whose groups lead to no team, and who have no invitation."
        ),
    )
    default_role = forms.ChoiceField(label=gettext_lazy("Their role"), choices=TeamRole.choices)

    # The fields that `OIDC_PROVIDERS` sets.
    CONNECTION = ("name", "issuer", "client_id", "client_secret", "scopes")

    def __init__(
        self,
        data: Any = None,
        *,
        teams: QuerySet[Team],
        provider: IdentityProvider | None = None,
    ) -> None:
        super().__init__(data)
        self.provider = provider
        self.fields["default_team"].queryset = teams
        self.initial["default_role"] = TeamRole.MEMBER
        if provider is None:
            return
        names = [name for name in self.fields if name != "client_secret"]
        self.initial |= {name: getattr(provider, name) for name in names}
        self.initial["default_team"] = provider.default_team and provider.default_team.public_id
        if provider.has_secret:
            self.fields["client_secret"].help_text = gettext_lazy(
                "A secret is stored. Leave empty to keep it."
            )
        if provider.is_from_environment:
            for name in self.CONNECTION:
                self.fields[name].disabled = True
                self.fields[name].required = False

    def clean_issuer(self) -> str:
        issuer = issuer_of(self.cleaned_data["issuer"])
        if self.fields["issuer"].disabled:
            return issuer
        if not checked_address(issuer) or "?" in issuer:
            raise ValidationError(gettext("Enter an address that begins with https://."))
        if settings.IS_SECURE and not is_encrypted(issuer):
            raise ValidationError(gettext("The address has to begin with https://."))
        return issuer

    def clean_scopes(self) -> str:
        scopes = self.cleaned_data["scopes"].split()
        if not self.fields["scopes"].disabled and "openid" not in scopes:
            raise ValidationError(gettext("The scope openid is needed."))
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise ValidationError(gettext("Separate scopes by spaces."))
        return " ".join(dict.fromkeys(scopes))

    def clean_domains(self) -> str:
        domains = re.split(r"[\s,;]+", self.cleaned_data["domains"].lower().strip())
        domains = [domain.removeprefix("@") for domain in domains if domain]
        for domain in domains:
            if not _DOMAIN.fullmatch(domain):
                text = gettext("%(domain)s isn’t a domain such as example.com.")
                raise ValidationError(text % {"domain": domain})
        return " ".join(dict.fromkeys(domains))

    @property
    def connection(self) -> Connection:
        values = self.cleaned_data
        return Connection(
            name=values["name"],
            issuer=values["issuer"],
            client_id=values["client_id"].strip(),
            secret=values["client_secret"].strip() or None,
            scopes=values["scopes"],
        )

    @property
    def policy(self) -> Policy:
        values = self.cleaned_data
        return Policy(
            groups_claim=values["groups_claim"].strip(),
            proves_addresses=values["proves_addresses"],
            sign_up=SignUp(values["sign_up"]),
            domains=values["domains"],
            default_team=values["default_team"],
            default_role=values["default_role"],
        )


class RuleForm(forms.Form):
    claimed = forms.CharField(
        label=gettext_lazy("Group or role at the provider"),
        max_length=GROUP_LENGTH,
        widget=_line(),
        help_text=gettext_lazy(
            "As the claim has it. Groups below it count, too: /sales stands for /sales/europe."
        ),
    )
    team = forms.ModelChoiceField(
        label=gettext_lazy("Team"),
        queryset=Team.objects.none(),
        to_field_name="public_id",
        required=False,
        empty_label=gettext_lazy("None"),
    )
    role = forms.ChoiceField(
        label=gettext_lazy("Role in the team"), choices=TeamRole.choices, initial=TeamRole.MEMBER
    )
    group = forms.ModelChoiceField(
        label=gettext_lazy("Group of the team"),
        queryset=Group.objects.none(),
        to_field_name="public_id",
        required=False,
        empty_label=gettext_lazy("None"),
    )
    makes_administrator = forms.BooleanField(
        label=gettext_lazy("Administrator of this installation"), required=False
    )

    def __init__(self, data: Any = None, *, teams: QuerySet[Team]) -> None:
        super().__init__(data)
        self.fields["team"].queryset = teams
        groups = Group.objects.filter(team__in=teams).select_related("team")
        self.fields["group"].queryset = groups.order_by("team__name", "name")
        self.fields["group"].label_from_instance = lambda group: f"{group.team}: {group}"
        if not groups.exists():
            self.fields["group"].widget = forms.HiddenInput()

    def clean_claimed(self) -> str:
        claimed = self.cleaned_data["claimed"].strip()
        if not claimed.strip("/") or not claimed.isprintable():
            raise ValidationError(gettext("Enter the name of a group."))
        return claimed


class PasswordsForm(forms.Form):
    is_on = forms.BooleanField(
        label=gettext_lazy("People can sign in with a password"), required=False
    )
    emergency_account = forms.ModelChoiceField(
        label=gettext_lazy("Emergency account"),
        queryset=User.objects.none(),
        to_field_name="public_id",
        required=False,
        empty_label=gettext_lazy("None"),
        help_text=gettext_lazy(
            "An administrator whose password always works, for the day when the provider doesn’t. Each sign-in with it "
            "is recorded in the audit log."
        ),
    )

    def __init__(self, data: Any = None, *, administrators: QuerySet[User], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        field = self.fields["emergency_account"]
        field.queryset = administrators
        field.label_from_instance = lambda user: f"{user} ({user.email})"
