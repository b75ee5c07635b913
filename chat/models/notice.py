"""The fields of what tells one person that something concerns them."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Notice(models.Model):
    """One row for each person and each object that concerns them, whether or not they may read it. A subclass adds the
    object and ``created_at``, a constraint for both, and an index of a person's newest ones."""

    person = models.ForeignKey(
        # The index of a person's newest ones does this, too.
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
    )

    class Meta:
        abstract = True
