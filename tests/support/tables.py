"""Empties what a test has committed, and nothing else.

Django's own way empties every table and makes permissions and content types anew: for each such
test that is a second on PostgreSQL, and on SQLite a sixth of what the test takes itself.
"""

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

# What the migrations have put there stays. The full-text index of SQLite has tables of its own, and
# keeps the words of rows that are gone, whose keys are never used again.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}
FULL_TEXT_INDEX = "chat_searchindex"


def empty_filled_tables() -> None:
    with connection.cursor() as cursor:
        filled = _filled(cursor)
        if not filled:
            return
        # Without looking at references from one to the other, which go together.
        if connection.vendor == "postgresql":
            cursor.execute("SET session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in filled))
            cursor.execute("SET session_replication_role = DEFAULT")
            return
        with connection.constraint_checks_disabled(), transaction.atomic():
            for table in filled:
                cursor.execute(f"DELETE FROM {table}")


def _filled(cursor: CursorWrapper) -> list[str]:
    if connection.vendor not in _tables:
        _tables[connection.vendor] = [
            connection.ops.quote_name(name)
            for name in connection.introspection.table_names(cursor)
            if name not in KEPT and not name.startswith(FULL_TEXT_INDEX)
        ]
    cursor.execute(
        " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})"
            for table in _tables[connection.vendor]
        )
    )
    return [table for (table,) in cursor.fetchall()]


# By the kind of database: looking for them takes PostgreSQL longer than asking all of them.
_tables: dict[str, list[str]] = {}
