"""Deletes the bytes of attached files that are older than a number of days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from django.utils.translation import ngettext

from chat.files.deleting import delete_old


class Command(BaseCommand):
    help = (
        "Delete attached files that are older than this. Messages keep their names and the texts that were read of "
        "them. Files that projects share stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", type=int, required=True, metavar="DAYS")

    def handle(self, *args: Any, **options: Any) -> None:
        days = max(0, options["older_than"])
        count = delete_old(timezone.now() - timedelta(days=days))
        words = ngettext("Deleted %(count)d file.", "Deleted %(count)d files.", count)
        self.stdout.write(words % {"count": count})
