"""Admission of people from a provider: a known identity, an account to connect, or a new account by policy."""

from __future__ import annotations

import re
from urllib.parse import unquote

from allauth.account.models import EmailAddress
from django.db import IntegrityError, transaction
from django.utils import timezone

from chat.accounts.actions import invitations
from chat.core.errors import ActionRefused
from chat.identity.claims import Person, is_of_domains
from chat.identity.rights import apply_rights, rights_of
from chat.models import (
    AuditEvent,
    Identity,
    IdentityProvider,
    Invitation,
    Membership,
    SignUp,
    User,
)

_INVITATION_PATH = re.compile(r"/invite/([^/?#]+)/")


class SignInRefused(Exception):
    """A sign-in at a provider that gets no access. ``reason`` is a word for the log; people see the same page for
    all of them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def admit(provider: IdentityProvider, person: Person, *, next_path: str = "") -> Identity:
    """The identity of a person whom the provider has just confirmed, with the rights of their groups applied. Raises
    ``SignInRefused``."""
    if person.lacks_groups:
        # Without them the person would lose what their groups give.
        raise SignInRefused("groups_not_in_token")
    try:
        with transaction.atomic():
            identity = _known(provider, person) or _connected(provider, person)
            identity = identity or _created(provider, person, next_path)
            apply_rights(identity.user)
    except IntegrityError:
        # Somebody else got this address or this identity at the same moment.
        raise SignInRefused("conflict") from None
    identity.user.refresh_from_db()
    return identity


def connect(provider: IdentityProvider, person: Person, user: User) -> Identity:
    """Connects the account of a signed-in person, whose address is the one that the provider has proven. Raises
    ``SignInRefused``."""
    if person.lacks_groups:
        raise SignInRefused("groups_not_in_token")
    if not person.is_proven or person.email != user.email.lower():
        raise SignInRefused("other_address")
    try:
        with transaction.atomic():
            found = Identity.objects.filter(provider=provider, sub=person.sub).first()
            if found is not None and found.user_id != user.pk:
                raise SignInRefused("other_account")
            identity = _known(provider, person) or _connect(provider, person, user)
            apply_rights(user)
    except IntegrityError:
        raise SignInRefused("conflict") from None
    return identity


def _known(provider: IdentityProvider, person: Person) -> Identity | None:
    rows = Identity.objects.select_related("user", "provider")
    identity = rows.filter(provider=provider, sub=person.sub).first()
    if identity is None:
        return None
    if not identity.user.is_active:
        raise SignInRefused("deactivated")
    identity.email, identity.groups = person.email, list(person.groups)
    identity.last_sign_in = timezone.now()
    identity.save(update_fields=["email", "groups", "last_sign_in"])
    return identity


def _connected(provider: IdentityProvider, person: Person) -> Identity | None:
    """The account with the person's address. Both sides have to have proven it: otherwise somebody could take an
    account by an address that they only claim, here or there."""
    if not person.email:
        return None
    # Both addresses are in small letters: databases disagree about those of other scripts, so none compares them here.
    user = User.objects.filter(email=person.email).first()
    if user is None:
        return None
    if not user.is_active:
        raise SignInRefused("deactivated")
    proven_here = EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True)
    if not person.is_proven or not proven_here.exists():
        raise SignInRefused("address_in_use")
    return _connect(provider, person, user)


def _connect(provider: IdentityProvider, person: Person, user: User) -> Identity:
    if Identity.objects.filter(provider=provider, user=user).exists():
        # The account belongs to another person there, who perhaps had this address before.
        raise SignInRefused("other_subject")
    identity = Identity.objects.create(
        provider=provider,
        sub=person.sub,
        user=user,
        email=person.email,
        groups=list(person.groups),
    )
    AuditEvent.objects.record(
        user, "identity.connected", subject=user, target=user.email, provider=provider.name
    )
    return identity


def _created(provider: IdentityProvider, person: Person, next_path: str) -> Identity:
    if not person.is_proven:
        raise SignInRefused("address_not_proven")
    if not is_of_domains(person.email, provider.domains):
        raise SignInRefused("domain")
    user = User(name=person.name or person.email.partition("@")[0][:80], email=person.email)
    user.set_unusable_password()
    user.save()
    AuditEvent.objects.record(
        user, "identity.account_created", subject=user, target=user.email, provider=provider.name
    )
    is_invited = _join_invited(user, next_path)
    if provider.sign_up == SignUp.INVITED and not is_invited:
        raise SignInRefused("not_invited")
    if not is_invited:
        _join_default_team(provider, person, user)
    return _connect(provider, person, user)


def _join_invited(user: User, next_path: str) -> bool:
    """Uses the invitation whose link the person has opened, and those for their address."""
    found = _INVITATION_PATH.fullmatch(next_path)
    opened = invitations.find(unquote(found[1])) if found else None
    # An invitation without an address is for anyone with the link.
    addressed = Invitation.objects.filter(
        email=user.email,
        used_at__isnull=True,
        revoked_at__isnull=True,
        expires_at__gt=timezone.now(),
    ).select_related("team", "invited_by")
    is_invited = False
    for invitation in [*([opened] if opened else []), *addressed]:
        try:
            with transaction.atomic():
                invitations.join(invitation, user)
        except ActionRefused:
            continue
        is_invited = True
    return is_invited


def _join_default_team(provider: IdentityProvider, person: Person, user: User) -> None:
    rights = rights_of(person.groups, provider.rules.all())
    if rights.roles or rights.is_administrator:
        return
    if provider.default_team_id is None:
        raise SignInRefused("no_team")
    team = provider.default_team
    Membership.objects.create(team=team, user=user, role=provider.default_role)
    AuditEvent.objects.record(
        user,
        "identity.team_joined",
        subject=user,
        target=team.name if team else "",
        provider=provider.name,
        role=provider.default_role,
    )
