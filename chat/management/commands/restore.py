"""Replaces the present data by a backup."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat.administration.keys import current_marks
from chat.core import file_storage
from chat.models import AuditEvent, FileContent, UnreferencedObject, User
from chat.runs.reaper import settle_restored
from chat.tools.claims import settle_restored as settle_calls
from project.backup import archive, engine_of, told_in_one_line
from project.backup.archive import BackupError, Manifest
from project.old_databases import TOO_OLD, earliest_migrations, is_too_old
from project.startup import hold_data_dir

# The setting that a key comes from, if not from its file.
KEY_SETTINGS = {"secret-key": "SECRET_KEY", "encryption-key": "ENCRYPTION_KEYS"}
# Objects of files that are newer than the backup stay for so long, because somebody may go back to the
# previous database.
NEWER_OBJECTS_STAY = timedelta(days=30)


class Command(BaseCommand):
    help = "Replace the whole database with a backup. Stop all web processes and runners first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--yes", action="store_true", help="replace the current data without asking"
        )
        parser.add_argument(
            "--with-keys", action="store_true", help="also restore the keys from the backup"
        )

    def handle(self, *, file: Path, yes: bool, with_keys: bool, **options: Any) -> None:
        with hold_data_dir(), told_in_one_line(file):
            self._restore(file, yes=yes, with_keys=with_keys)

    def _restore(self, path: Path, *, yes: bool, with_keys: bool) -> None:
        manifest = archive.check(path)
        refuse_other_engine(manifest)
        refuse_newer(manifest)
        refuse_older(manifest)
        if with_keys and not manifest.has_keys:
            raise BackupError(gettext("This backup contains no keys."))
        database = settings.DATABASES["default"]
        engine = engine_of(database)
        let_go()
        if in_use := engine.is_in_use(database):
            raise BackupError(in_use)
        if with_keys:
            refuse_keys_of_the_environment()
        self._confirm(manifest, yes=yes)
        objects = known_objects()
        let_go()
        with archive.draft_beside(engine.room_for_dump(database, path)) as dump:
            archive.extract_dump(path, dump)
            engine.check(dump)
            kept = engine.restore(database, dump)
        if with_keys:
            take_keys(path)
        call_command("migrate", verbosity=0, interactive=False)
        missing = restore_objects(path)
        release_objects(objects)
        ended = settle_restored()
        settle_calls()
        # Recorded in the restored data, whose log ends with the backup.
        AuditEvent.objects.record(
            None,
            "installation.restored",
            made_at=manifest.made_at,
            version=manifest.version,
            with_keys=with_keys,
        )
        restored = gettext("Restored from %(path)s, created at %(date)s.")
        self.stdout.write(restored % {"path": path, "date": manifest.made_at})
        if kept:
            self.stdout.write(kept)
        if ended:
            told = ngettext(
                "%(count)d answer in progress was ended.",
                "%(count)d answers in progress were ended.",
                ended,
            )
            self.stdout.write(told % {"count": ended})
        if missing:
            told = ngettext(
                "%(count)d file is in the storage for files, and not in this backup. Make sure that it is there.",
                "%(count)d files are in the storage for files, and not in this backup. Make sure that they are there.",
                missing,
            )
            self.stderr.write(told % {"count": missing})
        if not with_keys and not set(manifest.key_marks) <= set(current_marks()):
            self.stderr.write(
                gettext(
                    "The keys differ from those in the backup, so processes will refuse to "
                    "start. Use the keys of the original installation. If they are lost, run "
                    "`manage.py keys accept` and enter the servers’ credentials again."
                )
            )

    def _confirm(self, manifest: Manifest, *, yes: bool) -> None:
        people = count_people()
        if yes or not people:
            return
        if not sys.stdin.isatty():
            told = ngettext(
                "This would replace an installation with %(count)d account. Add --yes to confirm.",
                "This would replace an installation with %(count)d accounts. Add --yes to confirm.",
                people,
            )
            raise BackupError(told % {"count": people})
        told = gettext(
            "This replaces the current data (accounts: %(current)d) with the backup from "
            "%(date)s (accounts: %(restored)d)."
        )
        restored = manifest.counts.get("people", 0)
        self.stdout.write(
            told % {"current": people, "date": manifest.made_at, "restored": restored}
        )
        if input(gettext("Type yes to continue:") + " ").strip() != "yes":
            raise BackupError(gettext("Canceled. Nothing was changed."))


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
                gettext(
                    "%(setting)s is set in the environment and would override the backup’s. Unset "
                    "it, or restore without --with-keys."
                )
                % {"setting": setting}
            )


def take_keys(path: Path) -> None:
    for name, text in archive.read_keys(path).items():
        if name in KEY_SETTINGS:
            replace_key(settings.DATA_DIR / name, text)


def refuse_other_engine(manifest: Manifest) -> None:
    if manifest.engine != connection.vendor:
        raise BackupError(
            gettext("This backup is for %(backup)s, but DATABASE_URL points to %(current)s.")
            % {"backup": manifest.engine, "current": connection.vendor}
        )


def refuse_newer(manifest: Manifest) -> None:
    """A backup of a newer version; older ones are migrated after they are restored."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    known = {f"{app}.{name}" for app, name in loader.disk_migrations}
    known |= {f"chat.{name}" for name in earliest_migrations()}
    # The tables of an application that no longer exists do no harm.
    applications = {app for app, _ in loader.disk_migrations}
    unknown = [
        name
        for name in manifest.migrations
        if name.partition(".")[0] in applications and name not in known
    ]
    if unknown:
        raise BackupError(
            gettext(
                "This backup was created by a newer version (%(version)s, %(migration)s). Install "
                "that version, then restore."
            )
            % {"version": manifest.version, "migration": unknown[-1]}
        )


def refuse_older(manifest: Manifest) -> None:
    names = (name.partition(".") for name in manifest.migrations)
    if is_too_old((app, name) for app, _, name in names):
        raise BackupError(str(TOO_OLD))


def known_objects() -> set[str]:
    """The names of all objects in the storage for files that the present database knows."""
    if UnreferencedObject._meta.db_table not in connection.introspection.table_names():
        return set()
    contents = FileContent.objects.filter(object_name__gt="").values_list("object_name", flat=True)
    return {*contents, *UnreferencedObject.objects.values_list("pk", flat=True)}


def restore_objects(path: Path) -> int:
    """Puts the objects of a backup into the storage for files, or into the database where there is
    none. Can be repeated. Returns the number of files whose objects are not in the backup."""
    rows = FileContent.objects.filter(object_name__gt="")
    wanted = set(rows.values_list("object_name", flat=True))
    for name, body in archive.read_objects(path):
        if name not in wanted:
            continue
        wanted.remove(name)
        if file_storage.is_configured():
            file_storage.ensure(name, body)
        else:
            rows.filter(object_name=name).update(body=body, object_name="")
    return len(wanted)


def release_objects(before: set[str]) -> None:
    """Has the objects deleted later that only the replaced database knew."""
    due_at = timezone.now() + NEWER_OBJECTS_STAY
    rest = before - known_objects()
    UnreferencedObject.objects.bulk_create(
        (UnreferencedObject(name=name, due_at=due_at) for name in rest), batch_size=1000
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
