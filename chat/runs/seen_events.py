"""Records which kinds of events a server has sent, counted over all its answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

from django.db import connection
from django.utils import timezone

from chat.core.prepared import fetch

# A server that invents names cannot fill the table; its known kinds are still counted.
MAX_KINDS = 300


class EventCount(Protocol):
    """One kind of event of one stream."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def is_known(self) -> bool: ...
    @property
    def sample(self) -> str: ...


def record_seen(upstream_pk: int, kinds: Iterable[EventCount]) -> None:
    """Adds the counts of one stream, with a row for each new kind. ``sample`` is stored as given:
    the caller has removed credentials. A kind that the dialect has learned since loses its mark and
    its sample."""
    rows = _by_name(kinds)
    if not rows:
        return
    is_postgres = connection.vendor == "postgresql"
    came = (
        [list(column) for column in zip(*rows, strict=True)] if is_postgres else [json.dumps(rows)]
    )
    now = timezone.now()
    fetch(
        _RAISE.format(came=_ARRAYS if is_postgres else _JSON),
        [*came, upstream_pk, upstream_pk, now, now, MAX_KINDS, upstream_pk],
    )


def _by_name(kinds: Iterable[EventCount]) -> list[tuple[str, int, bool, str]]:
    """Each name once: after redaction two may be the same."""
    found: dict[str, tuple[str, int, bool, str]] = {}
    for kind in kinds:
        _, count, is_known, sample = found.get(kind.name, (kind.name, 0, False, kind.sample))
        is_known = is_known or kind.is_known
        found[kind.name] = (kind.name, count + kind.count, is_known, "" if is_known else sample)
    return list(found.values())


_ARRAYS = "SELECT * FROM unnest(%s::text[], %s::bigint[], %s::boolean[], %s::text[])"
_JSON = """
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'),
        json_extract(value, '$[2]'), json_extract(value, '$[3]')
    FROM json_each(%s)
"""
# Always in one order, because two answers of a server that end at once wait for each other. Another
# run may have been first with a new kind; then both only raise the count. The run that waited read
# its clock before the other one wrote, so the times are compared and not just replaced.
_RAISE = """
    WITH came (name, count, is_known, sample) AS ({came}), placed AS (
        SELECT
            came.*, known.id IS NULL AS is_new,
            ROW_NUMBER() OVER (PARTITION BY known.id IS NULL ORDER BY came.name) AS place
        FROM came LEFT JOIN chat_seenevent AS known
        ON known.upstream_id = %s AND known.name = came.name
    )
    INSERT INTO chat_seenevent AS seen
        (upstream_id, name, is_known, count, sample, first_seen_at, last_seen_at)
    SELECT %s, name, is_known, count, sample, %s, %s FROM placed
    WHERE NOT is_new OR place <= %s - (SELECT COUNT(*) FROM chat_seenevent WHERE upstream_id = %s)
    ORDER BY name
    ON CONFLICT (upstream_id, name) DO UPDATE SET
        count = seen.count + excluded.count,
        first_seen_at = CASE WHEN excluded.first_seen_at < seen.first_seen_at
            THEN excluded.first_seen_at ELSE seen.first_seen_at END,
        last_seen_at = CASE WHEN excluded.last_seen_at > seen.last_seen_at
            THEN excluded.last_seen_at ELSE seen.last_seen_at END,
        is_known = seen.is_known OR excluded.is_known,
        sample = CASE WHEN excluded.is_known THEN '' ELSE seen.sample END
"""
