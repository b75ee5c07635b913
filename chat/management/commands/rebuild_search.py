"""Indexes what full-text search does not know yet, or checks that it knows everything."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.translation import gettext

from chat.models import Conversation
from chat.search.sources import KINDS, backfill, clear, missing, outdated, wait_for_writers


class Command(BaseCommand):
    help = (
        "Index everything that full-text search doesn’t find yet. It can be interrupted and run "
        "again, and run while the server is in use."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only report what is missing")
        parser.add_argument("--all", action="store_true", help="delete the index first")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            self._check(as_json=options["json"])
            return
        if options["all"]:
            clear()
        indexed = self._backfill()
        # Rows that changed meanwhile may have been indexed as they were before.
        wait_for_writers()
        removed, _ = outdated().delete()
        if options["json"]:
            self.stdout.write(json.dumps({"indexed": indexed, "removed": removed}))
        else:
            words = gettext("Indexed %(count)d texts; removed %(removed)d outdated entries.")
            self.stdout.write(words % {"count": indexed.total(), "removed": removed})

    def _backfill(self) -> Counter[str]:
        total = Conversation.objects.count()
        indexed: Counter[str] = Counter()
        for done, some in backfill():
            # Zeros stay, so that every kind is in the report.
            indexed.update(some)
            self._show_progress(done, max(done, total))
        return indexed

    def _show_progress(self, done: int, total: int) -> None:
        if self.stderr.isatty():
            bar = "█" * (30 * done // total)
            line = gettext("%(done)d of %(total)d conversations") % {"done": done, "total": total}
            self.stderr.write(f"\r{bar:<30} {line}", ending="\n" if done == total else "")

    def _check(self, *, as_json: bool) -> None:
        lacking = {kind: missing(kind).count() for kind in KINDS}
        surplus = outdated().count()
        if as_json:
            self.stdout.write(json.dumps({"missing": lacking, "outdated": surplus}))
        else:
            words = gettext("%(count)d texts aren’t indexed; %(surplus)d entries are outdated.")
            self.stdout.write(words % {"count": sum(lacking.values()), "surplus": surplus})
        if surplus or any(lacking.values()):
            sys.exit(1)
