"""Providers that people sign in at, and what they manage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.http import Http404
from django.utils import timezone

from chat.access.not_here import NOT_HERE, existing
from chat.models import (
    Group,
    GroupRule,
    Identity,
    IdentityProvider,
    ManagedMembership,
    Membership,
    PasswordSetting,
    User,
)


def enabled_providers() -> QuerySet[IdentityProvider]:
    """The providers that the sign-in page offers to everybody."""
    return IdentityProvider.objects.filter(is_enabled=True)


def get_enabled_provider(slug: str) -> IdentityProvider:
    """Raises ``Http404``."""
    return existing(enabled_providers().filter(slug=slug).first())


def get_identity_provider(user: User, public_id: UUID) -> IdentityProvider:
    """A provider's settings: for administrators only; for everyone else it does not exist."""
    is_administrator = user.is_authenticated and user.is_active and user.is_staff
    found = IdentityProvider.objects.filter(public_id=public_id).first()
    if not is_administrator or found is None:
        raise Http404(NOT_HERE)
    return found


def get_group_rule(user: User, public_id: UUID) -> GroupRule:
    """A rule of a provider, for administrators only. Raises ``Http404``."""
    found = existing(
        GroupRule.objects.filter(public_id=public_id).select_related("provider").first()
    )
    found.provider = get_identity_provider(user, found.provider.public_id)
    return found


def get_identity(user: User, public_id: UUID) -> Identity:
    """The connection of anybody to a provider, for administrators only. Raises ``Http404``."""
    found = Identity.objects.filter(public_id=public_id).select_related("provider", "user").first()
    is_administrator = user.is_authenticated and user.is_active and user.is_staff
    if found is None or not is_administrator:
        raise Http404(NOT_HERE)
    return found


def connectable_providers(user: User) -> QuerySet[IdentityProvider]:
    """The enabled providers that this person's account is not connected to."""
    return enabled_providers().exclude(identities__user=user)


# --- what providers manage ----------------------------------------------------------------------------


def managers_of_memberships(memberships: Iterable[Membership]) -> Mapping[int, str]:
    """The names of the providers that decide about these memberships, by the key of the membership."""
    rows = ManagedMembership.objects.filter(membership__in=[each.pk for each in memberships])
    return dict(rows.values_list("membership", "identity__provider__name"))


def manager_of(membership: Membership) -> str:
    """The name of the provider that decides about this membership; empty: people do."""
    return managers_of_memberships([membership]).get(membership.pk, "")


def managing_provider_in(group: Group) -> Subquery:
    """For a query of people: the name of the provider that decides whether they are in this group, or null."""
    rows = Identity.objects.filter(user=OuterRef("pk"), provider__rules__group=group)
    return Subquery(rows.values("provider__name")[:1])


def manager_in_group(user: User, group: Group) -> str:
    """The name of the provider that decides whether this person is in this group of a team; empty: people do."""
    rows = Identity.objects.filter(user=user, provider__rules__group=group)
    return rows.values_list("provider__name", flat=True).first() or ""


def manager_of_administrator(user: User) -> str:
    """The name of the provider that decides whether this person is an administrator; empty: people do."""
    if user.is_superuser or password_setting().emergency_account_id == user.pk:
        return ""
    rows = Identity.objects.filter(user=user, manages_administrator=True)
    return rows.values_list("provider__name", flat=True).first() or ""


def providers_of_people(people: Iterable[User]) -> Mapping[int, str]:
    """The names of the providers that these people sign in at, by the key of the person."""
    rows = Identity.objects.filter(user__in=[each.pk for each in people]).order_by("pk")
    return dict(rows.values_list("user", "provider__name"))


def has_left(user_path: str = "user") -> Q:
    """The condition that a row is of somebody who comes from a provider, and has not signed in there for
    ``PROVIDER_TOKEN_DAYS``: nobody has confirmed since that they still belong to the company."""
    theirs = Identity.objects.filter(user=OuterRef(user_path))
    since = timezone.now() - timedelta(days=settings.PROVIDER_TOKEN_DAYS)
    return Q(Exists(theirs)) & ~Q(Exists(theirs.filter(last_sign_in__gt=since)))


# --- passwords ----------------------------------------------------------------------------------------


def password_setting() -> PasswordSetting:
    return PasswordSetting.objects.first() or PasswordSetting()


def people_with_passwords() -> QuerySet[User]:
    """Everybody for whom `may_use_password` is true."""
    setting = password_setting()
    emergency = Q(pk=setting.emergency_account_id)
    if not setting.is_on:
        return User.objects.filter(emergency)
    managed = Identity.objects.filter(user=OuterRef("pk"), provider__is_enabled=True)
    return User.objects.filter(emergency | Q(is_superuser=True) | ~Exists(managed))


def may_use_password(user: User) -> bool:
    """Returns whether the person may sign in with a password. Those who come from a provider may not, because the
    company could not take it from them; the emergency account and the person who set up the installation may."""
    return people_with_passwords().filter(pk=user.pk).exists()
