"""The audit log: who did what, and when. Rows are only added."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.models.user import User

# The size of the column. Addresses may be longer, and a change must not fail because of its audit
# row.
TARGET_LENGTH = 200


class AuditEventManager(models.Manager["AuditEvent"]):
    def record(
        self,
        actor: User | None,
        verb: str,
        *,
        subject: User | None = None,
        target: str = "",
        **detail: object,
    ) -> AuditEvent:
        """Adds a row. Call it inside the transaction of the change that it records."""
        return self.create(
            actor=actor, verb=verb, subject=subject, target=target[:TARGET_LENGTH], detail=detail
        )


class AuditEvent(models.Model):
    at = models.DateTimeField(
        gettext_lazy("date"), default=timezone.now, editable=False, db_index=True
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=gettext_lazy("actor"),
    )
    # Noun and verb, such as "conversation.read_by_administrator".
    verb = models.CharField(gettext_lazy("action"), max_length=60, db_index=True)
    # The owner of the object, if it has one.
    subject = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=gettext_lazy("owner"),
    )
    target = models.CharField(gettext_lazy("object"), max_length=200, blank=True)
    detail = models.JSONField(gettext_lazy("details"), default=dict, blank=True)

    objects = AuditEventManager()

    class Meta:
        verbose_name = gettext_lazy("audit event")
        verbose_name_plural = gettext_lazy("audit events")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.verb}"
