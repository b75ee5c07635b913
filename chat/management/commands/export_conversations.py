"""Writes conversations as files: those of a person, those that a team shares, or all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext, ngettext

from chat.access_reasons.actions import tell_of_export
from chat.exports.many import (
    FORMS_OF_MANY,
    UNREADABLE,
    everything,
    file_name_of,
    keys_of,
    one_by_one,
    owned_by,
    shared_in,
    write_to,
)
from chat.models import AuditEvent, Conversation, Team, User


class Command(BaseCommand):
    help = (
        "Write conversations as files, one each: those that a person owns and can read, those that a "
        "team shares, or all. Deleted conversations are left out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--user", metavar="EMAIL", help="what this person owns")
        whose.add_argument("--team", metavar="NAME", help="what is shared with this team")
        whose.add_argument(
            "--all", action="store_true", help="every conversation, also private ones"
        )
        parser.add_argument("--format", required=True, choices=FORMS_OF_MANY)
        parser.add_argument("--out", required=True, type=Path, metavar="PATH", help="a folder")
        parser.add_argument(
            "--without-files", action="store_true", help="leave the bytes of files out of JSON"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen, subject, team = _chosen(options)
        folder: Path = options["out"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(gettext("%(folder)s is no folder.") % {"folder": folder}) from error
        keys, written, refused = keys_of(chosen), [], []
        # Reading for others leaves a trace. Nobody is told of an export without conversations.
        with transaction.atomic():
            if keys:
                tell_of_export(None, person=subject, team=team)
            AuditEvent.objects.record(
                None,
                "conversation.export",
                subject=subject,
                target=str(team or ""),
                count=len(keys),
            )
        for number, conversation in enumerate(one_by_one(keys, chosen), start=1):
            try:
                if conversation is not None:
                    written.append(_write(conversation, folder, options))
            except UNREADABLE as error:
                refused.append({"conversation": str(conversation.public_id), "reason": str(error)})
            self._show_progress(number, len(keys))
        self._report(written, refused, as_json=options["json"])
        if refused:
            sys.exit(1)

    def _show_progress(self, number: int, total: int) -> None:
        if self.stderr.isatty():
            bar = "█" * (30 * number // max(total, number))
            end = "\n" if number == total else ""
            self.stderr.write(f"\r{bar:<30} {number:,} / {total:,}", ending=end)

    def _report(
        self, written: list[dict[str, Any]], refused: list[dict[str, Any]], *, as_json: bool
    ) -> None:
        if as_json:
            report = {"exported": len(written), "files": written, "refused": refused}
            self.stdout.write(json.dumps(report, ensure_ascii=False))
            return
        words = ngettext(
            "Exported %(count)d conversation.", "Exported %(count)d conversations.", len(written)
        )
        self.stdout.write(words % {"count": len(written)})
        for each in refused:
            self.stderr.write(gettext("Not exported: %(conversation)s: %(reason)s") % each)


def _chosen(
    options: dict[str, Any],
) -> tuple[QuerySet[Conversation], User | None, Team | None]:
    """The conversations, and whose they are."""
    if options["user"]:
        user = User.objects.filter(email__iexact=options["user"]).first()
        if user is None:
            raise CommandError(gettext("No user has this email address."))
        return owned_by(user), user, None
    if options["team"]:
        teams = list(Team.objects.filter(name=options["team"])[:2])
        if not teams:
            raise CommandError(gettext("There is no team with this name."))
        if len(teams) > 1:
            raise CommandError(gettext("Several teams have this name. Rename one of them first."))
        return shared_in(teams[0]), None, teams[0]
    return everything(), None, None


def _write(conversation: Conversation, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Writes one file, under its name only when it is whole."""
    path = folder / file_name_of(conversation, options["format"])
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("wb") as file:
            # The visible branch is the one that the owner looks at.
            write_to(
                file,
                conversation.owner,
                conversation,
                options["format"],
                with_files=not options["without_files"],
                is_complete=True,
            )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return {
        "conversation": str(conversation.public_id),
        "title": conversation.title,
        "file": path.name,
        "bytes": path.stat().st_size,
    }
