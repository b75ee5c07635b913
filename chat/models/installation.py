"""Records of the installation as a whole."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy


class KeyKind(models.TextChoices):
    ENCRYPTION = "encryption", gettext_lazy("Encryption key")
    SIGNING = "signing", gettext_lazy("Signing key")


class KeyMark(models.Model):
    """A key that this installation uses. Only a fingerprint is stored, by which processes with
    other keys notice that before they encrypt or sign anything."""

    kind = models.CharField(max_length=12, choices=KeyKind.choices)
    mark = models.CharField(max_length=64)
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "mark"], name="key_mark_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.mark[:8]}"


class CacheEntry(models.Model):
    """The table of Django's database cache, for counters that all processes share in installations
    without Redis. Django defines its columns."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "chat_cache"

    def __str__(self) -> str:
        return self.cache_key
