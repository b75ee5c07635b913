"""Executes runs in a process of its own, for web servers without an embedded runner."""

from __future__ import annotations

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, InterfaceError
from django.utils.translation import gettext

from chat.health.runner_probe import probing
from chat.runs.standalone_runner import execute_until_told
from project.startup import (
    TRY_AGAIN,
    configure_malloc,
    first_line,
    forget_to_collect_what_is_loaded,
    prepared_process,
)


class Command(BaseCommand):
    help = "Execute runs. Any number of runners can share one PostgreSQL database."

    def handle(self, **options: Any) -> None:
        with prepared_process():
            forget_to_collect_what_is_loaded()
            configure_malloc()
            try:
                asyncio.run(execute_until_told(is_alone=settings.IS_SQLITE, beside=[probing]))
            except (DatabaseError, InterfaceError) as error:
                told = gettext("The database doesn’t respond: %(error)s")
                raise CommandError(
                    told % {"error": first_line(error)}, returncode=TRY_AGAIN
                ) from error
