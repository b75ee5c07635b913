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
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat.core.errors import QueueFull, is_database_unavailable
from chat.core.notify import publish_after_commit, room_topic
from chat.core.prepared import Prepared, PreparedUpdate, fetch
from chat.models import Membership, ProjectMember, Run, RunStatus, Upstream, User, Visibility
from chat.models.project import PROJECT_WRITING_ROLES, ProjectAccess
from chat.models.run import LIVE_STATUSES
from chat.models.team import WRITING_ROLES
from chat.runs.outcomes import end_unstarted
from chat.runs.prompt import with_server

logger = logging.getLogger(__name__)

# More than any process can start at once; further runs are considered by the next claim.
CANDIDATES = 500
# Claims before this time do not count for fairness.
TURN_MEMORY = timedelta(hours=1)
LEFT = gettext_lazy(
    "Not started, because the person who sent it no longer has write access to the conversation."
)
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The runs that a runner has claimed, in queue order, as `chat.runs.prompt.prepare` takes them.
    ``has_left``: whether others are queued that could not start."""

    runs: list[Run] = field(default_factory=list)
    has_left: bool = False


def claim(runner: UUID, *, limit: int) -> Claimed:
    """Claims up to ``limit`` queued runs for this runner.

    The rows of their servers are locked before the running runs are counted (a no-op on SQLite, where
    a transaction is the only writer), so that two runners together keep a server's limit.
    """
    queued = _queued_with_rights(CANDIDATES).all()
    if unwanted := [run.pk for run in queued if run.is_unwanted]:
        end_unwanted(unwanted)
        queued = _queued_with_rights(CANDIDATES).all()
    wanted = [run for run in queued if not run.is_unwanted]
    if not wanted:
        return Claimed()
    taken = _take(in_order(wanted), runner, limit)
    return Claimed(runs=taken, has_left=len(taken) < len(wanted) or len(queued) == CANDIDATES)


def end_unwanted(keys: Iterable[int]) -> None:
    """Stops runs that must not start. A run that cannot be ended stays queued and is skipped."""
    for run in Run.objects.filter(pk__in=list(keys)).select_related("conversation"):
        try:
            _end_unwanted(run)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            # One run that cannot be ended must not block all others.
            logger.exception("run.unended run=%s", run.public_id)


def _end_unwanted(run: Run) -> None:
    with transaction.atomic():
        if end_unstarted(run):
            Run.objects.filter(pk=run.pk).update(notes=[*run.notes, str(LEFT)])
            publish_after_commit(room_topic(run.conversation.public_id))


def _take(queued: Sequence[Run], runner: UUID, limit: int) -> list[Run]:
    """Claims the first of these that are still queued, within the limits of their servers."""
    servers = sorted({run.upstream_id for run in queued if run.upstream_id is not None})
    keys = [run.pk for run in queued]
    with transaction.atomic():
        if connection.vendor != "postgresql":
            return _take_one_by_one(queued, runner, limit)
        if servers:
            fetch(_LOCK_SERVERS, [servers])
        taken = {run.pk: run for run in _take_together.all(keys, limit, runner)}
    return [taken[key] for key in keys if key in taken]


def _take_one_by_one(queued: Iterable[Run], runner: UUID, limit: int) -> list[Run]:
    free = dict(_free_places.all())
    claimed: list[Run] = []
    for run in queued:
        if len(claimed) >= limit:
            break
        # A run whose server was deleted starts, too: the execution reports that in the answer.
        has_place = run.upstream_id is None or free.get(run.upstream_id, 0) > 0
        if has_place and _take_one(run=run.pk, runner=runner):
            if run.upstream_id is not None:
                free[run.upstream_id] -= 1
            claimed += _taken.all(run=run.pk)
    return claimed


_take_one = PreparedUpdate(
    lambda run, runner: (
        Run.objects.filter(pk=run, status=RunStatus.QUEUED),
        {"status": RunStatus.RUNNING, "runner_id": runner, "claimed_at": Now()},
    )
)
_taken: Prepared[Run] = Prepared(lambda run: with_server(Run.objects.filter(pk=run)))


def _servers_in_demand() -> QuerySet[Run, Any]:
    in_line = Run.objects.filter(status=RunStatus.QUEUED, upstream__isnull=False)
    return in_line.values("upstream_id")


_is_running = Q(runs__status=RunStatus.RUNNING)
_free_places: Prepared[Any] = Prepared(
    lambda: (
        Upstream.objects.filter(is_draining=False, pk__in=_servers_in_demand())
        .annotate(free=F("concurrency_limit") - Count("runs", filter=_is_running))
        .values_list("pk", "free")
    )
)

# Locks out other claims, but not people who queue a run.
_LOCK_SERVERS = """
    SELECT id FROM chat_upstream WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE
"""
# A statement of its own: what it counts was committed before the lock was given.
_TAKE = """
    WITH line AS (
        SELECT run.id, run.upstream_id, wanted.place,
            ROW_NUMBER() OVER (PARTITION BY run.upstream_id ORDER BY wanted.place) AS turn
        FROM unnest(%s::bigint[]) WITH ORDINALITY AS wanted (id, place)
        JOIN chat_run AS run ON run.id = wanted.id AND run.status = 'queued'
    ), busy AS (
        SELECT upstream_id, COUNT(*) AS count FROM chat_run
        WHERE status = 'running' AND upstream_id IN (SELECT upstream_id FROM line)
        GROUP BY upstream_id
    ), ready AS (
        SELECT line.id FROM line
        LEFT JOIN chat_upstream AS server ON server.id = line.upstream_id
        LEFT JOIN busy ON busy.upstream_id = line.upstream_id
        WHERE line.upstream_id IS NULL OR (
            NOT server.is_draining
            AND line.turn <= server.concurrency_limit - COALESCE(busy.count, 0)
        )
        ORDER BY line.place LIMIT %s
    ), chat_run AS (
        UPDATE chat_run
        SET status = 'running', runner_id = %s, claimed_at = STATEMENT_TIMESTAMP()
        WHERE status = 'queued' AND id IN (SELECT id FROM ready)
        RETURNING *
    )
"""
_take_together: Prepared[Run] = Prepared(lambda: with_server(Run.objects.all()), changed=_TAKE)


def waiting() -> list[Run]:
    """Queued runs: everybody's first run at each server, then everybody's second, and so on, so that a
    person with hundreds of runs does not crowd out the others within ``CANDIDATES``."""
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
def _queued_with_rights(count: int) -> Prepared[Any]:
    """As ``waiting``, each with ``is_unwanted``: whether its person may not write any more, or its
    conversation was deleted.

    Read from the rows, so that every change counts: a removed member, a role without write access, a
    disabled or deleted account, a conversation that is private now or was moved.
    """
    may_still = Membership.objects.filter(
        user=OuterRef("requested_by"),
        team=OuterRef("conversation__team"),
        role__in=WRITING_ROLES,
        user__is_active=True,
    )
    writers = ProjectMember.objects.filter(
        user=OuterRef("requested_by"),
        project=OuterRef("conversation__project"),
        role__in=PROJECT_WRITING_ROLES,
    )
    # As in `ConversationQuerySet.written_by`, but for the person of each run.
    is_shared = (
        Q(conversation__owner=F("requested_by"))
        | Q(conversation__visibility=Visibility.TEAM)
        | Q(conversation__visibility=Visibility.PROJECT)
        & (Q(conversation__project__access=ProjectAccess.TEAM) | Q(Exists(writers)))
    )
    is_unwanted = ExpressionWrapper(
        ~Exists(may_still) | ~is_shared | Q(conversation__deleted_at__isnull=False),
        BooleanField(),
    )
    return Prepared(lambda: _in_line().annotate(is_unwanted=is_unwanted)[:count])


def running_by_server() -> defaultdict[int | None, Counter[int | None]]:
    """The number of running runs by server and person, for servers with queued runs."""
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


def in_order(queued: Iterable[Run]) -> list[Run]:
    """Fair order between people: first by the number of their runs that are running or ahead in the queue,
    then by the time of their last claim, then by waiting time."""
    runs = list(queued)
    if len(runs) < 2:
        return runs
    running = running_by_server()
    # The latest claim of each waiting person at each server, if it was recent.
    last_turns = {(upstream, person): at for upstream, person, at in _last_turns.all()}
    ahead = {upstream: Counter(people) for upstream, people in running.items()}
    ranks: dict[int, tuple[int, datetime, datetime, int]] = {}
    for run in runs:
        people = ahead.setdefault(run.upstream_id, Counter())
        last_turn = last_turns.get((run.upstream_id, run.requested_by_id), NEVER)
        ranks[run.pk] = (people[run.requested_by_id], last_turn, run.queued_at, run.pk)
        people[run.requested_by_id] += 1
    return sorted(runs, key=lambda run: ranks[run.pk])


def _recent_claims() -> QuerySet[Run]:
    # The database's time, because the clocks of hosts differ.
    return Run.objects.filter(claimed_at__gt=Now() - TURN_MEMORY)


def _people_in_line() -> QuerySet[Run, Any]:
    return Run.objects.filter(status=RunStatus.QUEUED).values("requested_by")


# Of each person with a queued run: when a run of theirs was last claimed, by server.
_last_turns: Prepared[Any] = Prepared(
    lambda: (
        _recent_claims()
        .filter(requested_by__in=_people_in_line())
        .values_list("upstream_id", "requested_by_id")
        .annotate(Max("claimed_at"))
    )
)


def check_queue_limit(user: User) -> None:
    """Checks the limit of queued runs per person, because every claim reads all queued runs.

    Raises ``QueueFull``. Call inside the transaction that queues the run, after it has changed the
    conversation: a concurrent request of the same person waits here until it is committed, and then
    counts it. Locking in another order could deadlock.
    """
    if not settings.IS_SQLITE:
        # Transactions of SQLite are serialized.
        _lock_person.first(person=user.pk)
    live = len(_live_runs_of.all(person=user.pk))
    if live >= settings.RUNS_PER_PERSON:
        text = ngettext(
            "You already have %(count)d answer in progress or queued. Wait for it to finish, or stop it.",
            "You already have %(count)d answers in progress or queued. "
            "Wait for one to finish, or stop one.",
            live,
        )
        raise QueueFull(text % {"count": live})


# Does not lock out rows that refer to the person, such as messages.
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


# --- the position that people see ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePositions:
    """``places`` are the texts for queued runs by public id, ``numbers`` their positions from 1, and
    ``draining`` the servers that start no new runs."""

    places: Mapping[UUID, str] = field(default_factory=dict)
    numbers: Mapping[UUID, int] = field(default_factory=dict)
    draining: frozenset[UUID] = frozenset()


def read_queue(*, has_queue: bool = True, is_draining: bool = True) -> QueuePositions:
    """``has_queue`` and ``is_draining``: whether there are queued runs or draining servers, if the caller
    knows that already."""
    draining = _draining() if is_draining else {}
    places, numbers = _places(draining) if has_queue else ({}, {})
    return QueuePositions(places=places, numbers=numbers, draining=frozenset(draining.values()))


def _draining() -> dict[int, UUID]:
    return dict(Upstream.objects.filter(is_draining=True).values_list("pk", "public_id"))


def _places(draining: Mapping[int, UUID]) -> tuple[dict[UUID, str], dict[UUID, int]]:
    queued = waiting()
    counted: Counter[int | None] = Counter()
    places: dict[UUID, str] = {}
    numbers: dict[UUID, int] = {}
    for run in in_order(queued):
        counted[run.upstream_id] += 1
        is_held_up = run.upstream_id in draining
        numbers[run.public_id] = counted[run.upstream_id]
        places[run.public_id] = position_text(counted[run.upstream_id], is_held_up=is_held_up)
    return places, numbers


def position_text(place: int, *, is_held_up: bool = False) -> str:
    """The position of a run at its server, counted from 1, and why it does not change."""
    text = (
        gettext("Queued (position %(place)d). The server is paused.")
        if is_held_up
        else gettext("Queued (position %(place)d)")
    )
    return text % {"place": place}
