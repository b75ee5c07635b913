"""What belongs to the installation as a whole, and to nobody in it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class KeyKind(models.TextChoices):
    ENCRYPTION = "encryption", "Encryption key"
    SIGNING = "signing", "Signing key"


class KeyMark(models.Model):
    """That this installation uses a key: only a mark of it, by which processes that were given
    other keys notice that before they seal or sign anything."""

    kind = models.CharField(max_length=12, choices=KeyKind.choices)
    mark = models.CharField(max_length=64)
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "mark"], name="key_mark_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.mark[:8]}"


class CacheEntry(models.Model):
    """Where Django's database cache keeps what all processes must count together, in
    installations without Redis. Its columns are Django's."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "chat_cache"

    def __str__(self) -> str:
        return self.cache_key
