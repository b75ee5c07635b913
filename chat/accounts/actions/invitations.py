"""Invitations into a team: links for an address or for several people, sent by mail where that is set up.

The caller has fetched every object through ``chat.access``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import BigIntegerField, Case, DateTimeField, F, Q, QuerySet, Value, When
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.accounts import invitation_mail
from chat.accounts.actions.people import check_grant, grantable_roles
from chat.core.errors import ActionRefused
from chat.core.rate_limits import is_within_limit
from chat.models import AuditEvent, Invitation, InvitationUse, Membership, Team, User

DAYS_LIMIT = 30
# A link for more people is as good as public.
PEOPLE_LIMIT = 200
# Addresses of one form. They are mailed while the page waits.
ADDRESSES_LIMIT = 30
# Mails of one person in a minute: nobody can use the installation to send mail to strangers in bulk.
MAILS_PER_MINUTE = 60
# Refusals of a link in a minute because an address has an account. More would ask who has one.
KNOWN_PER_MINUTE = 5
# An address gets another mail with an invitation after this time at the earliest.
RESEND_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation with its link, which is shown or sent once: only its hash is stored."""

    invitation: Invitation
    link: str = field(repr=False)
    is_sent: bool = False


def invite(
    user: User, team: Team, *, role: str, email: str = "", days: int, people: int = 1
) -> tuple[Invitation, str]:
    """Creates an invitation for one address or a number of people, and its link, without sending it."""
    [new] = _create(user, team, [email], role=role, days=days, people=people)
    return new.invitation, new.link


def invite_addresses(
    user: User, team: Team, emails: Sequence[str], *, role: str, days: int
) -> list[NewInvitation]:
    """An invitation for each address, by mail if a server is set up. Raises ``ActionRefused``, and creates
    none then."""
    _refuse_known(team, emails)
    _check_mail_limit(user, len(emails))
    return _send(user, _create(user, team, emails, role=role, days=days, people=1))


def _create(
    user: User, team: Team, emails: Sequence[str], *, role: str, days: int, people: int
) -> list[NewInvitation]:
    check_grant(user, team, role)
    made = []
    with transaction.atomic():
        for email in emails:
            token = secrets.token_urlsafe(32)
            invitation = Invitation.objects.create(
                team=team,
                role=role,
                email=email.lower(),
                token_hash=_hash(token),
                invited_by=user,
                max_uses=1 if email else min(people, PEOPLE_LIMIT),
                expires_at=timezone.now() + timedelta(days=min(days, DAYS_LIMIT)),
            )
            AuditEvent.objects.record(
                user, "invitation.created", target=team.name, role=role, email=invitation.email
            )
            made.append(NewInvitation(invitation, _link(token)))
    return made


def _refuse_known(team: Team, emails: Sequence[str]) -> None:
    """Refuses addresses of members and of open invitations, which the person who invites can see in the list."""
    members = Membership.objects.filter(team=team, user__email__in=emails)
    if known := sorted(members.values_list("user__email", flat=True)):
        text = gettext("Already on the team: %(emails)s")
        raise ActionRefused(text % {"emails": ", ".join(known)})
    invitations = Invitation.objects.filter(
        team=team,
        email__in=emails,
        used_at__isnull=True,
        revoked_at__isnull=True,
        expires_at__gt=timezone.now(),
    )
    if known := sorted(set(invitations.values_list("email", flat=True))):
        text = gettext("Already invited: %(emails)s. Resend or revoke those invitations instead.")
        raise ActionRefused(text % {"emails": ", ".join(known)})


def _check_mail_limit(user: User, count: int) -> None:
    if not settings.EMAIL_HOST:
        return
    if not is_within_limit("invitation-mail", user.pk, MAILS_PER_MINUTE, count):
        raise ActionRefused(gettext("You’re inviting too many people at once. Wait a minute."))


def _send(user: User, made: list[NewInvitation]) -> list[NewInvitation]:
    """Sends what can be sent, after the transaction, which must not wait for a mail server."""
    if not settings.EMAIL_HOST:
        return made
    letters = [(each.invitation, each.link) for each in made]
    sent = invitation_mail.send(user, letters)
    Invitation.objects.filter(pk__in=sent).update(sent_at=timezone.now())
    return [
        NewInvitation(each.invitation, each.link, is_sent=each.invitation.pk in sent)
        for each in made
    ]


def renew(user: User, invitation: Invitation) -> NewInvitation:
    """Replaces the link, which then no longer works, by a new one, and mails it if the invitation has an
    address and mail is set up. Raises ``ActionRefused``."""
    check_grant(user, invitation.team, invitation.role)
    if invitation.email:
        _check_mail_limit(user, 1)
    token = secrets.token_urlsafe(32)
    now = timezone.now()
    with transaction.atomic():
        rows = _usable(invitation)
        if invitation.email and settings.EMAIL_HOST:
            rows = rows.filter(Q(sent_at=None) | Q(sent_at__lt=now - RESEND_AFTER))
        changed = rows.update(
            token_hash=_hash(token),
            invited_by=user,
            expires_at=now + timedelta(days=settings.INVITATION_DAYS),
            sent_at=now if invitation.email and settings.EMAIL_HOST else F("sent_at"),
        )
        if not changed:
            raise ActionRefused(
                gettext("This invitation was already used or revoked.")
                if not _usable(invitation).exists()
                else gettext("This invitation was sent a moment ago. Wait a minute.")
            )
        AuditEvent.objects.record(
            user,
            "invitation.renewed",
            target=invitation.team.name,
            role=invitation.role,
            email=invitation.email,
        )
    invitation.refresh_from_db()
    new = NewInvitation(invitation, _link(token))
    return _send(user, [new])[0] if invitation.email else new


def _usable(invitation: Invitation) -> QuerySet[Invitation]:
    return Invitation.objects.filter(
        pk=invitation.pk, used_at__isnull=True, revoked_at__isnull=True
    )


def revoke(user: User, invitation: Invitation) -> None:
    with transaction.atomic():
        if not _usable(invitation).update(revoked_at=timezone.now()):
            raise ActionRefused(gettext("This invitation was already used or revoked."))
        AuditEvent.objects.record(
            user,
            "invitation.revoked",
            target=invitation.team.name,
            role=invitation.role,
            email=invitation.email,
        )


# --- joining --------------------------------------------------------------------------------


def find(token: str) -> Invitation | None:
    """An invitation that can be used now. Unknown, used, expired, revoked and invalid ones look the
    same."""
    invitation = (
        Invitation.objects.select_related("team", "invited_by")
        .filter(token_hash=_hash(token))
        .first()
    )
    return invitation if invitation and _is_good(invitation) else None


def _is_good(invitation: Invitation) -> bool:
    """Returns whether it is open, and the person who invited could still do so: active, and with the right
    to give this role."""
    inviter = invitation.invited_by
    return (
        invitation.is_open
        and inviter.is_active
        and invitation.role in grantable_roles(inviter, invitation.team)
    )


def join_as_new_person(invitation: Invitation, *, name: str, email: str, password: str) -> User:
    """Creates the account and the membership. If more people use one link than it is for, as many as it is
    for succeed. Raises ``ActionRefused`` if the link was used up meanwhile, or the address has an account."""
    if not access.password_setting().is_on:
        raise ActionRefused(
            gettext("Passwords are turned off. Sign in with your company account instead.")
        )
    link = int(invitation.token_hash[:8], 16)
    if not is_within_limit("invitation-known", link, KNOWN_PER_MINUTE - 1, 0):
        raise ActionRefused(gettext("Too many failed sign-in attempts. Try again later."))
    user = User(name=name, email=(invitation.email or email).lower())
    # Hashing takes a while, so it happens outside of the transaction, which blocks other writers.
    user.set_password(password)
    try:
        with transaction.atomic():
            _save_new(user)
            _use(invitation, user)
    except AddressTaken:
        # After the transaction, which would undo the count.
        is_within_limit("invitation-known", link, KNOWN_PER_MINUTE)
        raise
    return user


class AddressTaken(ActionRefused):
    """The address of a new person has an account."""


def _save_new(user: User) -> None:
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        raise AddressTaken(
            gettext(
                "An account with this address already exists. Sign in, then open the link again."
            )
        ) from None


def join(invitation: Invitation, user: User) -> None:
    """Adds a signed-in user to the team. Raises ``ActionRefused``."""
    if invitation.email and invitation.email != user.email.lower():
        raise ActionRefused(gettext("This invitation is for another email address."))
    if access.membership_of(user, invitation.team_id):
        raise ActionRefused(
            gettext("You’re already a member of %(team)s.") % {"team": invitation.team.name}
        )
    with transaction.atomic():
        _use(invitation, user)


def _use(invitation: Invitation, user: User) -> None:
    """Counts one more person, or refuses. Runs inside the caller's transaction, which a refusal
    undoes."""
    fresh = Invitation.objects.select_related("team", "invited_by").filter(pk=invitation.pk).first()
    now = timezone.now()
    is_last = Q(uses__gte=F("max_uses") - 1)
    used = (
        _usable(invitation)
        # The link may have been replaced since the person opened it.
        .filter(token_hash=invitation.token_hash, expires_at__gt=now, uses__lt=F("max_uses"))
        .update(
            uses=F("uses") + 1,
            used_at=Case(
                When(is_last, then=Value(now)), default=None, output_field=DateTimeField()
            ),
            used_by=Case(
                When(is_last, then=Value(user.pk)), default=None, output_field=BigIntegerField()
            ),
        )
    )
    if not used or fresh is None or not _is_good(fresh):
        raise ActionRefused(gettext("This link no longer works. Ask for a new one."))
    _, is_new = Membership.objects.get_or_create(
        team=fresh.team, user=user, defaults={"role": fresh.role}
    )
    if not is_new:
        raise ActionRefused(gettext("You’re already a member of this team."))
    _, is_first = InvitationUse.objects.get_or_create(invitation=fresh, user=user)
    if not is_first:
        # Somebody who was removed from the team must not come back by the same link.
        raise ActionRefused(gettext("You’ve already used this link. Ask for a new one."))
    AuditEvent.objects.record(
        user, "invitation.used", subject=user, target=fresh.team.name, role=fresh.role
    )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _link(token: str) -> str:
    """Built from our configured address: a Host header must not decide where a secret is sent."""
    return f"{settings.SITE_URL}{reverse('invitation', kwargs={'token': token})}"
