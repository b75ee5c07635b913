"""Replaces the present data by a backup."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader

from chat.administration.keys import current_marks
from chat.models import User
from chat.runs.reaper import settle_restored
from project.backup import archive, engine_of, told_in_one_line
from project.backup.archive import BackupError, Manifest
from project.startup import hold_data_dir

# Where each key comes from, if not from its file.
KEY_SETTINGS = {"secret-key": "SECRET_KEY", "encryption-key": "ENCRYPTION_KEYS"}


class Command(BaseCommand):
    help = "Replace the whole database by a backup. Stop every web process and runner first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--yes", action="store_true", help="replace what is there without asking"
        )
        parser.add_argument(
            "--with-keys", action="store_true", help="take the keys from the backup, too"
        )

    def handle(self, *, file: Path, yes: bool, with_keys: bool, **options: Any) -> None:
        lock = hold_data_dir()
        try:
            with told_in_one_line(file):
                self._restore(file, yes=yes, with_keys=with_keys)
        finally:
            if lock is not None:
                lock.release()

    def _restore(self, path: Path, *, yes: bool, with_keys: bool) -> None:
        manifest = archive.check(path)
        refuse_other_engine(manifest)
        refuse_newer(manifest)
        if with_keys and not manifest.has_keys:
            raise BackupError("This backup holds no keys.")
        database = settings.DATABASES["default"]
        engine = engine_of(database)
        let_go()
        if in_use := engine.is_in_use(database):
            raise BackupError(in_use)
        if with_keys:
            refuse_keys_of_the_environment()
        self._confirm(manifest, yes=yes)
        let_go()
        with archive.draft_beside(engine.room_for_dump(database, path)) as dump:
            archive.extract_dump(path, dump)
            engine.check(dump)
            kept = engine.restore(database, dump)
        if with_keys:
            take_keys(path)
        call_command("migrate", verbosity=0, interactive=False)
        ended = settle_restored()
        self.stdout.write(f"Restored from {path}, made at {manifest.made_at}.")
        if kept:
            self.stdout.write(kept)
        if ended:
            self.stdout.write(f"Answers that were under way in it were ended: {ended}.")
        if not with_keys and not set(manifest.key_marks) <= set(current_marks()):
            self.stderr.write(
                "The keys here are not those of the backup: processes will refuse to start. Give "
                "them the keys of the installation that was backed up; where these are lost, run "
                "`manage.py keys accept` and enter the servers' credentials again."
            )

    def _confirm(self, manifest: Manifest, *, yes: bool) -> None:
        people = count_people()
        if yes or not people:
            return
        if not sys.stdin.isatty():
            raise BackupError(
                f"There is an installation with {people} accounts here. Say --yes to replace it."
            )
        self.stdout.write(
            f"This replaces an installation with {people} accounts by the backup of "
            f"{manifest.made_at} ({manifest.counts.get('people', 0)} accounts)."
        )
        if input("Type yes to go on: ").strip() != "yes":
            raise BackupError("Nothing was changed.")


def let_go() -> None:
    """Closes this process's own connections, which would block the restore."""
    connections.close_all()
    if connection.vendor == "postgresql":
        connection.close_pool()


def refuse_keys_of_the_environment() -> None:
    """Keys in the environment would take precedence over those of the backup."""
    for setting in KEY_SETTINGS.values():
        if os.environ.get(setting) or os.environ.get(f"{setting}_FILE"):
            raise BackupError(
                f"{setting} is set in the environment here, and would win over the backup's. "
                "Unset it, or restore without --with-keys."
            )


def take_keys(path: Path) -> None:
    for name, text in archive.read_keys(path).items():
        if name in KEY_SETTINGS:
            replace_key(settings.DATA_DIR / name, text)


def refuse_other_engine(manifest: Manifest) -> None:
    if manifest.engine != connection.vendor:
        raise BackupError(
            f"This backup is of a database of kind {manifest.engine}; DATABASE_URL names one of "
            f"kind {connection.vendor}."
        )


def refuse_newer(manifest: Manifest) -> None:
    """A backup of a newer version; older ones are migrated after they are restored."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    known = {f"{app}.{name}" for app, name in loader.disk_migrations}
    # The tables of an application that no longer exists do no harm.
    applications = {app for app, _ in loader.disk_migrations}
    unknown = [
        name
        for name in manifest.migrations
        if name.partition(".")[0] in applications and name not in known
    ]
    if unknown:
        raise BackupError(
            f"This backup was made by a newer version ({manifest.version}; {unknown[-1]}). "
            "Install that version, then restore."
        )


def count_people() -> int:
    """The accounts in the present database; none if it has no tables yet."""
    if User._meta.db_table not in connection.introspection.table_names():
        return 0
    return User.objects.count()


def replace_key(path: Path, text: str) -> None:
    """Keeps the previous key beside the new one."""
    if path.exists():
        if path.read_text() == text:
            return
        os.replace(path, path.with_name(f"{path.name}.before-restore"))
    with archive.draft_beside(path) as draft:
        draft.write_text(text)
        os.replace(draft, path)
