"""The statements that differ between databases, on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

pytestmark = pytest.mark.process

# Nobody needs these rows after a power cut.
HASTE = "-c synchronous_commit=off"
SERVER = "postgres://postgres@127.0.0.1:5432"
CHOSEN = {
    # The whole contract, over every tail that this machine has a server for.
    "feed": ("tests/runs/test_feed.py",),
    "statements": (
        "tests/files/test_mockups.py::test_a_version_serves_its_own_files_and_nothing_else",
        "tests/live/test_access.py",
        "tests/live/test_troubles.py",
        "tests/runs/test_prepared.py",
        "tests/views/test_changes.py",
        "tests/views/test_listing.py",
        "tests/views/test_sending.py",
    ),
    "claims and writes": (
        "tests/runs/test_commit_line.py",
        "tests/runs/test_ownership.py",
        "tests/runs/test_bystander.py",
        "tests/runs/test_fetching_together.py",
        "tests/runs/test_prompt.py",
        "tests/runs/test_refusals.py",
        "tests/runs/test_reaper.py",
        "tests/runs/test_writer.py::test_a_zombie_s_write_is_refused_and_aborts_nobody_else_s[reap]",
        "tests/runs/test_writer.py::test_a_zombie_cannot_end_the_run_and_aborts_nobody_else_s_end[take_over]",
        "tests/runs/test_writer.py::test_a_number_that_is_taken_is_refused_and_aborts_nobody_else_s",
        "tests/runs/test_writer.py::test_reaping_against_a_writer_that_goes_on_ends_once_with_all_that_was_committed",
        "tests/runs/test_writer.py::test_a_write_that_the_database_refuses_takes_no_other_with_it",
        "tests/runs/test_writer.py::test_an_answer_that_was_lost_after_the_commit_costs_nobody_their_run",
        "tests/runs/test_writer.py::test_runs_that_end_together_lock_their_rooms_in_one_order",
        "tests/runs/test_writer.py::test_a_plain_answer_ends_with_no_savepoint_and_nothing_read_again",
        "tests/runs/test_writer.py::test_what_many_runs_write_is_one_statement_that_is_always_the_same",
        "tests/runs/test_writer.py::test_only_the_next_number_of_a_run_that_is_its_writer_s_is_inserted",
        "tests/runs/test_writer.py::test_a_commit_reads_no_run_but_those_that_write",
        "tests/runs/test_queue.py",
        "tests/runs/test_seen.py",
        "tests/runs/test_questions.py::test_of_many_who_answer_at_once_one_is_first",
        "tests/runs/test_questions.py::test_two_calls_answered_at_the_same_moment_go_on_once",
    ),
}


def connect() -> psycopg.Connection:
    return psycopg.connect(f"{SERVER}/postgres", connect_timeout=2, autocommit=True)


@pytest.fixture
def database() -> Iterator[str]:
    """A name of our own; pytest-django makes ``test_`` and that, and we remove it whatever happens."""
    try:
        connect().close()
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL on 127.0.0.1:5432 that trusts the user postgres")
    name = f"tributary_{uuid.uuid4().hex[:12]}"
    yield name
    with connect() as server:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        server.execute(drop.format(sql.Identifier(f"test_{name}")))


@pytest.mark.skipif(not settings.IS_SQLITE, reason="this run is on another database already")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_the_log_is_written_and_read_on_postgresql_by_the_same_rules(
    database: str, chosen: str
) -> None:
    plain = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]

    done = subprocess.run(
        [*command, "--no-header", "-p", "no:xdist", *CHOSEN[chosen]],
        cwd=settings.BASE_DIR,
        env={**plain, "DATABASE_URL": f"{SERVER}/{database}", "PGOPTIONS": HASTE},
        capture_output=True,
        text=True,
        timeout=590,
    )

    assert done.returncode == 0, done.stdout[-6000:]
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    expected = ("no Redis on 127.0.0.1:6379", "fills a file of SQLite")
    assert all(any(reason in line for reason in expected) for line in skipped), skipped
