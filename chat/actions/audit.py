"""Writes the audit trail."""

from __future__ import annotations

from chat.models import AuditEvent, User

# What the column holds; addresses may be longer, and a change must not fail for its record.
TARGET_LENGTH = 200


def record(
    actor: User | None,
    verb: str,
    *,
    subject: User | None = None,
    target: str = "",
    **detail: object,
) -> AuditEvent:
    """One row. Call it inside the transaction of the change that it reports."""
    return AuditEvent.objects.create(
        actor=actor, verb=verb, subject=subject, target=target[:TARGET_LENGTH], detail=detail
    )
