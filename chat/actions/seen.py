"""Keeps which kinds of events a server has sent, counted over all its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chat.models import SeenEvent

# A server that invents names does not fill the table; its known kinds go on being counted.
MAX_KINDS = 300


class Seen(Protocol):
    """One kind of event of one stream."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def is_known(self) -> bool: ...
    @property
    def sample(self) -> str: ...


def record_seen(upstream_pk: int, kinds: Iterable[Seen]) -> None:
    """Adds the counts of one stream: one update for each kind, and a row for each new one.

    ``sample`` is stored as given: the caller has taken credentials out of it. A kind that the
    dialect has learned since loses its mark and its sample.
    """
    now = timezone.now()
    # In one order for everybody: two answers of a server that end at once wait for each other.
    kinds = sorted(kinds, key=lambda kind: kind.name)
    with transaction.atomic():
        new = [kind for kind in kinds if not _raise_count(upstream_pk, kind, now)]
        if not new:
            return
        room = max(0, MAX_KINDS - SeenEvent.objects.filter(upstream_id=upstream_pk).count())
        SeenEvent.objects.bulk_create(
            [
                SeenEvent(
                    upstream_id=upstream_pk,
                    name=kind.name,
                    is_known=kind.is_known,
                    sample=kind.sample,
                    first_seen_at=now,
                    last_seen_at=now,
                )
                for kind in new[:room]
            ],
            # Another run may have been first; then both only raise the count.
            ignore_conflicts=True,
        )
        for kind in new[:room]:
            _raise_count(upstream_pk, kind, now)


def _raise_count(upstream_pk: int, kind: Seen, now: object) -> bool:
    rows = SeenEvent.objects.filter(upstream_id=upstream_pk, name=kind.name)
    changes: dict[str, object] = {"count": F("count") + kind.count, "last_seen_at": now}
    if kind.is_known:
        changes |= {"is_known": True, "sample": ""}
    return bool(rows.update(**changes))
