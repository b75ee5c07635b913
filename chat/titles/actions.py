"""Chooses the model that writes titles. The caller is an administrator."""

from __future__ import annotations

from django.db import transaction

from chat.core.notify import publish_after_commit
from chat.models import AuditEvent, TitleSetting, Upstream, User
from chat.titles.queueing import TITLES


def choose_model(user: User, upstream: Upstream | None, model: str) -> None:
    """Sets the model that writes the titles of new conversations; without a server none does."""
    with transaction.atomic():
        TitleSetting.objects.update_or_create(
            pk=TitleSetting.ONLY,
            defaults={"upstream": upstream, "model": model if upstream else ""},
        )
        AuditEvent.objects.record(
            user,
            "installation.title_model_chosen",
            **({"server": upstream.name, "model": model} if upstream else {}),
        )
    # Runners read it.
    publish_after_commit(TITLES)
