"""Who is next: claims queued runs, fairly between people and within each server's limit."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, Window
from django.db.models.functions import Now, RowNumber

from chat.actions.endings import end_unstarted
from chat.actions.errors import is_away
from chat.doorbell import ring_after_commit, room_topic
from chat.models import Membership, Run, RunStatus, Upstream
from chat.models.team import WRITING_ROLES

logger = logging.getLogger(__name__)

# More than any process starts at once; the others are looked at again in a moment.
CANDIDATES = 500
# Turns longer ago than this are forgotten; nobody queues that long.
TURN_MEMORY = timedelta(hours=1)
LEFT = "It was not begun: whoever asked for it may not write in this conversation any more."
NEVER = datetime.min.replace(tzinfo=UTC)


def claim(runner: UUID, *, limit: int) -> list[int]:
    """Makes up to ``limit`` queued runs this runner's; returns their keys in the order of the line.

    The rows of the servers concerned are locked first (a no-op on SQLite, where every
    transaction is the only writer), so that two runners together keep a server's limit.
    """
    if not Run.objects.filter(status=RunStatus.QUEUED).exists():
        return []
    unwanted = end_unwanted()
    with transaction.atomic():
        claimed: list[int] = []
        for run in _line():
            if len(claimed) >= limit:
                break
            if run.pk not in unwanted and _take(run, runner):
                claimed.append(run.pk)
        return claimed


def end_unwanted() -> set[int]:
    """Stops what waits for somebody who may not ask any more, or in a conversation that was
    deleted. Returns the keys of the runs that must not be begun, ended or not.

    Asked of the rows themselves, so that a change made anywhere counts: a place in the team that
    was taken away, a role that only reads, an account that was switched off or removed.
    """
    may_still = Membership.objects.filter(
        user=OuterRef("requested_by"),
        team=OuterRef("conversation__team"),
        role__in=WRITING_ROLES,
        user__is_active=True,
    )
    queued = Run.objects.filter(
        ~Exists(may_still) | Q(conversation__deleted_at__isnull=False), status=RunStatus.QUEUED
    )
    unwanted: set[int] = set()
    for run in queued.select_related("conversation"):
        unwanted.add(run.pk)
        try:
            _end_unwanted(run)
        except Exception as error:
            if is_away(error):
                raise
            # One run that cannot be ended must not keep everybody else's from being begun.
            logger.exception("run.unended run=%s", run.public_id)
    return unwanted


def _end_unwanted(run: Run) -> None:
    with transaction.atomic():
        if end_unstarted(run):
            Run.objects.filter(pk=run.pk).update(notes=[*run.notes, LEFT])
            ring_after_commit(room_topic(run.conversation.public_id))


def _take(run: Run, runner: UUID) -> bool:
    taken = Run.objects.filter(pk=run.pk, status=RunStatus.QUEUED).update(
        status=RunStatus.RUNNING, runner_id=runner, claimed_at=Now()
    )
    return bool(taken)


def _line() -> list[Run]:
    """The queued runs that may start now, in their order."""
    queued = waiting()
    upstreams = {run.upstream_id for run in queued if run.upstream_id}
    limits = (
        Upstream.objects.select_for_update()
        .filter(pk__in=upstreams)
        .order_by("pk")
        .values_list("pk", "concurrency_limit", "is_draining")
    )
    allowed = {pk: 0 if is_draining else limit for pk, limit, is_draining in limits}
    running = running_at(upstreams)
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


def waiting() -> list[Run]:
    """Everybody's first run at each server, then their second: whoever queues hundreds must not
    hide the others from those who claim."""
    turn = Window(
        RowNumber(),
        partition_by=[F("upstream_id"), F("requested_by_id")],
        order_by=[F("queued_at"), F("pk")],
    )
    return list(
        Run.objects.filter(status=RunStatus.QUEUED)
        .only("pk", "public_id", "upstream_id", "requested_by_id", "queued_at")
        .order_by(turn, "queued_at", "pk")[:CANDIDATES]
    )


def running_at(upstreams: Iterable[int | None]) -> defaultdict[int | None, Counter[int | None]]:
    """How many runs are at work, by server and person."""
    running: defaultdict[int | None, Counter[int | None]] = defaultdict(Counter)
    rows = Run.objects.filter(status=RunStatus.RUNNING, upstream_id__in=list(upstreams))
    for upstream, person in rows.values_list("upstream_id", "requested_by_id"):
        running[upstream][person] += 1
    return running


def in_order(
    queued: Iterable[Run], running: defaultdict[int | None, Counter[int | None]]
) -> list[Run]:
    """People take turns: whoever has fewest runs at work or ahead in the line comes first, then
    whose last turn is longest ago, then whose run waits longest."""
    runs = list(queued)
    if len(runs) < 2:
        return runs
    last_turns = _last_turns(runs)
    ahead = {upstream: Counter(people) for upstream, people in running.items()}
    ranks: dict[int, tuple[int, datetime, datetime, int]] = {}
    for run in runs:
        people = ahead.setdefault(run.upstream_id, Counter())
        last_turn = last_turns.get((run.upstream_id, run.requested_by_id), NEVER)
        ranks[run.pk] = (people[run.requested_by_id], last_turn, run.queued_at, run.pk)
        people[run.requested_by_id] += 1
    return sorted(runs, key=lambda run: ranks[run.pk])


def _last_turns(queued: Iterable[Run]) -> dict[tuple[int | None, int | None], datetime]:
    """When each waiting person's latest run at each server was claimed, if that was recently."""
    rows = Run.objects.filter(
        # The database's time, as they were written: hosts do not agree about theirs.
        claimed_at__gt=Now() - TURN_MEMORY,
        requested_by__in={run.requested_by_id for run in queued},
    )
    latest = rows.values_list("upstream_id", "requested_by_id").annotate(Max("claimed_at"))
    return {(upstream, person): at for upstream, person, at in latest}
