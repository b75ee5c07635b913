"""Rows of values as a table in a statement in plain SQL, whose text does not depend on their number."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import connection

_IN_POSTGRES = "jsonb_to_recordset(%s::jsonb) AS {name} ({columns})"
_IN_SQLITE = "(SELECT {columns} FROM json_each(%s)) AS {name}"


class ValueTable:
    """``columns`` are the names with PostgreSQL's types. `text` stands after ``FROM``, and has one placeholder,
    for `value`."""

    def __init__(self, name: str, **columns: str) -> None:
        self._columns = tuple(columns)
        typed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        extracted = ", ".join(
            f"json_extract(value, '$.{column}') AS {column}" for column in columns
        )
        self._texts = {
            "postgresql": _IN_POSTGRES.format(name=name, columns=typed),
            "sqlite": _IN_SQLITE.format(name=name, columns=extracted),
        }

    @property
    def text(self) -> str:
        return self._texts[connection.vendor]

    def value(self, rows: Iterable[tuple[object, ...]]) -> str:
        """Texts must have no NUL and no lone surrogate (`chat.core.text.clean`)."""
        return json.dumps([dict(zip(self._columns, map(_plain, row), strict=True)) for row in rows])


def _plain(value: object) -> object:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return str(connection.ops.adapt_datetimefield_value(value))
    return value
