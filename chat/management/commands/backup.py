"""Writes the whole installation into one file, while it is in use."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection

from chat.administration.keys import current_marks
from chat.models import Conversation, Message, Run, StoredFile, User
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


class Command(BaseCommand):
    help = (
        "Write everything (people, conversations, logs of runs, files, settings) into one file. "
        "Without the keys unless --with-keys is given."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--with-keys",
            action="store_true",
            help="put SECRET_KEY and ENCRYPTION_KEYS in, too: whoever has the file can then read "
            "the credentials of your servers",
        )

    def handle(self, *, file: Path, with_keys: bool, **options: Any) -> None:
        with told_in_one_line(file):
            manifest = back_up(file.absolute(), with_keys=with_keys)
        counts = ", ".join(f"{count:,} {name}" for name, count in manifest.counts.items())
        self.stdout.write(f"Backup written and checked: {file} ({counts}).")
        self.stdout.write(
            "The keys are in it: keep it as you keep a password."
            if with_keys
            else "The keys are not in it: without them the stored credentials of servers cannot "
            "be read. Keep them elsewhere (SECRET_KEY, ENCRYPTION_KEYS)."
        )


def back_up(path: Path, *, with_keys: bool) -> Manifest:
    """Raises `BackupError` and errors of databases; then there is no file."""
    if path.exists():
        raise BackupError(f"{path} exists already.")
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
