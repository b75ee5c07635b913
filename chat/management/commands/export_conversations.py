"""Writes conversations as files: those of a person, those that a team shares, or all."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.db.models import Q, QuerySet
from django.utils.translation import gettext, ngettext
from msgspec import MsgspecError

from chat.exports.forms import FORMS
from chat.exports.json_form import write_json
from chat.exports.names import unique_stem_of
from chat.exports.reading import Source, exportable, read_source
from chat.models import AuditEvent, Conversation, ProjectAccess, Team, User, Visibility


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
        parser.add_argument("--format", required=True, choices=["json", "markdown", "html"])
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
        total, written, refused = chosen.count(), [], []
        # Who reads for others leaves a trace.
        AuditEvent.objects.record(
            None, "conversation.export", subject=subject, target=str(team or ""), count=total
        )
        for number, conversation in enumerate(_one_by_one(chosen), start=1):
            try:
                written.append(_write(conversation, folder, options))
            except (OSError, ValueError, MsgspecError, zlib.error, DatabaseError) as error:
                refused.append({"conversation": str(conversation.public_id), "reason": str(error)})
            self._show_progress(number, total)
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
        # Not what is in a team that they have left: that is no longer theirs to read.
        return exportable(Conversation.objects.visible_to(user).filter(owner=user)), user, None
    if options["team"]:
        teams = list(Team.objects.filter(name=options["team"])[:2])
        if not teams:
            raise CommandError(gettext("There is no team with this name."))
        if len(teams) > 1:
            raise CommandError(gettext("Several teams have this name. Rename one of them first."))
        shared = Conversation.objects.filter(_is_shared_with_team(), team=teams[0])
        return exportable(shared), None, teams[0]
    return exportable(Conversation.objects.all()), None, None


def _is_shared_with_team() -> Q:
    in_open_project = Q(visibility=Visibility.PROJECT, project__access=ProjectAccess.TEAM)
    return Q(visibility=Visibility.TEAM) | in_open_project


def _one_by_one(chosen: QuerySet[Conversation]) -> Iterator[Conversation]:
    """In the order of their creation. Each is loaded when it is written: that may take hours."""
    for key in list(chosen.order_by("pk").values_list("pk", flat=True)):
        found = chosen.filter(pk=key).select_related("team", "owner", "upstream").first()
        if found is not None:
            yield found


def _write(conversation: Conversation, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Writes one file, under its name only when it is whole."""
    form = FORMS[options["format"]]
    path = folder / f"{unique_stem_of(conversation)}.{form.suffix}"
    # As its owner sees it: the branch that they look at is the visible one.
    source = read_source(conversation.owner, conversation)
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("wb") as file:
            _put(source, file, form.write, options)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return {
        "conversation": str(conversation.public_id),
        "title": conversation.title,
        "file": path.name,
        "bytes": path.stat().st_size,
    }


def _put(
    source: Source,
    file: BinaryIO,
    write: Callable[[Source], Iterator[bytes]],
    options: dict[str, Any],
) -> None:
    if options["format"] == "json":
        file.writelines(write_json(source, with_contents=not options["without_files"]))
    else:
        file.writelines(write(source))
