"""Writes the whole installation into one file, while it is in use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.utils.translation import gettext, ngettext, ngettext_lazy

from chat.administration.keys import current_marks
from chat.core import file_storage
from chat.core.errors import FilesUnavailable
from chat.models import Conversation, FileContent, Message, Run, StoredFile, User
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
# Names of unreadable objects that the command prints; the log has all.
MOST_NAMES = 10


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

        parser.add_argument(
            "--without-files",
            action="store_true",
            help="leave out the files in FILES_DIR or FILES_BACKEND, which you back up by other means",
        )

    def handle(self, *, file: Path, with_keys: bool, without_files: bool, **options: Any) -> None:
        unreadable: list[str] = []
        with told_in_one_line(file):
            manifest = back_up(
                file.absolute(),
                with_keys=with_keys,
                with_files=not without_files,
                unreadable=unreadable,
            )
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
        if unreadable:
            told = ngettext(
                "%(count)d file can’t be read and is not in the backup. Its object: %(names)s",
                "%(count)d files can’t be read and are not in the backup. Their objects: %(names)s",
                len(unreadable),
            )
            names = ", ".join(unreadable[:MOST_NAMES])
            self.stderr.write(told % {"count": len(unreadable), "names": names})


def back_up(path: Path, *, with_keys: bool, with_files: bool, unreadable: list[str]) -> Manifest:
    """Adds the names of objects that can't be read to ``unreadable``. Raises `BackupError` and errors
    of databases; then there is no file."""
    if path.exists():
        raise BackupError(gettext("%(path)s already exists.") % {"path": path})
    database = settings.DATABASES["default"]
    engine = engine_of(database)
    with_files = with_files and file_storage.is_configured()
    objects = objects_of_contents() if with_files else {}
    with archive.draft_beside(path.with_name(f"{path.name}.database")) as dump:
        engine.dump(database, dump)
        if with_files:
            # Files that were stored since the first look, and are perhaps in the dump.
            objects |= objects_of_contents()
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
        archive.write(
            path,
            dump,
            manifest,
            keys() if with_keys else {},
            read_objects(objects, unreadable),
        )
    return manifest


def objects_of_contents() -> dict[str, tuple[str, int]]:
    """The digest and the size of each object in the storage for files that a content has. Objects stay
    for a day after their content was deleted, so those of a dump are there for that long."""
    table = FileContent._meta.db_table
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    if "object_name" not in {column.name for column in columns}:
        # The tables are those of an older version.
        return {}
    rows = FileContent.objects.filter(object_name__gt="")
    found = rows.values_list("object_name", "sha256", "size_bytes")
    return {name: (digest, size) for name, digest, size in found.iterator()}


def read_objects(
    objects: Mapping[str, tuple[str, int]], unreadable: list[str]
) -> Iterator[tuple[str, bytes]]:
    for name, (digest, size) in objects.items():
        try:
            body = file_storage.read(name, size)
        except FilesUnavailable:
            body = b""
        if hashlib.sha256(body).hexdigest() == digest:
            yield name, body
        else:
            unreadable.append(name)


def keys() -> dict[str, str]:
    """The contents of the key files in DATA_DIR."""
    return {
        "secret-key": f"{settings.SECRET_KEY}\n",
        "encryption-key": "\n".join(settings.ENCRYPTION_KEYS) + "\n",
    }
