"""The queue of runs: fair claims within each server's limit, and the position people see."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Window,
)
from django.db.models.functions import Now, RowNumber

from chat.core.errors import QueueFull, is_database_unavailable
from chat.core.notify import publish_after_commit, room_topic
from chat.core.prepared import Prepared, PreparedUpdate, fetch
from chat.models import Membership, Run, RunStatus, Upstream, User
from chat.models.run import LIVE_STATUSES
from chat.models.team import WRITING_ROLES
from chat.runs.outcomes import end_unstarted

logger = logging.getLogger(__name__)

# More than any process starts at once; the others are looked at again in a moment.
CANDIDATES = 500
# Turns longer ago than this are forgotten; nobody queues that long.
TURN_MEMORY = timedelta(hours=1)
LEFT = "It was not begun: whoever asked for it may not write in this conversation any more."
NEVER = datetime.min.replace(tzinfo=UTC)


def claim(runner: UUID, *, limit: int) -> list[int]:
    """Makes up to ``limit`` queued runs this runner's; returns their keys in the order of the line.

    The rows of the servers concerned are locked before the runs at work there are counted (a no-op
    on SQLite, where every transaction is the only writer), so that two runners together keep a
    server's limit.
    """
    queued = _judged(CANDIDATES).all()
    if unwanted := [run.pk for run in queued if run.is_unwanted]:
        end_unwanted(unwanted)
        queued = _judged(CANDIDATES).all()
    wanted = [run for run in queued if not run.is_unwanted]
    if not wanted:
        return []
    with transaction.atomic():
        return _take([run.pk for run in _ready(wanted)], runner, limit)


def end_unwanted(keys: Iterable[int]) -> None:
    """Stops what must not be begun. What cannot be ended stays in the line, and is passed over."""
    for run in Run.objects.filter(pk__in=list(keys)).select_related("conversation"):
        try:
            _end_unwanted(run)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            # One run that cannot be ended must not keep everybody else's from being begun.
            logger.exception("run.unended run=%s", run.public_id)


def _end_unwanted(run: Run) -> None:
    with transaction.atomic():
        if end_unstarted(run):
            Run.objects.filter(pk=run.pk).update(notes=[*run.notes, LEFT])
            publish_after_commit(room_topic(run.conversation.public_id))


def _take(keys: Sequence[int], runner: UUID, limit: int) -> list[int]:
    """Claims the first of these that are still in line."""
    if connection.vendor == "postgresql":
        taken = {key for (key,) in fetch(_TAKE, [runner, keys, limit])}
        return [key for key in keys if key in taken]
    claimed: list[int] = []
    for key in keys:
        if len(claimed) >= limit:
            break
        if _take_one(run=key, runner=runner):
            claimed.append(key)
    return claimed


_take_one = PreparedUpdate(
    lambda run, runner: (
        Run.objects.filter(pk=run, status=RunStatus.QUEUED),
        {"status": RunStatus.RUNNING, "runner_id": runner, "claimed_at": Now()},
    )
)
_TAKE = """
    UPDATE chat_run
    SET status = 'running', runner_id = %s, claimed_at = STATEMENT_TIMESTAMP()
    WHERE status = 'queued' AND id IN (
        SELECT line.id
        FROM unnest(%s::bigint[]) WITH ORDINALITY AS line (id, place)
        JOIN chat_run AS run ON run.id = line.id AND run.status = 'queued'
        ORDER BY line.place LIMIT %s
    )
    RETURNING id
"""


def _ready(queued: Iterable[Run]) -> list[Run]:
    """Those of the queued runs that may start now, in their order."""
    allowed = {pk: 0 if is_draining else limit for pk, limit, is_draining in _locked_servers.all()}
    running = running_by_server()
    free = {pk: limit - sum(running[pk].values()) for pk, limit in allowed.items()}
    ready: list[Run] = []
    for run in in_order(queued, running):
        if run.upstream_id is None:
            # Its server was removed; the execution says so on the answer.
            ready.append(run)
        elif free.get(run.upstream_id, 0) > 0:
            free[run.upstream_id] -= 1
            ready.append(run)
    return ready


def _servers_in_demand() -> QuerySet[Run, Any]:
    in_line = Run.objects.filter(status=RunStatus.QUEUED, upstream__isnull=False)
    return in_line.values("upstream_id")


# Against others that claim, not against those who queue a run there.
_locked_servers: Prepared[Any] = Prepared(
    lambda: (
        Upstream.objects.select_for_update(no_key=True)
        .filter(pk__in=_servers_in_demand())
        .order_by("pk")
        .values_list("pk", "concurrency_limit", "is_draining")
    )
)


def waiting() -> list[Run]:
    """Everybody's first run at each server, then their second: whoever queues hundreds must not
    hide the others from those who claim."""
    return _first_in_line(CANDIDATES).all()


def _in_line() -> QuerySet[Run]:
    turn = Window(
        RowNumber(),
        partition_by=[F("upstream_id"), F("requested_by_id")],
        order_by=[F("queued_at"), F("pk")],
    )
    return (
        Run.objects.filter(status=RunStatus.QUEUED)
        .only("pk", "public_id", "upstream_id", "requested_by_id", "queued_at")
        .order_by(turn, "queued_at", "pk")
    )


@cache
def _first_in_line(count: int) -> Prepared[Run]:
    return Prepared(lambda: _in_line()[:count])


@cache
def _judged(count: int) -> Prepared[Any]:
    """As ``waiting``; each with ``is_unwanted``: whether it waits for somebody who may not ask any
    more, or in a conversation that was deleted.

    Asked of the rows themselves, so that a change made anywhere counts: a place in the team that
    was taken away, a role that only reads, an account that was switched off or removed.
    """
    may_still = Membership.objects.filter(
        user=OuterRef("requested_by"),
        team=OuterRef("conversation__team"),
        role__in=WRITING_ROLES,
        user__is_active=True,
    )
    is_unwanted = ExpressionWrapper(
        ~Exists(may_still) | Q(conversation__deleted_at__isnull=False), BooleanField()
    )
    return Prepared(lambda: _in_line().annotate(is_unwanted=is_unwanted)[:count])


def running_by_server() -> defaultdict[int | None, Counter[int | None]]:
    """How many runs are at work, by server and person, where somebody waits."""
    running: defaultdict[int | None, Counter[int | None]] = defaultdict(Counter)
    for upstream, person, count in _running.all():
        running[upstream][person] = count
    return running


_running: Prepared[Any] = Prepared(
    lambda: (
        Run.objects.filter(status=RunStatus.RUNNING, upstream__in=_servers_in_demand())
        .values_list("upstream_id", "requested_by_id")
        .annotate(Count("pk"))
    )
)


def in_order(
    queued: Iterable[Run], running: defaultdict[int | None, Counter[int | None]]
) -> list[Run]:
    """People take turns: whoever has fewest runs at work or ahead in the line comes first, then
    whose last turn is longest ago, then whose run waits longest."""
    runs = list(queued)
    if len(runs) < 2:
        return runs
    # When each waiting person's latest run at each server was claimed, if that was recently.
    last_turns = {(upstream, person): at for upstream, person, at in _last_turns.all()}
    ahead = {upstream: Counter(people) for upstream, people in running.items()}
    ranks: dict[int, tuple[int, datetime, datetime, int]] = {}
    for run in runs:
        people = ahead.setdefault(run.upstream_id, Counter())
        last_turn = last_turns.get((run.upstream_id, run.requested_by_id), NEVER)
        ranks[run.pk] = (people[run.requested_by_id], last_turn, run.queued_at, run.pk)
        people[run.requested_by_id] += 1
    return sorted(runs, key=lambda run: ranks[run.pk])


_last_turns: Prepared[Any] = Prepared(
    lambda: (
        Run.objects.filter(
            # The database's time, as they were written: hosts do not agree about theirs.
            claimed_at__gt=Now() - TURN_MEMORY,
            requested_by__in=Run.objects.filter(status=RunStatus.QUEUED).values("requested_by"),
        )
        .values_list("upstream_id", "requested_by_id")
        .annotate(Max("claimed_at"))
    )
)


def check_queue_limit(user: User) -> None:
    """One person's line is bounded: each waiting run is looked at by every claim.

    Raises ``QueueFull``. Call inside the transaction that adds to the line, after it has changed the
    conversation: whoever sends for the same person elsewhere waits here until that is committed,
    and then counts it. Two that lock in another order would wait for each other.
    """
    if not settings.IS_SQLITE:
        # Transactions of SQLite come one after the other anyway.
        _lock_person.first(person=user.pk)
    live = len(_live_runs_of.all(person=user.pk))
    if live >= settings.RUNS_PER_PERSON:
        raise QueueFull(
            f"{live} answers for you are being written or wait in line. "
            "Wait for one of them, or stop one."
        )


# Not against what only refers to the person, such as a message of theirs.
_lock_person: Prepared[Any] = Prepared(
    lambda person: (
        User.objects.select_for_update(no_key=True).filter(pk=person).values_list("pk", flat=True)
    )
)

_live_runs_of: Prepared[Any] = Prepared(
    lambda person: Run.objects.filter(requested_by=person, status__in=LIVE_STATUSES).values_list(
        "pk", flat=True
    )
)


# The line as people see it: who stands where, and which servers let nobody in.


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePositions:
    """``places`` holds the words for each queued run, by public id, and ``numbers`` its place,
    counted from 1; ``draining`` the servers that begin nothing at present."""

    places: Mapping[UUID, str] = field(default_factory=dict)
    numbers: Mapping[UUID, int] = field(default_factory=dict)
    draining: frozenset[UUID] = frozenset()


_draining: Prepared[Any] = Prepared(
    lambda: Upstream.objects.filter(is_draining=True).values_list("pk", "public_id")
)


def read_queue(*, has_queue: bool = True, is_draining: bool = True) -> QueuePositions:
    """``has_queue``: whether anybody waits at all, ``is_draining``: whether any server lets nobody
    in, where the caller knows that already."""
    draining = dict(_draining.all()) if is_draining else {}
    places, numbers = _places(draining) if has_queue else ({}, {})
    return QueuePositions(places=places, numbers=numbers, draining=frozenset(draining.values()))


def _places(draining: Mapping[int, UUID]) -> tuple[dict[UUID, str], dict[UUID, int]]:
    queued = waiting()
    counted: Counter[int | None] = Counter()
    places: dict[UUID, str] = {}
    numbers: dict[UUID, int] = {}
    for run in in_order(queued, running_by_server()):
        counted[run.upstream_id] += 1
        is_held_up = run.upstream_id in draining
        numbers[run.public_id] = counted[run.upstream_id]
        places[run.public_id] = in_words(counted[run.upstream_id], is_held_up=is_held_up)
    return places, numbers


def in_words(place: int, *, is_held_up: bool = False) -> str:
    """Where a run stands at its server, counted from 1, and why the line does not move."""
    words = f"Place {place} in line"
    return f"{words}. Waits: the server is being drained." if is_held_up else words
