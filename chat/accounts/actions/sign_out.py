"""Administrators sign a person out everywhere, and revoke their access tokens if they say so."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext

from chat.accounts.actions.people import may_deactivate
from chat.accounts.actions.tokens import revoke_token
from chat.models import AccessToken, AuditEvent, User
from chat.sessions.actions import end_sessions


def check_may_sign_out(actor: User, person: User) -> None:
    """Administrators may, those of the installation themselves only each other. Raises ``PermissionDenied``."""
    if not may_deactivate(actor, person):
        raise PermissionDenied(gettext("You don’t have permission to sign this person out."))


def open_tokens(person: User) -> list[AccessToken]:
    tokens = AccessToken.objects.not_ended().filter(user=person)
    return list(tokens.select_related("team", "user").order_by("name", "pk"))


def sign_out(actor: User, person: User, *, with_tokens: bool) -> tuple[int, int]:
    """Ends all sessions of a person. Returns how many sessions and tokens ended. Tokens stay unless asked for:
    programs that nobody watches use them."""
    check_may_sign_out(actor, person)
    revoked = 0
    if with_tokens:
        revoked = sum(revoke_token(actor, token) for token in open_tokens(person))
    # All sessions are read for this, so it isn't in one transaction with the tokens.
    ended = end_sessions(person)
    with transaction.atomic():
        AuditEvent.objects.record(
            actor,
            "user.signed_out",
            subject=person,
            target=person.email,
            ended=ended,
            tokens=revoked,
        )
    return ended, revoked
