"""Imports an export of Tributary or another product, or undoes an import, for scripts and
administrators."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404
from django.utils.translation import gettext

from chat import access
from chat.core.errors import ActionRefused
from chat.imports.actions import import_file, undo
from chat.imports.formats import FORMATS
from chat.imports.report import Note, Report
from chat.models import Team, User

# Conversations per line of progress if the output is no terminal.
PROGRESS_STEP = 500


class Command(BaseCommand):
    help = (
        "Import the conversations of an export of Tributary, ChatGPT, Claude, LibreChat or Open WebUI. "
        "They are private. What was imported before is skipped. Exits with 1 if something isn’t understood."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", metavar="FILE", help="a JSON file or a ZIP archive")
        parser.add_argument("--user", required=True, metavar="EMAIL")
        parser.add_argument("--team", metavar="NAME")
        parser.add_argument("--format", default="", choices=sorted(FORMATS))
        parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
        parser.add_argument("--undo", metavar="ID", help="undo this import instead")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(gettext("No active user has this email address."))
        if bool(options["file"]) == bool(options["undo"]):
            raise CommandError(gettext("Give a file to import, or an import to undo."))
        try:
            if options["undo"]:
                self._undo(user, options["undo"], as_json=options["json"])
            else:
                self._import(user, options)
        except ActionRefused as refusal:
            self._refuse(str(refusal), as_json=options["json"])

    def _refuse(self, reason: str, *, as_json: bool) -> None:
        if not as_json:
            raise CommandError(reason)
        self.stdout.write(json.dumps({"refused": reason}, ensure_ascii=False))
        sys.exit(1)

    def _import(self, user: User, options: dict[str, Any]) -> None:
        team = _team(user, options["team"])
        try:
            with Path(options["file"]).open("rb") as file:
                report = import_file(
                    user,
                    team,
                    file,
                    format_name=options["format"],
                    is_dry_run=options["dry_run"],
                    progress=self._show_progress,
                )
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from None
        if options["json"]:
            self.stdout.write(json.dumps(report.as_json(), ensure_ascii=False))
        else:
            self._show(report)
        if report.not_understood:
            sys.exit(1)

    def _show_progress(self, done: int, total: int) -> None:
        if self.stderr.isatty():
            bar = "█" * (30 * done // total)
            end = "\n" if done == total else ""
            self.stderr.write(f"\r{bar:<30} {done:,} / {total:,}", ending=end)
        elif done % PROGRESS_STEP == 0 or done == total:
            self.stderr.write(f"{done:,} / {total:,}")

    def _show(self, report: Report) -> None:
        created = gettext("To be created") if report.is_dry_run else gettext("Created")
        lines = [
            (gettext("Format"), FORMATS[report.format].label),
            (gettext("Found"), f"{report.found:,}"),
            (created, f"{report.created:,}"),
            (gettext("Skipped (imported before)"), f"{report.skipped:,}"),
            (gettext("Skipped (empty)"), f"{report.empty:,}"),
            (gettext("Couldn’t be read"), f"{report.unread:,}"),
        ]
        if report.import_id:
            lines.append((gettext("Import"), report.import_id))
        for label, value in lines:
            self.stdout.write(f"{label + ':':<28} {value}")
        self._list(gettext("Changed since they were imported; not imported again:"), report.changed)
        self._list(gettext("Couldn’t be read:"), report.not_understood)
        self._list(gettext("Left out:"), report.left_out)

    def _list(self, heading: str, notes: list[Note]) -> None:
        if notes:
            self.stdout.write(f"\n{heading}")
        for note in notes:
            title = " ".join(note.title.split())[:60]
            named = f"{note.source_id} “{title}”" if title else note.source_id
            self.stdout.write(f"  {named}: {note.reason}" if note.reason else f"  {named}")

    def _undo(self, user: User, import_id: str, *, as_json: bool) -> None:
        try:
            batch = access.get_import(user, UUID(import_id))
        except (ValueError, Http404):
            raise CommandError(gettext("This user has no import with this ID.")) from None
        undone = undo(user, batch)
        if as_json:
            kept = [
                {"conversation": str(room.public_id), "title": room.title} for room in undone.kept
            ]
            found = {"import": import_id, "deleted": undone.deleted, "kept": kept}
            self.stdout.write(json.dumps(found, ensure_ascii=False))
            return
        self.stdout.write(gettext("%(count)d conversations deleted.") % {"count": undone.deleted})
        if undone.kept:
            self.stdout.write(gettext("These were continued since, and stay:"))
        for room in undone.kept:
            self.stdout.write(f"  {room.public_id} {room.title}")


def _team(user: User, name: str | None) -> Team:
    if not name:
        raise CommandError(gettext("Name a team with --team."))
    teams = list(access.writable_teams(user).filter(name=name)[:2])
    if not teams:
        raise CommandError(gettext("This user can’t write in a team with this name."))
    if len(teams) > 1:
        raise CommandError(gettext("This user can write in several teams with this name."))
    return teams[0]
