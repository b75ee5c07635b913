"""Everything that the database holds, and rows that are there for one case of a test only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


def everything_stored() -> str:
    """Every value of every table, as text."""
    with connection.cursor() as cursor:
        rows = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            rows += cursor.fetchall()
    return repr(rows)


@contextmanager
def rolled_back() -> Iterator[None]:
    """Undoes at its end what was written within, so that cases can share what was there before."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
