"""Template tags: the providers on the sign-in page, and a person's own connections."""

from __future__ import annotations

from dataclasses import dataclass

from django import template

from chat import access
from chat.models import Identity, IdentityProvider, User

register = template.Library()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOptions:
    providers: list[IdentityProvider]
    has_passwords: bool


@register.simple_tag
def sign_in_options() -> SignInOptions:
    """How people sign in here. Without a provider there is nothing but passwords."""
    providers = list(access.enabled_providers())
    has_passwords = not providers or access.password_setting().is_on
    return SignInOptions(providers=providers, has_passwords=has_passwords)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    identities: list[Identity]
    connectable: list[IdentityProvider]
    uses_password: bool


@register.simple_tag
def connections_of(user: User) -> Connections:
    """The person's connections to providers, and those that they could have."""
    identities = Identity.objects.filter(user=user).select_related("provider")
    return Connections(
        identities=list(identities),
        connectable=list(access.connectable_providers(user)),
        uses_password=access.may_use_password(user),
    )
