"""Records where people are signed in: a row at the sign-in, and the time of the last use to a few minutes.

A request costs no statement for that: each process remembers which sessions it has written lately. Pages that
update themselves are no use of a session, and neither is an open connection.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from chat.core.prepared import PreparedUpdate
from chat.models import ProviderSession, User, UserSession
from chat.models.session import SIGNED_IN_AT, USER_AGENT_LENGTH

# Exact enough for "Last used 5 minutes ago", and rare enough to cost nothing.
USED_EVERY_SECONDS = 300
# A session without use ends at most this part of the idle time too early.
_PART_OF_IDLE = 10
# Sessions that a process remembers; a forgotten one costs a statement.
MOST_REMEMBERED = 10_000

Respond = Callable[[HttpRequest], HttpResponse]


class _RecentWrites:
    """The sessions that this process has written lately, so that it doesn't ask the database."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written: OrderedDict[str, float] = OrderedDict()

    def take_turn(self, key: str) -> bool:
        """Returns whether it is time to write, and counts it as written."""
        now = monotonic()
        with self._lock:
            before = self._written.get(key)
            if before is not None and now - before < used_every():
                return False
            self.add(key, now)
        return True

    def add(self, key: str, now: float) -> None:
        self._written[key] = now
        self._written.move_to_end(key)
        while len(self._written) > MOST_REMEMBERED:
            self._written.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._written.clear()


recent_writes = _RecentWrites()


def used_every() -> float:
    """Seconds between two writes for a session."""
    idle: int = settings.SESSION_IDLE_SECONDS
    return min(USED_EVERY_SECONDS, idle / _PART_OF_IDLE) if idle else USED_EVERY_SECONDS


def note_sign_in(request: HttpRequest, user: User, **kwargs: object) -> None:
    """Receiver of Django's ``user_logged_in``. Ended sessions of the person are forgotten here, so that no
    periodic task has to do it."""
    if request.session.session_key is None:
        request.session.create()
    key = request.session.session_key
    request.session[SIGNED_IN_AT] = int(timezone.now().timestamp())
    recent_writes.take_turn(key)
    with transaction.atomic():
        UserSession.objects.filter(user=user).ended().delete()
        UserSession.objects.update_or_create(
            session_key=key, defaults={"user": user, **_client_of(request)}
        )


def note_sign_out(request: HttpRequest, user: User | None, **kwargs: object) -> None:
    """Receiver of Django's ``user_logged_out``, before the session is deleted."""
    if user is not None and (key := request.session.session_key):
        UserSession.objects.filter(session_key=key).delete()


def session_use(respond: Respond) -> Respond:
    """Middleware, after that of the sign-in."""

    def noting(request: HttpRequest) -> HttpResponse:
        response = respond(request)
        # A use is noted where the view has read the person, so that nothing is read for it.
        user = getattr(request, "_cached_user", None)
        if user is not None and user.is_authenticated and not _is_fragment(request):
            key = request.session.session_key
            if key:
                note_use(request, user, key)
        return response

    return noting


def _is_fragment(request: HttpRequest) -> bool:
    """Returns whether a page asks for a part of itself. Many do so every few seconds while nobody looks."""
    return request.method == "GET" and "HX-Request" in request.headers


def note_use(request: HttpRequest, user: User, key: str) -> None:
    """Writes the last use of a session, if that is due. A database that fails doesn't end the request."""
    if recent_writes.take_turn(key):
        with suppress(DatabaseError):
            _write(request, user, key)


_use = PreparedUpdate(
    lambda session_key, now, user_agent, address: (
        UserSession.objects.filter(session_key=session_key),
        {"last_used_at": now, "user_agent": user_agent, "address": address},
    )
)


def _write(request: HttpRequest, user: User, key: str) -> None:
    now = timezone.now()
    client = _client_of(request)
    if not _use(session_key=key, now=now, **client):
        # The person signed in with an older version, or another process has just written the row.
        row = UserSession(user=user, session_key=key, **client)
        UserSession.objects.bulk_create([row], ignore_conflicts=True)
    if settings.SESSION_IDLE_SECONDS:
        rows = UserSession.objects.filter(session_key=key)
        _stay(rows.values_list("created_at", flat=True).first() or now, key, now)


def _stay(signed_in_at: datetime, key: str, now: datetime) -> None:
    """Moves the end of a session in use, at most to the end of its time."""
    ends_at = min(
        now + timedelta(seconds=settings.SESSION_IDLE_SECONDS),
        signed_in_at + timedelta(seconds=settings.SESSION_COOKIE_AGE),
    )
    # A session that began at a provider ends at its own time.
    limits = ProviderSession.objects.filter(session_key=key).values_list("expires_at", flat=True)
    ends_at = min([ends_at, *limits])
    Session.objects.filter(session_key=key, expire_date__gt=now).update(expire_date=ends_at)


def _client_of(request: HttpRequest) -> Mapping[str, Any]:
    user_agent = request.META.get("HTTP_USER_AGENT", "").replace("\0", "")
    return {"user_agent": user_agent[:USER_AGENT_LENGTH], "address": address_of(request)}


def address_of(request: HttpRequest) -> str | None:
    """The client's address, as the limits of sign-ins see it (TRUSTED_PROXY_COUNT)."""
    try:
        return str(ipaddress.ip_address(get_adapter().get_client_ip(request)))
    except (PermissionDenied, ImproperlyConfigured, ValueError):
        return None
