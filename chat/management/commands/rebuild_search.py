"""Indexes what full-text search does not know yet, or checks that it knows everything."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.translation import gettext

from chat.models import SearchKind
from chat.search.sources import KINDS, backfill, clear, missing, outdated


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
        removed, _ = outdated().delete()
        indexed = {kind: self._backfill(kind) for kind in KINDS}
        if options["json"]:
            self.stdout.write(json.dumps({"indexed": indexed, "removed": removed}))
        else:
            words = gettext("Indexed %(count)d texts; removed %(removed)d outdated entries.")
            self.stdout.write(words % {"count": sum(indexed.values()), "removed": removed})

    def _backfill(self, kind: str) -> int:
        total, done = missing(kind).count(), 0
        for count in backfill(kind):
            done += count
            self._show_progress(kind, done, total)
        if done and self.stderr.isatty():
            self.stderr.write("")
        return done

    def _show_progress(self, kind: str, done: int, total: int) -> None:
        if self.stderr.isatty():
            bar = "█" * (30 * done // max(total, done))
            line = f"\r{SearchKind(kind).label:<10} {bar:<30} {done:,} / {max(total, done):,}"
            self.stderr.write(line, ending="")

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
