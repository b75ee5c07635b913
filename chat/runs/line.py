"""The line as people see it: who stands where, and which servers let nobody in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from chat.models import Upstream
from chat.models.prepared import Prepared
from chat.runs import queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``places`` holds the words for each queued run, by public id, and ``numbers`` its place,
    counted from 1; ``draining`` the servers that begin nothing at present."""

    places: Mapping[UUID, str] = field(default_factory=dict)
    numbers: Mapping[UUID, int] = field(default_factory=dict)
    draining: frozenset[UUID] = frozenset()


_draining: Prepared[Any] = Prepared(
    lambda: Upstream.objects.filter(is_draining=True).values_list("pk", "public_id")
)


def read_line(*, has_queue: bool = True, is_draining: bool = True) -> Line:
    """``has_queue``: whether anybody waits at all, ``is_draining``: whether any server lets nobody
    in, where the caller knows that already."""
    draining = dict(_draining.all()) if is_draining else {}
    places, numbers = _places(draining) if has_queue else ({}, {})
    return Line(places=places, numbers=numbers, draining=frozenset(draining.values()))


def _places(draining: Mapping[int, UUID]) -> tuple[dict[UUID, str], dict[UUID, int]]:
    queued = queue.waiting()
    counted: Counter[int | None] = Counter()
    places: dict[UUID, str] = {}
    numbers: dict[UUID, int] = {}
    for run in queue.in_order(queued, queue.running_by_server()):
        counted[run.upstream_id] += 1
        is_held_up = run.upstream_id in draining
        numbers[run.public_id] = counted[run.upstream_id]
        places[run.public_id] = in_words(counted[run.upstream_id], is_held_up=is_held_up)
    return places, numbers


def in_words(place: int, *, is_held_up: bool = False) -> str:
    """Where a run stands at its server, counted from 1, and why the line does not move."""
    words = f"Place {place} in line"
    return f"{words}. Waits: the server is being drained." if is_held_up else words
