"""Dumps and restores a PostgreSQL database with PostgreSQL's own programs.

Address and password are passed in the environment, because process lists show arguments.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from django.utils.translation import gettext, gettext_lazy, ngettext
from psycopg import pq

from project.backup.archive import BackupError

NO_CLIENT = gettext_lazy(
    "%(program)s isn’t installed. Install PostgreSQL’s client programs (Debian: apt-get install "
    "postgresql-client), at least as new as the server."
)
# In one transaction with the restore, so that a failed restore changes nothing.
EMPTY = "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public;"
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
# A tenth of a second apart, because the server notices a closed connection with a delay.
IN_USE_TRIES = 20
# Parameters of libpq that a database URL may contain, with their environment variables.
_PARAMETERS = {
    each.keyword.decode(): each.envvar.decode()
    for each in pq.Conninfo.get_defaults()
    if each.envvar
}


def environment(database: Mapping[str, Any]) -> dict[str, str]:
    """The environment for libpq, including the password, and without our own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    address = {
        "PGHOST": database.get("HOST"),
        "PGPORT": database.get("PORT"),
        "PGUSER": database.get("USER"),
        "PGPASSWORD": database.get("PASSWORD"),
        "PGDATABASE": database.get("NAME"),
    }
    options = database.get("OPTIONS", {})
    more = {variable: options.get(name) for name, variable in _PARAMETERS.items()}
    found = {name: str(value) for name, value in (*more.items(), *address.items()) if value}
    return {**kept, **found, "PGAPPNAME": "tributary backup", "PGCLIENTENCODING": "UTF8"}


def dump(database: Mapping[str, Any], target: Path) -> None:
    """A consistent dump, which does not block writers."""
    _run(
        database,
        ["pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}"],
    )


def check(dumped: Path) -> None:
    """Unpacks the whole dump and discards the result."""
    _run({}, ["pg_restore", "--file=/dev/null", str(dumped)])


def migrations(dumped: Path) -> list[str]:
    """The migrations that are applied in the dump."""
    arguments = ["--data-only", "--table=django_migrations", "--file=-"]
    text = _run({}, ["pg_restore", *arguments, str(dumped)])
    copied = re.search(
        r"^COPY public\.django_migrations \(([^)]*)\) FROM stdin;\n(.*?)^\\\.$", text, re.M | re.S
    )
    if copied is None:
        return []
    columns = [name.strip() for name in copied[1].split(",")]
    rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in copied[2].splitlines()]
    return sorted(f"{row['app']}.{row['name']}" for row in rows)


def is_in_use(database: Mapping[str, Any]) -> str:
    """A sentence that counts the other connections; empty if there are none."""
    for _ in range(IN_USE_TRIES):
        others = int(_run(database, ["psql", "-X", "-t", "-A", "-c", OTHERS]))
        if not others:
            return ""
        time.sleep(0.1)
    told = ngettext(
        "%(count)d other connection to this database is open. Stop all web processes and runners "
        "first.",
        "%(count)d other connections to this database are open. Stop all web processes and runners "
        "first.",
        others,
    )
    return told % {"count": others}


def room_for_dump(database: Mapping[str, Any], backup: Path) -> Path:
    """Next to the backup: in a container, DATA_DIR is a small file system in memory."""
    return backup


def restore(database: Mapping[str, Any], dumped: Path) -> str:
    """Replaces everything in one transaction.

    psql is told to commit only after the dump was read completely. It can't decide that itself,
    because a truncated dump looks to it like a complete one.
    """
    source = ["pg_restore", "--no-owner", "--no-privileges", "--file=-", str(dumped)]
    sink = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    with (
        tempfile.TemporaryFile() as source_said,
        tempfile.TemporaryFile() as sink_said,
        subprocess.Popen(
            _found(source), stdout=subprocess.PIPE, stderr=source_said, env=environment({})
        ) as reading,
        subprocess.Popen(
            _found(sink),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=sink_said,
            env=environment(database),
        ) as writing,
    ):
        is_whole = _pour(reading, writing)
        if not is_whole:
            # The connection is lost, so the server rolls back.
            reading.kill()
            writing.kill()
        reading.wait()
        writing.wait()
        if is_whole and writing.returncode == 0:
            return ""
        said = "".join(_text_of(file) for file in (sink_said, source_said))
    raise BackupError(gettext("Nothing was changed. %(error)s") % {"error": _first_error(said)})


def _pour(reading: subprocess.Popen[bytes], writing: subprocess.Popen[bytes]) -> bool:
    """Copies the dump from one program to the other, then commits. Returns whether it was
    complete."""
    assert reading.stdout is not None
    assert writing.stdin is not None
    try:
        writing.stdin.write(f"BEGIN; {EMPTY}\n".encode())
        shutil.copyfileobj(reading.stdout, writing.stdin)
        if reading.wait() != 0:
            return False
        writing.stdin.write(b"\nCOMMIT;\n")
        writing.stdin.close()
    except BrokenPipeError:
        # psql has failed and reported an error.
        writing.wait()
        return False
    return True


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _run(database: Mapping[str, Any], command: Sequence[str]) -> str:
    done = subprocess.run(
        _found(command), env=environment(database), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BackupError(f"{command[0]}: {_first_error(done.stderr)}")
    return done.stdout


def _found(command: Sequence[str]) -> list[str]:
    program = shutil.which(command[0])
    if program is None:
        raise BackupError(NO_CLIENT % {"program": command[0]})
    return [program, *command[1:]]


def _first_error(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wanted = next((line for line in lines if "error" in line.lower()), "")
    return (wanted or (lines[0] if lines else gettext("it failed without a message")))[:500]
