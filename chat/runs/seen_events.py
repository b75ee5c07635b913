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
from chat.runs import queries

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
                # The server may have been deleted meanwhile.
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
        queries.RAISE_COUNTS.format(
            came=queries.SEEN_IN_POSTGRES if is_postgres else queries.SEEN_IN_SQLITE
        ),
        [*came, upstream_pk, upstream_pk, now, now, MAX_KINDS, upstream_pk],
    )


def _by_name(kinds: Iterable[EventCount]) -> list[tuple[str, int, bool, str]]:
    """Merges counts of the same name: redaction may make two names equal."""
    found: dict[str, tuple[str, int, bool, str]] = {}
    for kind in kinds:
        _, count, is_known, sample = found.get(kind.name, (kind.name, 0, False, kind.sample))
        is_known = is_known or kind.is_known
        found[kind.name] = (kind.name, count + kind.count, is_known, "" if is_known else sample)
    return list(found.values())
