"""The messages on the way from the root of a conversation to a run's own, as one statement reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.utils import timezone

from chat.core.prepared import fetch
from chat.models import Run
from chat.runs import queries


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRun:
    """The columns of a run on the path that are read; ``inputs`` are JSON. ``sent_from`` is the key of the first message
    that it was sent (`SentContext`), if some above it were not."""

    pk: int
    position: int
    upstream_id: int | None
    dialect: str
    status: str
    response_id: str
    result: str
    inputs: str
    sent_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMessage:
    """A message on the path; an answer with its runs in order. ``start`` is the key of its `ContextStart`."""

    pk: int
    role: str
    text: str
    has_attachments: bool
    start: int | None = None
    start_kind: str | None = None
    runs: list[PathRun] = field(default_factory=list)


def read_path_to(run: Run, dialect: str = "") -> tuple[list[PathMessage], int | None]:
    """The messages from the root to the run's own; of a continued answer, the runs up to this one.
    With a ``dialect`` the run may have been marked as sent; then also the number of the attempt."""
    if dialect and connection.vendor == "postgresql":
        now = timezone.now()
        mark = [now, dialect, run.pk, run.runner_id, now]
        rows = fetch(queries.MARKED_PATH, [run.message_id, *mark])
    else:
        rows = fetch(queries.PATH, [run.message_id])
    path = messages_in(row[1:] for row in rows)
    if path and path[-1].pk == run.message_id:
        answer = path[-1].runs
        answer[:] = [each for each in answer if each.position <= run.position]
    return path, rows[0][0] if rows else None


def messages_in(rows: Iterable[Sequence[Any]]) -> list[PathMessage]:
    """The messages of these rows of `queries.PATH`, of which each run has one."""
    path: list[PathMessage] = []
    for pk, role, text, has_attachments, start, start_kind, *columns in rows:
        if not path or path[-1].pk != pk:
            path.append(
                PathMessage(
                    pk=pk,
                    role=role,
                    text=text,
                    has_attachments=bool(has_attachments),
                    start=start,
                    start_kind=start_kind,
                )
            )
        if run := _run_of(columns):
            path[-1].runs.append(run)
    return path


def _run_of(columns: Sequence[Any]) -> PathRun | None:
    """An answer may have lost its runs, for example by an administrator's deletion."""
    pk, position, upstream_id, dialect, status, response_id, result, inputs, sent_from = columns
    if pk is None:
        return None
    return PathRun(
        pk=pk,
        position=position,
        upstream_id=upstream_id,
        dialect=dialect,
        status=status,
        response_id=response_id,
        result=result,
        inputs=inputs,
        sent_from=sent_from,
    )
