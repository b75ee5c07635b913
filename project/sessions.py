"""Django's sessions and users, read with prepared statements, because every page, message and
websocket starts with these two queries."""

from __future__ import annotations

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.utils import timezone

from chat.core.prepared import Prepared
from chat.models import User

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
        return self.decode(session.session_data)


class Backend(AuthenticationBackend):
    """allauth's backend, with a prepared statement for loading the user."""

    def get_user(self, user_id: int) -> User | None:
        user = _person.first(pk=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None
