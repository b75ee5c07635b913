"""A pytest plugin for a run on PostgreSQL: empties what a test has filled, and nothing else.

Django's own way truncates every table and makes permissions and content types anew: a second for
each test. Load it with ``-p tests.runs.postgres``.
"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import TransactionTestCase

# What the migrations have put there stays.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}


def empty_filled_tables() -> None:
    with connection.cursor() as cursor:
        tables = [
            connection.ops.quote_name(name)
            for name in connection.introspection.table_names(cursor)
            if name not in KEPT
        ]
        looks = " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables
        )
        cursor.execute(looks)
        filled = [table for (table,) in cursor.fetchall()]
        if filled:
            # Without looking at references from one to the other, which go together.
            cursor.execute("SET session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in filled))
            cursor.execute("SET session_replication_role = DEFAULT")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    TransactionTestCase._fixture_teardown = lambda test: empty_filled_tables()
