"""Processes of the previous version work with the new schema, until they are replaced."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import OperationalError
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import (
    AddField,
    CreateModel,
    DeleteModel,
    RemoveField,
    RenameField,
    RenameModel,
)
from django.db.models import NOT_PROVIDED, CharField, Field, ManyToManyField

from chat.management.commands.migrate import MOST_ATTEMPTS

# Earlier ones are in a release.
FIRST = "0035"


def migrations() -> list[Migration]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    ours = [one for (app, _), one in loader.disk_migrations.items() if app == "chat"]
    return sorted((one for one in ours if one.name >= FIRST), key=lambda one: one.name)


def needs_value(field: Field) -> bool:
    """An INSERT that doesn't know the column fails."""
    return not (
        field.null or isinstance(field, ManyToManyField) or field.db_default is not NOT_PROVIDED
    )


def breaks(migration: Migration) -> Iterator[str]:
    """Changes that fail in a process of the previous version."""
    made = {each.name_lower for each in migration.operations if isinstance(each, CreateModel)}
    for each in migration.operations:
        if isinstance(each, DeleteModel | RemoveField | RenameField | RenameModel):
            yield each.describe()
        if not isinstance(each, AddField) or each.model_name_lower in made:
            continue
        if needs_value(each.field):
            yield f"{each.describe()}, which needs a value, without a db_default"


@pytest.mark.parametrize("migration", migrations(), ids=lambda migration: migration.name)
def test_migration_only_adds_what_the_previous_version_can_leave_out(migration: Migration) -> None:
    assert list(breaks(migration)) == []


def test_column_without_a_default_is_found() -> None:
    added = AddField("conversation", "mood", CharField(max_length=10, default="calm"))
    migration = Migration("0099_mood", "chat")
    migration.operations = [added]

    assert list(breaks(migration)) == [
        "Add field mood to conversation, which needs a value, without a db_default"
    ]


@pytest.mark.parametrize(
    ("error", "losses", "attempts"),
    [
        (psycopg.errors.DeadlockDetected(), 2, 3),
        (psycopg.errors.DeadlockDetected(), 9, MOST_ATTEMPTS),
        (psycopg.errors.LockNotAvailable(), 9, 1),
    ],
)
def test_migrating_goes_on_after_a_lost_deadlock(
    transactional_db: None,
    monkeypatch: pytest.MonkeyPatch,
    error: psycopg.Error,
    losses: int,
    attempts: int,
) -> None:
    tried: list[object] = []

    def handle(command: migrate.Command, *_: Any, **__: Any) -> None:
        tried.append(command)
        if len(tried) <= losses:
            raise OperationalError from error

    monkeypatch.setattr(migrate.Command, "handle", handle)
    fails = losses >= attempts
    with pytest.raises(OperationalError) if fails else nullcontext():
        call_command("migrate")

    assert len(tried) == attempts
