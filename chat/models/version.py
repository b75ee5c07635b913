"""Versions of what several people edit: prompts and presets."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.utils import timezone


class VersionConflict(Exception):
    """Another version was added since, or what has the versions was deleted (``newest`` is ``None``)."""

    def __init__(self, newest: Version | None) -> None:
        super().__init__()
        self.newest = newest


class Version(models.Model):
    """A version that is never changed. Subclasses name in `of` the field of what has the versions, of which a version and
    its number are unique."""

    of: ClassVar[str]

    # From 1.
    number = models.PositiveIntegerField()
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        abstract = True

    def content(self) -> dict[str, Any]:
        """The fields that people edit, by name."""
        raise NotImplementedError

    def newest(self) -> Version | None:
        """The newest version of the same thing, with its author."""
        rows = type(self)._default_manager.filter(**{self.of: getattr(self, self.of)})
        return rows.select_related("author").order_by("-number").first()

    def add(self, *, known: int) -> bool:
        """Stores this as the version after ``known``, unless that says the same. Returns whether it did. Raises
        ``VersionConflict`` if ``known`` is not the newest one any more; call it in a transaction."""
        newest = self.newest()
        if (newest is None and known) or (newest is not None and newest.number != known):
            raise VersionConflict(newest)
        if newest is not None and newest.content() == self.content():
            return False
        self.number = known + 1
        try:
            with transaction.atomic():
                self.save(force_insert=True)
        except IntegrityError:
            raise VersionConflict(self.newest()) from None
        return True
