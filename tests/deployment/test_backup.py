"""The whole installation in one file and back, with real databases and the commands as they are."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError

from chat.management.commands import restore
from project.backup import archive, postgres, sqlite
from project.backup.archive import BackupError, Manifest
from project.lock import FileLock
from project.startup import hold_data_dir

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = "postgres://postgres:canary-password@127.0.0.1:5432"
CANARY = "sk-canary-of-the-backup"
SNOW = "\u2603 " * 1000

# Commands, one after the other in one process; what each says, or why it refuses.
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
call_command("migrate", verbosity=0)
from django.utils import timezone
from chat.actions.conversations import ModelChoice, start_conversation
from chat.actions.keys import adopt_keys
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
from chat.actions.keys import WrongKeys, adopt_keys
from chat.models import Message, Run, Runner, Upstream, User
from chat.vault import VaultLocked
try:
    key = Upstream.objects.get().open_key()
except VaultLocked:
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
}
"""


class Installation:
    """A data directory, and programs that work on it, each in a process of its own."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.settings = {"DATABASE_URL": database_url} if database_url else {}

    def run(self, program: str, *arguments: str) -> Any:
        """What the program prints at its end, as JSON."""
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


@contextmanager
def postgres_database() -> Iterator[str]:
    name = f"backup_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True, connect_timeout=2) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRES}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def postgres_is_absent() -> str:
    if not all(map(shutil.which, ("pg_dump", "pg_restore", "psql"))):
        return "no pg_dump, pg_restore and psql"
    try:
        psycopg.connect(f"{POSTGRES}/postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return "no PostgreSQL on 127.0.0.1:5432"
    return ""


@contextmanager
def installation(kind: str, folder: Path) -> Iterator[Installation]:
    if kind == "sqlite":
        yield Installation(folder)
        return
    if reason := postgres_is_absent():
        pytest.skip(reason)
    with postgres_database() as url:
        yield Installation(folder, url)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of backups by kind, each made when it is first wanted: the tests' order is random."""
    return {}


@pytest.fixture
def backups(kind: str, made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two backups of one installation: ``with-keys`` and ``without``."""
    if kind not in made:
        made[kind] = make_backups(kind, tmp_path_factory)
    return made[kind]


def make_backups(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups")
    write = """
folder = sys.argv[2]
print(json.dumps([
    said("backup", f"{folder}/with-keys", "--with-keys"),
    said("backup", f"{folder}/without"),
    said("backup", f"{folder}/without"),
]))
"""
    with installation(kind, tmp_path_factory.mktemp("source")) as source:
        said = source.run(FILL + write, CANARY, str(folder))
    assert "1 people, 3 conversations, 6 messages, 3 runs" in said[0]
    assert "keep it as you keep a password" in said[0]
    assert "The keys are not in it" in said[1]
    assert "exists already" in said[2]
    return folder


def test_everything_comes_back_on_another_machine(kind: str, backups: Path, tmp_path: Path) -> None:
    restores = """
file = sys.argv[1]
print(json.dumps([
    said("restore", file, "--with-keys"),
    said("restore", file, "--with-keys"),
    said("restore", file, "--with-keys", "--yes"),
]))
"""
    with installation(kind, tmp_path / "target") as target:
        restored, unasked, again = target.run(restores, str(backups / "with-keys"))
        found = target.run(LOOK + "print(json.dumps(found))")

    assert "Answers that were under way in it were ended: 3" in restored
    assert "There is an installation with 1 accounts here. Say --yes" in unasked
    assert "Restored from" in again
    assert found == {
        "people": ["alice@example.org"],
        "texts": [SNOW],
        # What was sent is lost with its runner; what waited may have been sent since.
        "runs": ["interrupted", "interrupted", "stopped"],
        "runners": 0,
        "key": CANARY,
        "fits": True,
    }


def test_without_the_keys_no_credential_can_be_read(
    kind: str, backups: Path, tmp_path: Path
) -> None:
    begin = 'restored = said("restore", sys.argv[1])'
    end = "print(json.dumps([restored, found]))"
    with installation(kind, tmp_path / "target") as target:
        restored, found = target.run(begin + LOOK + end, str(backups / "without"))

    assert archive.read_keys(backups / "without") == {}
    assert "The keys here are not those of the backup" in restored
    assert (found["key"], found["fits"]) == ("locked", False)


def test_the_files_are_for_their_owner_alone_and_name_no_password(backups: Path) -> None:
    assert sorted(path.name for path in backups.iterdir()) == ["with-keys", "without"]
    for path in backups.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "canary-password" not in repr(archive.check(path))


def test_a_backup_of_a_newer_version_is_refused(backups: Path) -> None:
    manifest = archive.check(backups / "without")
    restore.refuse_newer(manifest)
    manifest.migrations.append("chat.9999_from_the_future")

    with pytest.raises(BackupError, match="made by a newer version"):
        restore.refuse_newer(manifest)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "another tar"])
def test_a_damaged_file_is_refused(backups: Path, tmp_path: Path, damage: str) -> None:
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


# --- SQLite ---------------------------------------------------------------------------


def test_nothing_is_restored_under_a_server_that_runs(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR, settings.IS_SQLITE = tmp_path, True
    lock = FileLock(tmp_path / "server.lock")
    lock.acquire()

    with pytest.raises(CommandError, match="already uses"):
        hold_data_dir()

    lock.release()


KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("INSERT INTO words VALUES (2, 'later', 1)")
database.commit()
os._exit(0)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "live.sqlite3"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word, of REFERENCES words(id))")
        made.execute("INSERT INTO words VALUES (1, 'whole', NULL)")
    return path


def test_a_copy_made_while_somebody_writes_is_of_one_moment(database: Path) -> None:
    copy = database.with_name("copy")
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE words SET word = 'half'")

        sqlite.dump({"NAME": str(database)}, copy)

        writer.commit()
    sqlite.check(copy)
    with closing(sqlite3.connect(copy)) as copied:
        assert copied.execute("SELECT word FROM words").fetchall() == [("whole",)]


def test_rows_that_refer_to_nothing_are_no_backup(database: Path) -> None:
    with closing(sqlite3.connect(database)) as damaged, damaged:
        damaged.execute("INSERT INTO words VALUES (2, 'lost', 99)")

    with pytest.raises(BackupError, match="rows in words refer to nothing"):
        sqlite.check(database)


def test_a_damaged_database_is_no_backup(database: Path) -> None:
    with closing(sqlite3.connect(database)) as sound, sound:
        sound.execute("PRAGMA journal_mode=DELETE")
        sound.executemany(
            "INSERT INTO words VALUES (?, ?, 1)", [(n, "x" * 99) for n in range(2, 999)]
        )
    body = bytearray(database.read_bytes())
    body[8192:40960] = b"\xff" * 32768
    database.write_bytes(body)

    with pytest.raises(BackupError, match=r"damaged|cannot be read"):
        sqlite.check(database)


def test_the_database_that_is_replaced_is_kept_with_what_belongs_to_it(
    database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    sqlite.dump({"NAME": str(database)}, copy)
    # As a process that was killed leaves it: with changes that are only in the log beside it.
    subprocess.run([sys.executable, "-c", KILLED, str(database)], check=True)

    sqlite.restore({"NAME": str(database)}, copy)

    (kept,) = tmp_path.glob("live.sqlite3.before-*Z")
    with closing(sqlite3.connect(kept)) as before, closing(sqlite3.connect(database)) as now:
        assert before.execute("SELECT count(*) FROM words").fetchone() == (2,)
        assert now.execute("SELECT count(*) FROM words").fetchone() == (1,)


def test_an_older_backup_is_migrated(tmp_path: Path, migrated_database: Path) -> None:
    older = Installation(tmp_path / "older")
    shutil.copy(migrated_database, older.folder / "tributary.sqlite3")
    program = """
print(json.dumps([
    said("migrate", "chat", "0006", "--verbosity", "0"),
    said("backup", sys.argv[1]),
    said("restore", sys.argv[1], "--yes"),
    said("keys"),
]))
"""

    _, written, restored, fits = older.run(program, str(tmp_path / "older.backup"))

    assert "chat.0007_keys_and_cache" not in archive.check(tmp_path / "older.backup").migrations
    assert "Backup written and checked" in written
    assert "Restored from" in restored
    assert "The keys fit" in fits


# --- what is refused without touching anything ------------------------------------------------


def manifest(**changes: Any) -> Manifest:
    whole = {"version": "1", "made_at": "", "migrations": [], "dump_bytes": 0, "dump_sha256": ""}
    return Manifest(**{**whole, "engine": "sqlite", **changes})


def test_a_backup_of_another_kind_of_database_is_refused() -> None:
    other = "sqlite" if restore.connection.vendor == "postgresql" else "postgresql"

    with pytest.raises(BackupError, match=f"of kind {other}"):
        restore.refuse_other_engine(manifest(engine=other))


def test_keys_of_the_environment_are_not_mixed_with_those_of_a_backup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", "/run/secrets/secret_key")

    with pytest.raises(BackupError, match="SECRET_KEY is set in the environment"):
        restore.refuse_keys_of_the_environment()


def test_a_key_that_is_replaced_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    path.write_text("old\n")

    restore.replace_key(path, "new\n")

    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "secret-key.before-restore").read_text() == "old\n"


# --- PostgreSQL -------------------------------------------------------------------------------


def test_missing_programs_of_postgresql_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(BackupError, match="pg_dump is not installed here"):
        postgres.dump({"NAME": "x"}, tmp_path / "dump")


def test_the_password_is_no_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text(f'#!/bin/sh\necho "$@" "$PGPASSWORD" "$PGSSLMODE" > {tmp_path}/asked\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    address = {"NAME": "n", "PASSWORD": "canary", "OPTIONS": {"sslmode": "require", "pool": {}}}

    postgres.dump(address, tmp_path / "dump")

    *arguments, password, mode = (tmp_path / "asked").read_text().split()
    assert (password, mode) == ("canary", "require")
    assert "canary" not in " ".join(arguments)


def test_what_the_address_asks_of_the_connection_is_asked_here_too() -> None:
    options = {"channel_binding": "require", "require_auth": "scram-sha-256", "pool": {}}

    found = postgres.environment({"NAME": "n", "OPTIONS": options})

    assert found["PGCHANNELBINDING"] == "require"
    assert found["PGREQUIREAUTH"] == "scram-sha-256"


def test_a_dump_is_unpacked_where_there_is_room_for_it(tmp_path: Path) -> None:
    database, backup = tmp_path / "disk" / "tributary.sqlite3", tmp_path / "backups" / "b"

    # A file takes the place of another one on its own disk only.
    assert sqlite.room_for_dump({"NAME": str(database)}, backup).parent == database.parent
    # In a container DATA_DIR is too small.
    assert postgres.room_for_dump({}, backup).parent == backup.parent


@pytest.fixture
def empty_postgres() -> Iterator[tuple[str, dict[str, Any]]]:
    """Its address, and the same as settings have it."""
    if reason := postgres_is_absent():
        pytest.skip(reason)
    with postgres_database() as url:
        name = url.rpartition("/")[2]
        yield url, {"HOST": "127.0.0.1", "PORT": 5432, "USER": "postgres", "NAME": name}


def test_a_database_that_somebody_uses_is_not_replaced(
    empty_postgres: tuple[str, dict[str, Any]],
) -> None:
    url, address = empty_postgres
    before = postgres.is_in_use(address)
    with psycopg.connect(url):
        during = postgres.is_in_use(address)

    assert before == ""
    assert "1 other connection is open" in during


def test_a_restore_that_fails_leaves_everything_as_it_was(
    empty_postgres: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, address = empty_postgres
    with psycopg.connect(url) as made:
        made.execute("CREATE TABLE kept AS SELECT generate_series(1, 100000) AS n")
    postgres.dump(address, tmp_path / "dump")
    body = (tmp_path / "dump").read_bytes()
    (tmp_path / "dump").write_bytes(body[: len(body) // 2])

    with pytest.raises(BackupError):
        postgres.restore(address, tmp_path / "dump")

    with psycopg.connect(url) as looked:
        row = looked.execute("SELECT count(*) FROM kept").fetchone()
    assert row == (100000,)
