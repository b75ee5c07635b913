"""Django's `migrate`, which first refuses databases whose migrations this version no longer has, and
which goes on after a lost deadlock."""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.commands import migrate
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from project.old_databases import SQUASHED, has_all_earliest
from project.startup import refuse_old_database

logger = logging.getLogger(__name__)

# `deadlock_detected` in PostgreSQL's table of error codes.
DEADLOCK = "40P01"
MOST_ATTEMPTS = 5


class Command(migrate.Command):
    def handle(self, *labels: Any, **options: Any) -> None:
        refuse_old_database()
        _note_squashed()
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                super().handle(*labels, **options)
                return
            except OperationalError as error:
                # A migration locks its tables one after the other, and so do the processes that serve
                # meanwhile. The one that lost was rolled back as a whole; those before it are applied.
                if getattr(error.__cause__, "sqlstate", "") != DEADLOCK or attempt == MOST_ATTEMPTS:
                    raise
                logger.warning("migrate.deadlock attempt=%d", attempt)


def _note_squashed() -> None:
    """A database with all of the earliest migrations has the one that stands for them."""
    recorder = MigrationRecorder(connection)
    applied = recorder.applied_migrations()
    if has_all_earliest(applied) and ("chat", SQUASHED) not in applied:
        recorder.record_applied("chat", SQUASHED)
