"""Writes the whole installation into one file, while it is in use."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.utils.translation import gettext, ngettext_lazy

from chat.administration.keys import current_marks
from chat.models import Conversation, Message, Run, StoredFile, User
from chat.rendering.figures import count
from project import VERSION
from project.backup import archive, engine_of, told_in_one_line
from project.backup.archive import BackupError, Manifest

COUNTED = {
    "people": User,
    "conversations": Conversation,
    "messages": Message,
    "runs": Run,
    "files": StoredFile,
}
COUNT_LABELS = {
    "people": ngettext_lazy("%(figure)s user", "%(figure)s users", "count"),
    "conversations": ngettext_lazy("%(figure)s conversation", "%(figure)s conversations", "count"),
    "messages": ngettext_lazy("%(figure)s message", "%(figure)s messages", "count"),
    "runs": ngettext_lazy("%(figure)s run", "%(figure)s runs", "count"),
    "files": ngettext_lazy("%(figure)s file", "%(figure)s files", "count"),
}


class Command(BaseCommand):
    help = (
        "Back up everything (users, conversations, event logs, files, settings) to one file. "
        "Keys are included only with --with-keys."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--with-keys",
            action="store_true",
            help="include SECRET_KEY and ENCRYPTION_KEYS; anyone with the file can then read "
            "your servers’ credentials",
        )

    def handle(self, *, file: Path, with_keys: bool, **options: Any) -> None:
        with told_in_one_line(file):
            manifest = back_up(file.absolute(), with_keys=with_keys)
        counts = ", ".join(
            COUNT_LABELS[name] % {"count": number, "figure": count(number)}
            for name, number in manifest.counts.items()
        )
        written = gettext("Backup written and verified: %(file)s (%(counts)s).")
        self.stdout.write(written % {"file": file, "counts": counts})
        self.stdout.write(
            gettext("It contains the keys. Protect it like a password.")
            if with_keys
            else gettext(
                "It doesn’t contain the keys (SECRET_KEY, ENCRYPTION_KEYS). Store them "
                "separately: without them, the servers’ stored credentials can’t be read."
            )
        )


def back_up(path: Path, *, with_keys: bool) -> Manifest:
    """Raises `BackupError` and errors of databases; then there is no file."""
    if path.exists():
        raise BackupError(gettext("%(path)s already exists.") % {"path": path})
    database = settings.DATABASES["default"]
    engine = engine_of(database)
    with archive.draft_beside(path.with_name(f"{path.name}.database")) as dump:
        engine.dump(database, dump)
        engine.check(dump)
        with dump.open("rb") as file:
            sha256, length = archive.hash_of(file.read)
        manifest = Manifest(
            version=VERSION,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            engine=connection.vendor,
            migrations=engine.migrations(dump),
            key_marks=current_marks(),
            counts={name: model.objects.count() for name, model in COUNTED.items()},
            dump_bytes=length,
            dump_sha256=sha256,
            has_keys=with_keys,
        )
        archive.write(path, dump, manifest, keys() if with_keys else {})
    return manifest


def keys() -> dict[str, str]:
    """The contents of the key files in DATA_DIR."""
    return {
        "secret-key": f"{settings.SECRET_KEY}\n",
        "encryption-key": "\n".join(settings.ENCRYPTION_KEYS) + "\n",
    }
