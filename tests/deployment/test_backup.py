"""The whole installation in one file and back, with real databases and the commands as they are."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chat.management.commands import restore
from project.backup import archive
from project.backup.archive import BackupError
from project.old_databases import earliest_migrations
from tests.support.databases import MIGRATED
from tests.support.files import objects_in
from tests.support.processes.site import ROOT

CANARY = "sk-canary-of-the-backup"
SNOW = "\u2603 " * 1000

# Runs commands one after the other in one process; `said` gives the output or the refusal.
COMMANDS = """
import io, json, sys
import django
django.setup()
from django.core.management import CommandError, call_command

def said(*words):
    out = io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=out)
    except CommandError as error:
        return f"refused: {error}"
    return out.getvalue()
"""
# An installation in use: one person, a stored credential, and a run of every kind that is live.
FILL = """
import uuid
from django.utils import timezone
from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.administration.keys import adopt_keys
from chat.models import Membership, Run, Runner, Team, Upstream, User
adopt_keys()
alice = User.objects.create_user("alice@example.org", "secret enough", name="Alice")
team = Team.objects.create(name="River")
Membership.objects.create(team=team, user=alice, role="owner")
server = Upstream(name="Cellar", dialect="lmstudio", base_url="http://127.0.0.1:9")
server.set_key(sys.argv[1])
server.save()
choice = ModelChoice(upstream=server, model="m")
runner = Runner.objects.create(host="gone", pid=1)
for number in range(3):
    start_conversation(
        alice, team, text="\\u2603 " * 1000, choice=choice, idempotency_key=uuid.uuid4()
    )
sent, claimed, queued = Run.objects.order_by("pk")
rows = Run.objects.filter(pk__in=[sent.pk, claimed.pk])
rows.update(status="running", runner=runner)
rows.filter(pk=sent.pk).update(request_sent_at=timezone.now())
"""
LOOK = """
from chat.administration.keys import WrongKeys, adopt_keys
from chat.models import AuditEvent, Message, Run, Runner, Upstream, User
from chat.core.encryption import DecryptionError
try:
    key = Upstream.objects.get().open_key()
except DecryptionError:
    key = "locked"
try:
    adopt_keys()
    fits = True
except WrongKeys:
    fits = False
found = {
    "people": list(User.objects.values_list("email", flat=True)),
    "texts": sorted(set(Message.objects.filter(role="user").values_list("text", flat=True))),
    "runs": list(Run.objects.order_by("pk").values_list("status", flat=True)),
    "runners": Runner.objects.count(),
    "key": key,
    "fits": fits,
    "restores": list(
        AuditEvent.objects.filter(verb="installation.restored").values_list("detail", flat=True)
    ),
}
"""


class Installation:
    """A data directory, and programs that work on it, each in a process of its own."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.folder = folder
        self.settings = {"DATABASE_URL": database_url} if database_url else {}

    def run(self, program: str, *arguments: str) -> Any:
        """The JSON that the program prints."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS + program, *arguments],
            cwd=ROOT,
            env={
                **kept,
                "DJANGO_SETTINGS_MODULE": "project.settings",
                "DATA_DIR": str(self.folder),
                "LOG_LEVEL": "ERROR",
                **self.settings,
            },
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


Install = Callable[..., Installation]


@pytest.fixture(
    params=[
        "sqlite",
        # The parts that differ are tried in test_backup_engines.py.
        pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.needs("postgresql")]),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def install(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Install]:
    """Makes an installation on this kind of database, with or without its tables."""
    made: list[str] = []

    def make(*, is_migrated: bool = False) -> Installation:
        folder = tmp_path_factory.mktemp("installation")
        if kind == "sqlite":
            if is_migrated:
                migrated = request.getfixturevalue("migrated_database")
                shutil.copy(migrated, folder / "tributary.sqlite3")
            return Installation(folder)
        made.append(f"backup_{uuid.uuid4().hex[:12]}")
        server = request.getfixturevalue("postgres_server")
        server.create(made[-1], of=MIGRATED if is_migrated else "template1")
        url = server.url(made[-1]).replace("postgres@", "postgres:canary-password@")
        return Installation(folder, url)

    yield make
    for name in made:
        request.getfixturevalue("postgres_server").drop(name)


@pytest.fixture(scope="module")
def backups_by_kind() -> dict[str, Path]:
    """Each is made when it is first needed: the tests' order is random."""
    return {}


@pytest.fixture
def backups(
    kind: str,
    install: Install,
    backups_by_kind: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with two backups of one installation: ``with-keys`` and ``without``."""
    if kind not in backups_by_kind:
        folder = tmp_path_factory.mktemp("backups")
        make_backups(install(is_migrated=True), folder)
        backups_by_kind[kind] = folder
    return backups_by_kind[kind]


def make_backups(source: Installation, folder: Path) -> None:
    write = """
folder = sys.argv[2]
print(json.dumps([
    said("backup", f"{folder}/with-keys", "--with-keys"),
    said("backup", f"{folder}/without"),
    said("backup", f"{folder}/without"),
]))
"""
    with_keys, without, again = source.run(FILL + write, CANARY, str(folder))
    assert "1 user, 3 conversations, 6 messages, 3 runs" in with_keys
    assert "Protect it like a password" in with_keys
    assert "It doesn’t contain the keys" in without
    assert "already exists" in again


def test_installation_is_restored_on_another_machine(install: Install, backups: Path) -> None:
    restores = """
file = sys.argv[1]
print(json.dumps([
    said("restore", file, "--with-keys"),
    said("restore", file, "--with-keys"),
    said("restore", file, "--with-keys", "--yes"),
]))
"""
    target = install()
    restored, unconfirmed, again = target.run(restores, str(backups / "with-keys"))
    found = target.run(LOOK + "print(json.dumps(found))")

    assert "3 answers in progress were ended." in restored
    assert "This would replace an installation with 1 account. Add --yes" in unconfirmed
    assert "Restored from" in again
    manifest = archive.check(backups / "with-keys")
    assert found == {
        "people": ["alice@example.org"],
        "texts": [SNOW],
        # What was sent is lost with its runner; what waited may have been sent since.
        "runs": ["interrupted", "interrupted", "stopped"],
        "runners": 0,
        "key": CANARY,
        "fits": True,
        # That of the second time only: it replaced the first one's database.
        "restores": [{"made_at": manifest.made_at, "version": manifest.version, "with_keys": True}],
    }


def test_credentials_are_unreadable_without_the_keys(install: Install, backups: Path) -> None:
    begin = 'restored = said("restore", sys.argv[1])'
    end = "print(json.dumps([restored, found]))"
    restored, found = install().run(begin + LOOK + end, str(backups / "without"))

    assert archive.read_keys(backups / "without") == {}
    assert "The keys differ from those in the backup" in restored
    assert (found["key"], found["fits"]) == ("locked", False)


def test_backups_are_private_and_hold_no_password(backups: Path) -> None:
    assert sorted(path.name for path in backups.iterdir()) == ["with-keys", "without"]
    for path in backups.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "canary-password" not in repr(archive.check(path))


def test_backup_of_a_newer_version_is_refused(backups: Path) -> None:
    manifest = archive.check(backups / "without")
    restore.refuse_newer(manifest)
    manifest.migrations.append("chat.9999_from_the_future")

    with pytest.raises(BackupError, match="created by a newer version"):
        restore.refuse_newer(manifest)


def test_backup_without_migrations_that_are_gone_is_refused(backups: Path) -> None:
    manifest = archive.check(backups / "without")
    restore.refuse_older(manifest)
    manifest.migrations.remove(f"chat.{max(earliest_migrations())}")

    with pytest.raises(BackupError, match="early state of version"):
        restore.refuse_older(manifest)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "another tar"])
def test_damaged_backup_is_refused(backups: Path, tmp_path: Path, damage: str) -> None:
    body = bytearray((backups / "without").read_bytes())
    path = tmp_path / "damaged"
    if damage == "flipped":
        body[len(body) // 2] ^= 0xFF
    path.write_bytes({"short": body[: len(body) // 3], "empty": b""}.get(damage, body))
    if damage == "another tar":
        with tarfile.open(path, "w") as tar:
            tar.add(__file__, arcname="manifest.json")

    with pytest.raises(BackupError):
        archive.check(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite"])
def test_older_backup_is_migrated(install: Install, tmp_path: Path) -> None:
    # Django goes back only where no migration replaces others.
    program = """
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
MigrationRecorder(connection).record_unapplied("chat", "0001_squashed_0064")
executor = MigrationExecutor(connection)
executor.loader.replace_migrations = False
executor.loader.build_graph()
executor.migrate([("chat", "0063_second_factors")])
print(json.dumps([
    said("backup", sys.argv[1]),
    said("restore", sys.argv[1], "--yes"),
    said("keys"),
]))
"""
    backup = tmp_path / "older.backup"
    written, restored, keys = install(is_migrated=True).run(program, str(backup))

    assert "chat.0064_team_models" not in archive.check(backup).migrations
    assert "Backup written and verified" in written
    assert "Restored from" in restored
    assert "The keys match" in keys


STORE = """
from chat.models import FileContent, NewContent, StoredFile
with FileContent.objects.writing([NewContent(body=sys.argv[1].encode())]) as [content]:
    StoredFile.objects.store(None, name="a.txt", media_type="text/plain", content=content)
"""
FILES = """
from chat.models import FileContent, StoredFile, UnreferencedObject
print(json.dumps([
    said(*sys.argv[1:]),
    [file.body.decode() for file in StoredFile.objects.order_by("pk")],
    FileContent.objects.filter(object_name__gt="").count(),
    UnreferencedObject.objects.count(),
]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite"])
def test_backup_has_the_files_of_the_storage(install: Install, tmp_path: Path) -> None:
    backup, folder = str(tmp_path / "with-files"), tmp_path / "source"
    folder.mkdir()
    source = install(is_migrated=True)
    source.settings["FILES_DIR"] = str(folder)
    source.run(STORE + "print(1)", "kept")
    source.run(STORE + FILES.replace("*sys.argv[1:]", "'backup', sys.argv[2]"), "lost", backup)
    source.run(STORE + "print(1)", "newer")
    lost = next(
        each for each in folder.rglob("*") if each.is_file() and each.read_bytes() == b"lost"
    )
    lost.unlink()

    said, bodies, outside, unreferenced = source.run(FILES, "restore", backup)

    assert "Restored from" in said
    # The object of the newer file stays for a while.
    assert (bodies, outside, unreferenced) == (["kept", "lost"], 2, 1)
    assert sorted(objects_in(folder)) == [b"kept", b"lost", b"newer"]
    # Without a storage, the files of the backup are in the database.
    said, bodies, outside, _ = install().run(FILES, "restore", backup)
    assert "not in this backup" not in said
    assert (bodies, outside) == (["kept", "lost"], 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite"])
def test_backup_says_which_files_it_lacks(install: Install, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    source = install(is_migrated=True)
    source.settings["FILES_DIR"] = str(folder)
    source.run(STORE + "print(1)", "a file")
    program = "print(json.dumps([said('backup', *sys.argv[1:]), said('restore', sys.argv[1])]))"

    _, left_out = source.run(program, str(tmp_path / "without"), "--without-files")
    (path,) = (each for each in folder.rglob("*") if each.is_file())
    path.write_bytes(b"a lie.")
    damaged, _ = source.run(program, str(tmp_path / "damaged"))

    assert "1 file is in the storage for files, and not in this backup." in left_out
    assert (
        f"1 file can’t be read and is not in the backup. Its object: {path.parent.name}/" in damaged
    )
