"""The sessions of people: where they are signed in, with which device, and when they last used it."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models
from django.db.models import Exists, OuterRef
from django.utils import timezone

# Real user agents have up to 250 characters. A client may send megabytes.
USER_AGENT_LENGTH = 300
# The time of the sign-in in a session's data, in seconds since 1970.
SIGNED_IN_AT = "signed_in_at"


class UserSessionQuerySet(models.QuerySet["UserSession"]):
    def open(self) -> UserSessionQuerySet:
        """Rows whose session of Django is still there and has not expired."""
        return self.filter(_is_open())

    def ended(self) -> UserSessionQuerySet:
        return self.filter(~_is_open())


def _is_open() -> Exists:
    sessions = Session.objects.filter(
        session_key=OuterRef("session_key"), expire_date__gt=timezone.now()
    )
    return Exists(sessions)


class UserSession(models.Model):
    """Facts about a session of Django, which alone decides whether somebody is signed in. Without
    that one, this row means nothing."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions"
    )
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    user_agent = models.CharField(max_length=USER_AGENT_LENGTH, blank=True)
    # Null where it isn't known: a proxy that should say it did not.
    address = models.GenericIPAddressField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # To a few minutes, so that requests need no statement for it (`chat.web.session_use`).
    last_used_at = models.DateTimeField(default=timezone.now)

    objects = UserSessionQuerySet.as_manager()

    class Meta:
        ordering = ["-last_used_at"]

    def __str__(self) -> str:
        return f"session of {self.user_id}"
