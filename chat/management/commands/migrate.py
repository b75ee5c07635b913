"""Django's `migrate`, which first refuses databases whose migrations this version no longer has."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from project.startup import refuse_old_database


class Command(migrate.Command):
    def handle(self, *labels: Any, **options: Any) -> None:
        refuse_old_database()
        super().handle(*labels, **options)
