"""Sessions that began at a provider: how long they last, and how the provider ends them."""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from chat import access
from chat.core import notify
from chat.models import (
    AuditEvent,
    Identity,
    IdentityProvider,
    ProviderSession,
    User,
    UserSession,
)
from chat.models.identity import PROVIDER_ENDS_AT
from chat.sessions.actions import end_with_keys

logger = logging.getLogger(__name__)

# The note in the session between the provider's answer and the sign-in, which may ask for more first.
PENDING = "provider_sign_in"
PENDING_SECONDS = 600
# A sign-in may be on its way while its provider ends it: the marks of ended ones outlive it.
ENDED_SECONDS = 3600


def expect_session(
    request: HttpRequest, identity: Identity, *, sid: str, began_at: datetime
) -> None:
    """Notes in the session that the sign-in which follows is one by this provider. ``began_at``: when the person left
    for it."""
    request.session[PENDING] = {
        "identity": identity.pk,
        "sid": sid,
        "began_at": began_at.timestamp(),
        "at": time.time(),
    }


def is_expected(request: HttpRequest) -> bool:
    """Returns whether the sign-in that ends now began at a provider, a short time ago."""
    pending = request.session.get(PENDING)
    return pending is not None and time.time() - pending["at"] <= PENDING_SECONDS


def take_up(request: HttpRequest, user: User) -> bool:
    """Makes the session of a person who has just signed in one of their provider, if they came from it. Returns whether
    the provider has ended it meanwhile."""
    is_by_provider = is_expected(request)
    pending = request.session.pop(PENDING, None)
    if not is_by_provider:
        return False
    identity = Identity.objects.filter(pk=pending["identity"], user=user).first()
    if identity is None:
        return True
    expires_at = timezone.now() + timedelta(hours=settings.PROVIDER_SESSION_HOURS)
    ProviderSession.objects.filter(expires_at__lt=timezone.now()).delete()
    # The session as such ends then, whatever people do with it.
    request.session.set_expiry(expires_at)
    request.session[PROVIDER_ENDS_AT] = expires_at.timestamp()
    ProviderSession.objects.update_or_create(
        session_key=request.session.session_key,
        defaults={"identity": identity, "sid": pending["sid"], "expires_at": expires_at},
    )
    end_local_sessions(user)
    # The row is written before the mark is read: a logout that comes meanwhile finds the row or has left the mark.
    return _was_ended(identity, pending["sid"], pending["began_at"])


def end_local_sessions(*people: User, keep: str = "") -> None:
    """Ends the sessions that began with a password or a passkey, of those who may use neither any more: of these
    people, or of all. Such a session would last for days after its person has left the company."""
    rows = UserSession.objects.exclude(user__in=access.people_with_passwords())
    if people:
        rows = rows.filter(user__in=people)
    by_provider = ProviderSession.objects.values("session_key")
    rows = rows.exclude(session_key__in=by_provider).exclude(session_key=keep)
    if keys := list(rows.values_list("session_key", flat=True)):
        end_with_keys(keys)


def _was_ended(identity: Identity, sid: str, began_at: float) -> bool:
    if sid and cache.get(_mark("sid", identity.provider_id, sid)) is not None:
        return True
    # A sign-in whose session the provider doesn't name is meant by any end of a session of the person.
    kinds = ("sub",) if sid else ("sub", "unnamed")
    marks = cache.get_many([_mark(kind, identity.provider_id, identity.sub) for kind in kinds])
    # Times of our own clock: the ID token is issued when it is fetched, which may be after the end.
    return any(began_at <= ended_at for ended_at in marks.values())


def _mark(kind: str, provider: int, value: str) -> str:
    return f"provider_logout:{provider}:{kind}:{hashlib.sha256(value.encode()).hexdigest()}"


def is_first_use(provider: IdentityProvider, token_id: str, expires_at: float) -> bool:
    """Returns whether a logout token with this id comes for the first time."""
    lasts = max(60, int(expires_at - time.time()) + 120)
    return bool(cache.add(_mark("jti", provider.pk, token_id), 1, timeout=min(lasts, 24 * 3600)))


def end_sessions_of(provider: IdentityProvider, *, sub: str, sid: str) -> int:
    """Ends the sessions that the provider names: the one with this ``sid``, or all of the person. Returns how many."""
    if sid:
        cache.set(_mark("sid", provider.pk, sid), 1, timeout=ENDED_SECONDS)
    if sub:
        kind = "unnamed" if sid else "sub"
        cache.set(_mark(kind, provider.pk, sub), time.time(), timeout=ENDED_SECONDS)
    rows = ProviderSession.objects.filter(identity__provider=provider)
    if sub:
        rows = rows.filter(identity__sub=sub)
    if sid:
        # A provider that keeps its sessions to itself at the sign-in means all of the person.
        rows = rows.filter(Q(sid=sid) | Q(sid="") if sub else Q(sid=sid))
    with transaction.atomic():
        found = list(rows.select_related("identity__user").select_for_update(of=("self",)))
        ended = end_rows(found)
        for user in {row.identity.user for row in found}:
            AuditEvent.objects.record(
                user,
                "identity.signed_out",
                subject=user,
                target=user.email,
                provider=provider.name,
            )
    logger.info("identity.logged_out provider=%s sessions=%d", provider.slug, ended)
    return ended


def end_rows(rows: list[ProviderSession]) -> int:
    """Deletes these sessions. Live connections end with the next check. Call it in a transaction."""
    ended, _ = Session.objects.filter(session_key__in=[row.session_key for row in rows]).delete()
    ProviderSession.objects.filter(pk__in=[row.pk for row in rows]).delete()
    notify.publish_after_commit(notify.ROOMS)
    return ended
