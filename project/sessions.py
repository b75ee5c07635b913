"""Django's sessions and users, read with prepared statements, because every page, message and
websocket starts with these two queries. A session ends a fixed time after the sign-in, and earlier without
use."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from chat import access
from chat.core.prepared import Prepared
from chat.models import ProviderSession, User, UserSession
from chat.models.identity import PROVIDER_ENDS_AT
from chat.models.session import SIGNED_IN_AT

_session = Prepared(lambda key, now: Session.objects.filter(session_key=key, expire_date__gt=now))
_person = Prepared(lambda pk: User.objects.filter(pk=pk))


class SessionStore(db.SessionStore):
    """The class that ``SESSION_ENGINE`` requires."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def load(self) -> dict[str, Any]:
        session = _session.first(key=self.session_key, now=timezone.now())
        if session is None:
            self._session_key = None
            return {}
        data = self.decode(session.session_data)
        if data.get(PROVIDER_ENDS_AT, math.inf) <= time.time():
            # However long the row is kept: the provider has to confirm the person again.
            self._session_key = None
            return {}
        return data

    def cycle_key(self) -> None:
        """A session keeps its provider with a new key, so that the provider can still end it."""
        before = self.session_key
        super().cycle_key()
        if before:
            ProviderSession.objects.filter(session_key=before).update(session_key=self.session_key)

    def create(self) -> None:
        """Called for a new key, also while somebody is signed in: then their device stays in the list."""
        before = self.session_key
        super().create()
        if before is not None:
            rows = UserSession.objects.filter(session_key=before)
            rows.update(session_key=self.session_key)

    def get_expiry_date(self, **kwargs: Any) -> datetime:
        """The time in the row, which alone counts. Django would move it with each change of the session."""
        date: datetime = super().get_expiry_date(**kwargs)
        ends_at = self._ends_at()
        if ends_at is None:
            return date
        if settings.SESSION_IDLE_SECONDS:
            date = min(date, timezone.now() + timedelta(seconds=settings.SESSION_IDLE_SECONDS))
        return min(date, ends_at)

    def get_expiry_age(self, **kwargs: Any) -> int:
        """The age of the cookie, in seconds: until the session would end if it were always in use."""
        age: int = super().get_expiry_age(**kwargs)
        ends_at = self._ends_at()
        if ends_at is None:
            return age
        return max(0, min(age, int((ends_at - timezone.now()).total_seconds())))

    def _ends_at(self) -> datetime | None:
        """``None`` if nobody is signed in, or did so with an older version."""
        signed_in_at = self.get(SIGNED_IN_AT)
        if signed_in_at is None:
            return None
        begin = datetime.fromtimestamp(signed_in_at, UTC)
        return begin + timedelta(seconds=settings.SESSION_COOKIE_AGE)


class Backend(AuthenticationBackend):
    """allauth's backend, with a prepared statement for loading the user. A right password of somebody who may not use
    one counts as wrong."""

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        user: User | None = super().authenticate(request, **credentials)
        return user if user is not None and access.may_use_password(user) else None

    def get_user(self, user_id: int) -> User | None:
        user = _person.first(pk=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None
