"""Ends sessions: one, or all of a person. Their pages end within a second, because live connections check
that the session is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allauth.account.internal.stagekit import LOGIN_SESSION_KEY
from allauth.account.utils import user_pk_to_url_str
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from chat.core import notify
from chat.models import AuditEvent, User, UserSession


def end_session(user: User, session: UserSession) -> bool:
    """Signs the user out there. Returns whether they were signed in."""
    with transaction.atomic():
        ended = end_with_keys([session.session_key])
        if ended:
            AuditEvent.objects.record(user, "session.ended", subject=user)
    return bool(ended)


def sign_out_elsewhere(user: User, *, keep: str) -> int:
    ended = end_sessions(user, keep=keep)
    AuditEvent.objects.record(user, "user.signed_out_elsewhere", subject=user, ended=ended)
    return ended


def end_sessions(user: User, *, keep: str | None = None) -> int:
    """Signs a user out everywhere, except in the session ``keep``. Returns how many sessions ended.

    Sessions of Django have no column for their user, and those of an older version no row of ours, so all
    valid ones are read.
    """
    open_sessions = Session.objects.filter(expire_date__gt=timezone.now()).iterator()
    mine = [
        session.session_key
        for session in open_sessions
        if session.session_key != keep and _is_of(user, session.get_decoded())
    ]
    return end_with_keys(mine)


def _is_of(user: User, data: Mapping[str, Any]) -> bool:
    """Returns whether the user is signed in there, or has yet to show the second factor: who knows the old password
    must not go on after a new one."""
    waiting = data.get(LOGIN_SESSION_KEY) or {}
    return data.get(SESSION_KEY) == str(user.pk) or waiting.get("user_pk") == user_pk_to_url_str(
        user
    )


def end_with_keys(keys: list[str]) -> int:
    """Ends Django's sessions with these keys. Returns how many there were."""
    with transaction.atomic():
        UserSession.objects.filter(session_key__in=keys).delete()
        ended: int = Session.objects.filter(session_key__in=keys).delete()[0]
        # Open pages are told at once, and not with the next check, a second later.
        notify.publish_after_commit(notify.ROOMS)
    return ended
