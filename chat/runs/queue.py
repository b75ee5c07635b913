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

from django.db import connection, transaction
from django.db.models import (
    Count,
    Exists,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Window,
)
from django.db.models.functions import Coalesce, Now, RowNumber
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.core.errors import is_database_unavailable
from chat.core.notify import publish_after_commit, room_topic
from chat.core.prepared import Prepared, PreparedUpdate, fetch
from chat.core.text import one_line, without_hidden
from chat.models import AwaitedDocument, Run, RunStatus, TitleRequest, TitleStatus, Upstream
from chat.runs import queries
from chat.runs.file_parts import DocumentUnread
from chat.runs.outcomes import end_unstarted
from chat.runs.prompt import with_server

logger = logging.getLogger(__name__)

# Runs considered by one claim, more than any process can start at once; others wait for the next.
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
            fetch(queries.LOCK_SERVERS, [servers])
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
    queued = Run.objects.filter(status=RunStatus.QUEUED, upstream__isnull=False)
    return queued.values("upstream_id")


# Each run takes a place at its server, and so does each request for a title.
_is_running = Q(runs__status=RunStatus.RUNNING)
_titles = TitleRequest.objects.filter(upstream=OuterRef("pk"), status=TitleStatus.RUNNING)
_title_count = _titles.values("upstream").annotate(count=Count("pk")).values("count")
_free_places: Prepared[Any] = Prepared(
    lambda: (
        Upstream.objects.filter(is_draining=False, pk__in=_servers_in_demand())
        .annotate(
            free=F("concurrency_limit")
            - Count("runs", filter=_is_running)
            - Coalesce(Subquery(_title_count), 0)
        )
        .values_list("pk", "free")
    )
)


def has_spare_place(server: Upstream) -> bool:
    """Returns whether the server has a free place that no queued run waits for. Call it in a transaction that has
    locked the server's row, as a claim does."""
    runs = Run.objects.filter(upstream=server)
    queued = runs.filter(~Exists(_unread(OuterRef("pk"))), status=RunStatus.QUEUED)
    if server.is_draining or queued.exists():
        return False
    titles = TitleRequest.objects.filter(upstream=server, status=TitleStatus.RUNNING)
    busy = runs.filter(status=RunStatus.RUNNING).count() + titles.count()
    return busy < server.concurrency_limit


_take_together: Prepared[Run] = Prepared(
    lambda: with_server(Run.objects.all()), changed=queries.CLAIM_QUEUED
)


# --- runs that wait for a document -----------------------------------------------------------------


def await_document(runner: UUID, run_pk: int, unread: DocumentUnread) -> None:
    """Queues a claimed run again, which takes no place of its server until the document is read. If somebody has
    stopped it meanwhile, it ends. Does nothing if another process owns the run."""
    with transaction.atomic():
        mine = Run.objects.filter(
            pk=run_pk, runner_id=runner, status=RunStatus.RUNNING, request_sent_at__isnull=True
        )
        if not mine.update(status=RunStatus.QUEUED, runner=None, claimed_at=None):
            return
        AwaitedDocument.objects.update_or_create(
            run_id=run_pk,
            defaults={"document_id": unread.document, "name": unread.name[:255]},
        )
        run = Run.objects.select_related("conversation").get(pk=run_pk)
        if run.stop_requested_at is not None:
            end_unstarted(run)
        publish_after_commit(room_topic(run.conversation.public_id))


def _unread(run: OuterRef) -> QuerySet[AwaitedDocument]:
    """The document that the run waits for, as long as nobody has read it."""
    return AwaitedDocument.objects.filter(run=run, document__read_at__isnull=True)


# --- the order ------------------------------------------------------------------------------------


def waiting() -> list[Any]:
    """Queued runs: everybody's first run at each server, then everybody's second, and so on, so that a
    person with hundreds of runs does not crowd out the others within ``CANDIDATES``. ``reads`` is the name of the file
    that a run waits for."""
    return _first_queued(CANDIDATES).all()


def _queued_in_order() -> QuerySet[Run]:
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
def _first_queued(count: int) -> Prepared[Any]:
    reads = Subquery(_unread(OuterRef("pk")).values("name"))
    return Prepared(lambda: _queued_in_order().annotate(reads=reads)[:count])


@cache
def _queued_with_rights(count: int) -> Prepared[Any]:
    """The queued runs that wait for no document, in order, each with ``is_unwanted``: whether its person may not write
    any more.

    Read from the rows, so that every change counts: a removed member, a role without write access, a
    disabled or deleted account, a conversation that is private now, was moved or deleted, or has expired.
    """
    written = access.writable_conversations(OuterRef("requested_by"))
    is_unwanted = ~Exists(written.filter(pk=OuterRef("conversation")))
    ready = ~Exists(_unread(OuterRef("pk")))
    return Prepared(
        lambda: _queued_in_order().filter(ready).annotate(is_unwanted=is_unwanted)[:count]
    )


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


def _people_with_queued_runs() -> QuerySet[Run, Any]:
    return Run.objects.filter(status=RunStatus.QUEUED).values("requested_by")


# The last claim of each person with a queued run, by server.
_last_turns: Prepared[Any] = Prepared(
    lambda: (
        _recent_claims()
        .filter(requested_by__in=_people_with_queued_runs())
        .values_list("upstream_id", "requested_by_id")
        .annotate(Max("claimed_at"))
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


def read_queue_once_a_second() -> QueuePositions:
    """The positions as from `read_queue`, with one small statement if nothing is queued or drained, as usual."""
    ((has_queue, is_draining),) = fetch(queries.HAS_QUEUED, [])
    return read_queue(has_queue=bool(has_queue), is_draining=bool(is_draining))


def _draining() -> dict[int, UUID]:
    return dict(Upstream.objects.filter(is_draining=True).values_list("pk", "public_id"))


def _places(draining: Mapping[int, UUID]) -> tuple[dict[UUID, str], dict[UUID, int]]:
    queued = waiting()
    counted: Counter[int | None] = Counter()
    places: dict[UUID, str] = {}
    numbers: dict[UUID, int] = {}
    for run in queued:
        if run.reads is not None:
            places[run.public_id] = reading_text(run.reads)
    for run in in_order(run for run in queued if run.reads is None):
        counted[run.upstream_id] += 1
        is_held_up = run.upstream_id in draining
        numbers[run.public_id] = counted[run.upstream_id]
        places[run.public_id] = position_text(counted[run.upstream_id], is_held_up=is_held_up)
    return places, numbers


def reading_text(name: str) -> str:
    """The state of a run that waits for a document, in words."""
    return gettext("Reading %(file)s") % {
        "file": without_hidden(one_line(name)) or gettext("a file")
    }


def position_text(place: int, *, is_held_up: bool = False) -> str:
    """The position of a run at its server, counted from 1, and why it does not change."""
    text = (
        gettext("Queued (position %(place)d). The server is paused.")
        if is_held_up
        else gettext("Queued (position %(place)d)")
    )
    return text % {"place": place}
