"""Records which kinds of events a server has sent, counted over all its answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Protocol

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from chat.core.errors import is_database_unavailable
from chat.core.prepared import fetch
from chat.core.threads import DatabaseThreads
from chat.dialects.event_counts import Seen, merged

logger = logging.getLogger(__name__)

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


class SeenEvents:
    """The counts of a process that are not stored yet, by server. For use on one event loop.

    A server that a hundred answers have asked within a second takes one statement. While the database
    is unavailable the counts are kept; counts that it refuses are dropped.
    """

    def __init__(self, threads: DatabaseThreads) -> None:
        self._threads = threads
        self._by_server: dict[int, list[Seen]] = {}

    def add(self, upstream_pk: int, kinds: Iterable[Seen]) -> None:
        kinds = merged([*self._by_server.get(upstream_pk, ()), *kinds])
        self._by_server[upstream_pk] = kinds[:MAX_KINDS]

    async def store(self) -> None:
        """Stores them all. Raises if the database is unavailable."""
        for upstream_pk in list(self._by_server):
            kinds = self._by_server.pop(upstream_pk)
            try:
                await self._threads.call(record_seen, upstream_pk, kinds)
            except (DatabaseError, InterfaceError) as error:
                if is_database_unavailable(error):
                    self.add(upstream_pk, kinds)
                    raise
                # For example because the server was deleted meanwhile.
                logger.warning(
                    "events.unrecorded upstream=%d error=%s", upstream_pk, type(error).__name__
                )


def record_seen(upstream_pk: int, kinds: Iterable[EventCount]) -> None:
    """Adds these counts, with a row for each new kind. ``sample`` is stored as given:
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
