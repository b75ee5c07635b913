"""Cases of sign-in at providers, and of their settings."""

from __future__ import annotations

from uuid import uuid4

from chat.models import (
    GroupRule,
    Identity,
    IdentityProvider,
    ManagedMembership,
    Membership,
    SignUp,
)
from tests.access_matrix.case import (
    ADMIN,
    Case,
    Outcome,
    Outcomes,
    Values,
    World,
    account_managers,
    administrators,
    everyone,
    signed_in_only,
    team_managers,
)


def _made(*, is_enabled: bool = True) -> IdentityProvider:
    """A provider at an address where nothing listens."""
    return IdentityProvider.objects.create(
        slug=f"p-{uuid4().hex[:12]}",
        name="Keycloak",
        issuer="http://127.0.0.1:9",
        client_id="tributary",
        is_enabled=is_enabled,
    )


def _provider(world: World) -> Values:
    return {"public_id": _made().public_id}


def _slug(world: World) -> Values:
    return {"slug": _made().slug}


def _disabled_slug(world: World) -> Values:
    return {"slug": _made(is_enabled=False).slug}


def _rule(world: World) -> Values:
    rule = GroupRule.objects.create(provider=_made(), claimed="staff", team=world.team)
    return {"public_id": rule.public_id}


def _identity(world: World) -> Values:
    made = Identity.objects.create(provider=_made(), sub="1", user=world.bob)
    return {"public_id": made.public_id}


def _fields(world: World) -> Values:
    return {
        "name": "Keycloak",
        "issuer": "http://127.0.0.1:9",
        "client_id": "tributary",
        "scopes": "openid",
        "sign_up": SignUp.INVITED,
        "default_role": "member",
    }


def _rule_fields(world: World) -> Values:
    return {"claimed": "staff", "team": world.team.public_id, "role": "member"}


def _on(world: World) -> Values:
    return {"is_on": "on"}


def _managed_bob(world: World) -> Values:
    """Bob's membership comes from a provider: who may change it is told why it can't be."""
    membership = Membership.objects.get(team=world.team, user=world.bob)
    made = Identity.objects.create(provider=_made(), sub="1", user=world.bob)
    ManagedMembership.objects.create(membership=membership, identity=made)
    return {"team_id": world.team.public_id, "person_id": world.bob.public_id}


def _managed_person(world: World) -> Values:
    return {"person_id": _managed_bob(world)["person_id"]}


def _admin_role(world: World) -> Values:
    return {"role": "admin"}


def for_administrators(outcome: Outcome) -> Outcomes:
    """What others can't know of: one provider."""
    return signed_in_only(404, **{ADMIN: outcome})


IDENTITY_CASES = [
    # Nothing listens at the provider's address; the page says that the sign-in failed.
    Case("provider_sign_in", everyone(403), "enabled", _slug, "post"),
    Case("provider_sign_in", everyone(404), "disabled", _disabled_slug, "post"),
    Case("provider_callback", everyone(403), "without state", _slug),
    Case("provider_logout", everyone(503), "enabled", _slug, "post"),
    Case("provider_logout", everyone(404), "disabled", _disabled_slug, "post"),
    Case("provider_connect", signed_in_only(302), "enabled", _slug, "post"),
    Case("provider_connect", signed_in_only(404), "disabled", _disabled_slug, "post"),
    Case("identity_providers", administrators(200)),
    Case("passwords", administrators(302), method="post", data=_on),
    Case("identity_provider_add", administrators(200)),
    Case("identity_provider_add", administrators(302), method="post", data=_fields),
    Case("identity_provider", for_administrators(200), kwargs=_provider),
    Case("identity_provider_settings", for_administrators(200), kwargs=_provider),
    Case("identity_provider_settings", for_administrators(302), "", _provider, "post", _fields),
    Case("identity_provider_test", for_administrators(200), "", _provider, "post"),
    Case("identity_provider_trial", for_administrators(302), "", _provider, "post"),
    Case("identity_provider_switch", for_administrators(302), "", _provider, "post"),
    Case("identity_provider_delete", for_administrators(302), "", _provider, "post"),
    Case("group_rule_add", for_administrators(302), "", _provider, "post", _rule_fields),
    Case("group_rule_remove", for_administrators(302), "", _rule, "post"),
    Case("member_role", team_managers(302), "managed", _managed_bob, "post", _admin_role),
    Case("member_remove", team_managers(302) | {"bob": 302}, "managed", _managed_bob, "post"),
    # Bob signs in at the provider, so he has no password to reset.
    Case("person_reset_link", account_managers(403), "managed", _managed_person, "post"),
    Case("identity_disconnect", for_administrators(302), "Bob", _identity, "post"),
]
