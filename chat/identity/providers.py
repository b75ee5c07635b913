"""Changes of providers, of the rules for their groups, of connections to them, and of sign-in with passwords."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from django.conf import settings
from django.db import transaction
from django.utils.text import slugify
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, storage_errors
from chat.identity import asking
from chat.identity.sessions import end_local_sessions, end_rows
from chat.models import (
    AuditEvent,
    Group,
    GroupRule,
    Identity,
    IdentityProvider,
    PasswordSetting,
    ProviderSession,
    SignUp,
    Team,
    User,
)

logger = logging.getLogger(__name__)

MOST_PROVIDERS = 20
MOST_RULES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How this installation reaches a provider. ``secret`` is ``None`` if the stored one stays."""

    name: str
    issuer: str
    client_id: str
    secret: str | None = field(repr=False)
    scopes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for new accounts, and how addresses and groups are read."""

    groups_claim: str
    proves_addresses: bool
    sign_up: SignUp
    domains: str
    default_team: Team | None
    default_role: str


def add_provider(user: User, connection: Connection, policy: Policy) -> IdentityProvider:
    """Adds a provider that nobody can use yet. Raises ``ActionRefused``."""
    provider = IdentityProvider(name=connection.name)
    with storage_errors(), transaction.atomic():
        if IdentityProvider.objects.count() >= MOST_PROVIDERS:
            raise ActionRefused(
                gettext("You’ve reached the limit of %(count)d providers.")
                % {"count": MOST_PROVIDERS}
            )
        provider.slug = _free_slug(connection.name)
        _set_connection(provider, connection)
        _set_policy(provider, policy)
        provider.save()
        _audit(user, "identity_provider.added", provider, address=provider.issuer)
    return provider


def _free_slug(name: str) -> str:
    base = slugify(name)[:30] or "provider"
    taken = set(IdentityProvider.objects.values_list("slug", flat=True))
    taken |= set(settings.OIDC_PROVIDERS)
    numbered = (f"{base}-{number}" for number in range(2, MOST_PROVIDERS + 30))
    return next(slug for slug in (base, *numbered) if slug not in taken)


def change_provider(
    user: User, provider: IdentityProvider, connection: Connection | None, policy: Policy
) -> None:
    """Changes a provider; without ``connection`` the environment has it. Raises ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        provider = IdentityProvider.objects.select_for_update().get(pk=provider.pk)
        if connection is not None and not provider.is_from_environment:
            _check_issuer(provider, connection)
            _set_connection(provider, connection)
        _set_policy(provider, policy)
        provider.save()
        _audit(user, "identity_provider.changed", provider, address=provider.issuer)
    asking.forget(provider.issuer)


def _check_issuer(provider: IdentityProvider, connection: Connection) -> None:
    if connection.issuer == provider.issuer:
        return
    if provider.identities.exists():
        # A subject stands for another person at another issuer.
        raise ActionRefused(
            gettext(
                "People have signed in at this provider, so its address can’t change. Add another provider instead."
            )
        )
    if provider.sealed_secret and connection.secret is None:
        raise ActionRefused(
            gettext("The stored client secret belongs to the previous address. Enter it again.")
        )


def _set_connection(provider: IdentityProvider, connection: Connection) -> None:
    provider.name, provider.issuer = connection.name, connection.issuer
    provider.client_id, provider.scopes = connection.client_id, connection.scopes
    if connection.secret is not None:
        provider.set_secret(connection.secret)


def _set_policy(provider: IdentityProvider, policy: Policy) -> None:
    provider.groups_claim = policy.groups_claim
    provider.proves_addresses = policy.proves_addresses
    provider.sign_up, provider.domains = policy.sign_up, policy.domains
    provider.default_team, provider.default_role = policy.default_team, policy.default_role


def switch_provider(user: User, provider: IdentityProvider, *, is_on: bool, keep: str = "") -> None:
    """Offers the provider at sign-in, or ends that with all sessions of it. Its people use no password while it is on,
    so their sessions that began with one end; ``keep`` is the key of one that stays. Raises ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        if not is_on:
            _keep_a_way_in(provider)
        changed = IdentityProvider.objects.filter(pk=provider.pk, is_enabled=not is_on).update(
            is_enabled=is_on
        )
        if not changed:
            return
        if not is_on:
            end_rows(list(ProviderSession.objects.filter(identity__provider=provider)))
        else:
            end_local_sessions(keep=keep)
        verb = "identity_provider.turned_on" if is_on else "identity_provider.turned_off"
        _audit(user, verb, provider)


def delete_provider(user: User, provider: IdentityProvider) -> None:
    """Deletes the provider and the connections of people to it; their accounts and memberships stay. Raises
    ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        if provider.is_from_environment and provider.slug in settings.OIDC_PROVIDERS:
            raise ActionRefused(
                gettext("OIDC_PROVIDERS names this provider. Remove it there, and restart.")
            )
        _keep_a_way_in(provider)
        end_rows(list(ProviderSession.objects.filter(identity__provider=provider)))
        people = provider.identities.count()
        IdentityProvider.objects.filter(pk=provider.pk).delete()
        _audit(user, "identity_provider.deleted", provider, count=people)


def _keep_a_way_in(provider: IdentityProvider) -> None:
    others = IdentityProvider.objects.filter(is_enabled=True).exclude(pk=provider.pk)
    if not _passwords().is_on and not others.exists():
        raise ActionRefused(gettext("Nobody could sign in any more. Turn on passwords first."))


# --- rules for groups ---------------------------------------------------------------------------------


def add_rule(
    user: User,
    provider: IdentityProvider,
    *,
    claimed: str,
    team: Team | None,
    role: str,
    group: Group | None,
    makes_administrator: bool,
) -> GroupRule:
    """Says what a group of the provider means here, from each person's next sign-in on. Raises ``ActionRefused``."""
    if group is not None and (team is None or group.team_id != team.pk):
        raise ActionRefused(gettext("Choose a group of the same team."))
    if team is None and not makes_administrator:
        raise ActionRefused(gettext("Choose a team, or administrator rights."))
    with storage_errors(), transaction.atomic():
        if provider.rules.count() >= MOST_RULES:
            raise ActionRefused(
                gettext("You’ve reached the limit of %(count)d groups.") % {"count": MOST_RULES}
            )
        rule = GroupRule.objects.create(
            provider=provider,
            claimed=claimed,
            team=team,
            role=role,
            group=group,
            makes_administrator=makes_administrator,
        )
        _audit_rule(user, "identity_provider.group_added", rule)
    return rule


def remove_rule(user: User, rule: GroupRule) -> None:
    with storage_errors(), transaction.atomic():
        removed, _ = GroupRule.objects.filter(pk=rule.pk).delete()
        if removed:
            _audit_rule(user, "identity_provider.group_removed", rule)


def _audit_rule(user: User, verb: str, rule: GroupRule) -> None:
    team = rule.team.name if rule.team else ""
    _audit(
        user,
        verb,
        rule.provider,
        group=rule.claimed,
        team=team,
        role=rule.role if rule.team_id else "",
        is_administrator=rule.makes_administrator,
    )


# --- connections of people --------------------------------------------------------------------------------


def disconnect(user: User, identity: Identity) -> None:
    """Ends the connection of a person to a provider, with its sessions. What their groups gave them stays, and people
    decide about it from now on."""
    with storage_errors(), transaction.atomic():
        end_rows(list(ProviderSession.objects.filter(identity=identity)))
        removed, _ = Identity.objects.filter(pk=identity.pk).delete()
        if removed:
            AuditEvent.objects.record(
                user,
                "identity.disconnected",
                subject=identity.user,
                target=identity.user.email,
                provider=identity.provider.name,
            )


# --- passwords --------------------------------------------------------------------------------------------


def _passwords() -> PasswordSetting:
    return PasswordSetting.objects.select_for_update().first() or PasswordSetting()


def set_passwords(
    user: User, *, is_on: bool, emergency_account: User | None, keep: str = ""
) -> None:
    """Turns sign-in with passwords on or off. Off, only the emergency account has one, and sessions that began with
    another one end; ``keep`` is the key of one that stays. Raises ``ActionRefused``."""
    with storage_errors(), transaction.atomic():
        setting = _passwords()
        if emergency_account is not None:
            _check_emergency(emergency_account)
        if not is_on:
            _check_off(user, emergency_account)
        setting.is_on, setting.emergency_account = is_on, emergency_account
        setting.save()
        end_local_sessions(keep=keep)
        AuditEvent.objects.record(
            user,
            "installation.passwords_turned_on" if is_on else "installation.passwords_turned_off",
            subject=emergency_account,
            target=emergency_account.email if emergency_account else "",
        )


def _check_emergency(account: User) -> None:
    if not (account.is_active and account.is_staff and account.has_usable_password()):
        raise ActionRefused(
            gettext("The emergency account has to be an active administrator with a password.")
        )


def _check_off(user: User, emergency_account: User | None) -> None:
    if emergency_account is None:
        raise ActionRefused(gettext("Choose an emergency account first."))
    if not IdentityProvider.objects.filter(is_enabled=True).exists():
        raise ActionRefused(gettext("Turn on a provider first, or nobody could sign in."))
    is_connected = Identity.objects.filter(user=user, provider__is_enabled=True).exists()
    if not is_connected and emergency_account.pk != user.pk:
        raise ActionRefused(
            gettext(
                "Connect your own account to a provider first, or you’d be signed out for good."
            )
        )


def _audit(user: User | None, verb: str, provider: IdentityProvider, **detail: object) -> None:
    AuditEvent.objects.record(user, verb, target=provider.name, **detail)


# --- the environment -----------------------------------------------------------------------------------------


def adopt_environment() -> None:
    """Makes the providers of ``OIDC_PROVIDERS`` records, and turns off those that it no longer names. Each process that
    serves calls this at its start."""
    for slug, values in settings.OIDC_PROVIDERS.items():
        with transaction.atomic():
            provider = IdentityProvider.objects.select_for_update().filter(slug=slug).first()
            _adopt(provider or IdentityProvider(slug=slug), values)
    gone = IdentityProvider.objects.filter(is_from_environment=True, is_enabled=True)
    gone.exclude(slug__in=list(settings.OIDC_PROVIDERS)).update(is_enabled=False)


def _adopt(provider: IdentityProvider, values: dict[str, str]) -> None:
    if provider.pk is not None and not provider.is_from_environment:
        logger.error("identity.name_taken provider=%s", provider.slug)
        return
    is_new = provider.pk is None
    if not is_new and provider.issuer != values["issuer"] and provider.identities.exists():
        # A subject stands for another person at another issuer.
        logger.error("identity.issuer_changed provider=%s", provider.slug)
        IdentityProvider.objects.filter(pk=provider.pk).update(is_enabled=False)
        return
    provider.is_from_environment = True
    provider.name, provider.issuer = values["name"], values["issuer"]
    provider.client_id, provider.scopes = values["client_id"], values["scopes"]
    if values["groups_claim"] or is_new:
        provider.groups_claim = values["groups_claim"]
    if is_new:
        provider.is_enabled = True
    provider.save()
