"""Changes of second factors: what is recorded when a person adds or removes one, and an administrator's reset."""

from __future__ import annotations

from functools import partial

from allauth.mfa.models import Authenticator
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext

from chat.accounts.actions.people import end_sessions
from chat.accounts.two_step import factors
from chat.accounts.two_step.adapter import send_notice
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, User


def record_added(request: HttpRequest, user: User, authenticator: Authenticator) -> None:
    """After a factor was added, in the same transaction. With the first one, all other sessions of the person end,
    because none of them has shown it."""
    is_first = not user.has_second_factor
    AuditEvent.objects.record(user, "second_factor.added", subject=user, target=str(authenticator))
    factors.mark_added(request, user, authenticator)
    if is_first:
        keep = request.session.session_key
        transaction.on_commit(partial(end_sessions, user, keep=keep))


def may_reset(actor: User, person: User) -> bool:
    if not actor.is_staff or actor.pk == person.pk:
        return False
    return actor.is_superuser or not person.is_superuser


def reset_factors(actor: User, person: User) -> None:
    """Removes all factors of a person who has lost them, and signs them out everywhere. Raises ``ActionRefused``."""
    if not may_reset(actor, person):
        raise PermissionDenied(
            gettext("You don’t have permission to reset this person’s two-step verification.")
        )
    with transaction.atomic():
        removed = Authenticator.objects.filter(user=person).delete()[0]
        if not removed:
            raise ActionRefused(gettext("This person doesn’t use two-step verification."))
        AuditEvent.objects.record(
            actor, "second_factor.reset", subject=person, target=person.email, removed=removed
        )
        notify.publish_after_commit(notify.ROOMS)
    # All sessions are read for this, so it happens after the transaction.
    end_sessions(person)
    send_notice(person, "factors_reset")
