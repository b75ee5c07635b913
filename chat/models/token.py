"""A personal access token, with which a program signs in."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.team import Team


class AccessTokenQuerySet(models.QuerySet["AccessToken"]):
    def not_ended(self) -> AccessTokenQuerySet:
        """Tokens that are neither revoked nor expired."""
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()), revoked_at__isnull=True
        )


class AccessToken(models.Model):
    """Lets a program act as its user, in one team. Only the SHA-256 of the token is stored."""

    public_id = models.UUIDField(
        gettext_lazy("public ID"), default=uuid.uuid4, unique=True, editable=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="access_tokens",
        verbose_name=gettext_lazy("user"),
    )
    # The team of the conversations that it creates.
    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        related_name="access_tokens",
        verbose_name=gettext_lazy("team"),
    )
    name = models.CharField(max_length=80)
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    # The last characters, so that users can tell their tokens apart.
    hint = models.CharField(max_length=8, editable=False)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(gettext_lazy("expires"), null=True, blank=True)
    # To the minute, so that a program with many requests does not write with each.
    last_used_at = models.DateTimeField(
        gettext_lazy("last used"), null=True, blank=True, editable=False
    )
    revoked_at = models.DateTimeField(gettext_lazy("revoked"), null=True, blank=True)

    objects = AccessTokenQuerySet.as_manager()

    class Meta:
        verbose_name = gettext_lazy("access token")
        verbose_name_plural = gettext_lazy("access tokens")
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} (…{self.hint})"

    @property
    def is_valid(self) -> bool:
        """True if the token itself is valid; user and membership are checked separately."""
        is_expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not is_expired
