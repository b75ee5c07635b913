"""Statements whose text never changes: the ORM makes them once, and they run with other values.

Sending a message takes about twenty small statements. Making the text of one costs the ORM several
times what running it costs, and the database plans each one again unless it knows the text already.
So where it matters, a query is written as a function of its values::

    _answer_of = Prepared(lambda run: Message.objects.filter(runs=run))
    message = _answer_of.first(run=run.pk)

The function is called once for each kind of database, with placeholders in place of the values. It
must make the same query for all values: no decision may depend on one. A list of keys is the second
value of `IsOneOf`. On PostgreSQL the server keeps the plan (see ``DATABASE_PREPARED`` in the settings).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import SQLiteCursorWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import BooleanField, Expression, Field, Func, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import DeleteQuery, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

M = TypeVar("M", bound=Model)


class _Placeholder(Expression):
    """Stands for the value of this name in a query that is being compiled."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        return "%s", [self]


class Column(Expression):
    """A column of a statement in plain SQL, in a query whose conditions become a part of that statement
    (`condition_text`)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        return self.name, []


class IsOneOf(Func):
    """The condition that a key is in a list, whose length does not matter: ``filter(IsOneOf("pk", keys))``."""

    output_field = BooleanField()
    arity = 2
    arg_joiner = " IN (SELECT value FROM json_each("
    template = "%(expressions)s))"

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Any:
        # PostgreSQL looks up each key of an array. It expects a hundred rows of a subquery, for which it
        # reads a table of a few thousand from end to end.
        joiner = " = ANY (ARRAY(SELECT jsonb_array_elements_text("
        template = "%(expressions)s)::bigint))"
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner)


_PLACE = re.compile("%%|%s")


class _Text:
    """The text of a statement, and the positions of its values.

    Constants are in the text: the planner knows how few rows are queued, and SQLite uses a partial
    index only if it sees that the condition holds.
    """

    def __init__(self, text: str, parameters: Sequence[object]) -> None:
        literals = iter(
            [_literal(one) if isinstance(one, str | int) else "%s" for one in parameters]
        )
        self.text = _PLACE.sub(lambda found: next(literals) if found[0] == "%s" else found[0], text)
        self._parameters = [
            (one.name, None) if isinstance(one, _Placeholder) else (None, one)
            for one in parameters
            if not isinstance(one, str | int)
        ]

    @property
    def has_values(self) -> bool:
        return bool(self._parameters)

    def execute(
        self,
        database: BaseDatabaseWrapper,
        values: dict[str, object],
        before: Sequence[object] = (),
    ) -> CursorWrapper:
        """``before`` are values that come before those of the query."""
        cursor = _cursor(database, self.text)
        parameters = [
            *(_one_value(value, database) for value in before),
            *(
                constant if name is None else _adapted(values[name], database)
                for name, constant in self._parameters
            ),
        ]
        cursor.execute(self.text, parameters)
        return cursor


class Prepared(Generic[M]):
    """A query for objects, compiled once. ``make`` gets a placeholder for each of its arguments.

    ``changed`` is a common table expression with the name of the model's table, for PostgreSQL: the
    query reads the rows that its ``UPDATE … RETURNING *`` has changed, as they are now.
    """

    def __init__(self, make: Callable[..., QuerySet[M]], *, changed: str = "") -> None:
        self._make = make
        self._changed = changed
        self._known: dict[str, _Reading] = {}

    def all(self, *changes: object, **values: object) -> list[M]:
        """Objects, or the tuples of a ``values_list`` query. ``changes`` are the values of
        ``changed``. Raises ``ValueError`` for ``None``, which equals nothing in SQL."""
        if None in values.values():
            raise ValueError("a prepared query cannot be asked for what is not set")
        database = _database()
        reading = self._known.get(database.vendor) or self._compiled(database)
        with reading.text.execute(database, values, changes) as cursor:
            return list(reading.objects(cursor.fetchall()))

    def first(self, **values: object) -> M | None:
        """The query must be ordered, or match one row at most."""
        return next(iter(self.all(**values)), None)

    def _compiled(self, database: BaseDatabaseWrapper) -> _Reading:
        query = self._make(**_placeholders(self._make))
        reading = self._known[database.vendor] = _Reading(query, database)
        reading.text.text = self._changed + reading.text.text
        return reading


class _Reading:
    """How the rows of a compiled query become objects."""

    def __init__(self, queryset: QuerySet[Any], database: BaseDatabaseWrapper) -> None:
        compiler = queryset.query.get_compiler(connection=database)
        self.text = _Text(*compiler.as_sql())
        self._compiler = compiler
        # Computed once; the compiler would do it again for each row.
        columns = [column[0] for column in compiler.select]
        self._converters = compiler.get_converters(columns)
        self._is_plain = queryset._fields is not None
        self._is_flat = self._is_plain and len(columns) == 1
        if not self._is_plain:
            self._know_models(compiler)

    def _know_models(self, compiler: SQLCompiler) -> None:
        klass = compiler.klass_info
        assert klass is not None
        fields = klass["select_fields"]
        self._model: type[Model] = klass["model"]
        self._start, self._end = fields[0], fields[-1] + 1
        self._names = [
            column[0].target.attname for column in compiler.select[self._start : self._end]
        ]
        self._related = get_related_populators(klass, compiler.select, DEFAULT_DB_ALIAS)
        self._extra = compiler.annotation_col_map or {}

    def objects(self, rows: list[Any]) -> Iterator[Any]:
        if self._converters:
            rows = self._compiler.apply_converters(rows, self._converters)
        if self._is_plain:
            yield from (row[0] if self._is_flat else tuple(row) for row in rows)
            return
        for row in rows:
            found = self._model.from_db(DEFAULT_DB_ALIAS, self._names, row[self._start : self._end])
            for populator in self._related:
                populator.populate(row, found)
            for name, position in self._extra.items():
                setattr(found, name, row[position])
            yield found


def _literal(value: str | int) -> str:
    """The value as both databases read it, in a text with placeholders."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    quoted = value.replace("'", "''").replace("%", "%%")
    return f"'{quoted}'"


class PreparedUpdate:
    """``make`` returns the rows as a query, and the values to set. With ``returning`` (names of
    columns that need no conversion) a call returns the values of the changed rows."""

    def __init__(
        self,
        make: Callable[..., tuple[QuerySet[Any], dict[str, object]]],
        *,
        returning: Sequence[str] = (),
    ) -> None:
        self._make = make
        self._returning = returning
        self._known: dict[str, _Text] = {}

    def __call__(self, **values: object) -> int:
        """The number of rows."""
        with self._executed(values) as cursor:
            return int(cursor.rowcount)

    def rows(self, **values: object) -> list[tuple[Any, ...]]:
        with self._executed(values) as cursor:
            return cursor.fetchall()

    def _executed(self, values: dict[str, object]) -> CursorWrapper:
        database = _database()
        text = self._known.get(database.vendor) or self._compiled(database)
        return text.execute(database, values)

    def _compiled(self, database: BaseDatabaseWrapper) -> _Text:
        rows, changes = self._make(**_placeholders(self._make))
        query = rows.query.chain(UpdateQuery)
        query.add_update_values(changes)
        text, parameters = query.get_compiler(connection=database).as_sql()
        if self._returning:
            names = ", ".join(database.ops.quote_name(name) for name in self._returning)
            text = f"{text} RETURNING {names}"
        known = self._known[database.vendor] = _Text(text, parameters)
        return known


class PreparedDelete:
    """``make`` returns the rows, to which nothing else refers."""

    def __init__(self, make: Callable[..., QuerySet[Any]]) -> None:
        self._make = make
        self._known: dict[str, _Text] = {}

    def __call__(self, **values: object) -> None:
        database = _database()
        text = self._known.get(database.vendor) or self._compiled(database)
        text.execute(database, values).close()

    def _compiled(self, database: BaseDatabaseWrapper) -> _Text:
        query = self._make(**_placeholders(self._make)).query.chain(DeleteQuery)
        known = _Text(*query.get_compiler(connection=database).as_sql())
        self._known[database.vendor] = known
        return known


def insert(one: M) -> M:
    """Writes a new row, as ``save`` would, and sets its key."""
    model = type(one)
    database = _database()
    known = _inserts.get((database.vendor, model)) or _made_insert(model, database)
    text, fields = known
    values = [field.get_db_prep_save(field.pre_save(one, add=True), database) for field in fields]
    with _cursor(database, text) as cursor:
        cursor.execute(text, values)
        (one.pk,) = cursor.fetchone()
    one._state.adding = False
    one._state.db = DEFAULT_DB_ALIAS
    return one


def fetch(text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement in plain SQL, for what the ORM cannot express. The text must never
    change. A list is passed as an array."""
    database = _database()
    with _cursor(database, text) as cursor:
        cursor.execute(text, [_one_value(value, database) for value in values])
        return cursor.fetchall() if cursor.description else []


def condition_text(rows: QuerySet[Any]) -> str:
    """The conditions of a query, for statements in plain SQL that read its table by the table's own name.
    The query joins no other table, and its values are columns, texts and numbers."""
    compiler = rows.query.get_compiler(connection=_database())
    condition = _Text(*compiler.compile(rows.query.where))
    assert sum(map(bool, rows.query.alias_refcount.values())) <= 1, condition.text
    assert not condition.has_values, condition.text
    return f"({condition.text})"


def query_text(rows: QuerySet[Any]) -> str:
    """A query as a subquery of a statement in plain SQL. Its values are columns, texts and numbers."""
    query = _Text(*rows.query.get_compiler(connection=_database()).as_sql())
    assert not query.has_values, query.text
    return f"({query.text})"


def array_of_keys(keys: Iterable[object]) -> str:
    """An array of PostgreSQL, as text: of numbers, of letters and digits, or of ``None``. For hundreds of
    them: psycopg takes ten times as long for a list."""
    return f"{{{json.dumps(list(keys))[1:-1]}}}"


_inserts: dict[tuple[str, type[Model]], tuple[str, list[Field[Any, Any]]]] = {}


def _made_insert(
    model: type[Model], database: BaseDatabaseWrapper
) -> tuple[str, list[Field[Any, Any]]]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    quote = database.ops.quote_name
    names = ", ".join(quote(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    table, key = quote(model._meta.db_table), quote(model._meta.pk.column)
    text = f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING {key}"  # noqa: S608
    known = _inserts[database.vendor, model] = text, fields
    return known


def _placeholders(make: Callable[..., object]) -> dict[str, _Placeholder]:
    code = make.__code__
    return {name: _Placeholder(name) for name in code.co_varnames[: code.co_argcount]}


def _adapted(value: object, database: BaseDatabaseWrapper) -> object:
    """The value as the database takes it. The ORM's fields do the same by the type of the value."""
    if isinstance(value, dict | list | tuple):
        return database.ops.adapt_json_value(value, None)
    return _one_value(value, database)


def _one_value(value: object, database: BaseDatabaseWrapper) -> object:
    if isinstance(value, UUID):
        return value if database.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return database.ops.adapt_datetimefield_value(value)
    return value


class _ServerCursor(psycopg.Cursor[Any]):
    """Sends values beside the text, so that the server can keep the plan. Django's own cursor puts
    them into the text."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        return super().execute(query, params, **{"prepare": True, **options})


class _NumberedCursor(psycopg.RawCursor[Any]):
    """Sends values beside the text, too, where psycopg may choose their form. It knows how a text reads with numbers in
    place of the marks; psycopg finds that out each time for texts of more than 4 KB."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        known = _texts_in_postgres.get(query)
        if known is None:
            known = _texts_in_postgres[query] = _numbered(query)
        return super().execute(known, params, **{"prepare": True, **options})


def _numbered(text: str) -> bytes:
    numbers = count(1)
    return _PLACE.sub(lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", text).encode()


_texts_in_postgres: dict[str, bytes] = {}


class _SQLiteCursor(SQLiteCursorWrapper):
    """Knows how the text of a statement reads in SQLite. Django's own cursor converts it each time."""

    def convert_query(self, query: str, *, param_names: list[str] | None = None) -> str:
        known = _texts_in_sqlite.get(query)
        if known is None:
            known = _texts_in_sqlite[query] = super().convert_query(query)
        return known


_texts_in_sqlite: dict[str, str] = {}


def _database() -> BaseDatabaseWrapper:
    """This thread's connection itself: each access through Django's proxy costs as much as a value
    does."""
    return connections[DEFAULT_DB_ALIAS]


def _cursor(database: BaseDatabaseWrapper, text: str) -> CursorWrapper:
    """A cursor for a statement with this text."""
    database.ensure_connection()
    if database.vendor == "sqlite":
        return database._prepare_cursor(database.connection.cursor(factory=_SQLiteCursor))
    if database.vendor == "postgresql" and settings.DATABASE_PREPARED:
        kind = _ServerCursor if "%b" in text else _NumberedCursor
        return database._prepare_cursor(kind(database.connection))
    return database.cursor()
