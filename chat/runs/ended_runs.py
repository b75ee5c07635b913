"""Followers of ended runs: work of features after every answer, such as adding up usage.

The transaction that ends a run also stores a row for each follower, and a periodic task of the
runners hands the rows over and deletes them. A cursor over times or keys would skip transactions
that commit late, because both are assigned before. Every end counts (by a runner, by the reaper, by
the stop of a queued run), except those of imported runs, which ended in another installation.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from chat.core.errors import is_database_unavailable
from chat.core.threads import DatabaseThreads
from chat.events import Result
from chat.models import EndedRun, Run
from chat.runs import queries
from chat.runs.outcomes import EndingRows
from chat.runs.runner import ENDED, PeriodicTask
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# The task is told of the runs that its own process ends. The poll is for those that others end, and
# for later attempts.
POLL_SECONDS = 2.0
AT_ONCE = 100
# A run that a follower failed on is handed over again after 2, 4, 8 … seconds, at most an hour.
LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingFollower:
    """A feature's handler of ended runs, called at least once for each.

    ``follow`` gets up to `AT_ONCE` runs and is called in a database thread, inside the transaction
    that deletes their rows: its writes happen once. It sends nothing, because SQLite has one writer
    at a time: it queues a row that a task of its feature sends. ``name`` is stored, so it never
    changes. ``applies`` leaves out runs by their result, before they end.
    """

    name: str
    follow: Callable[[Sequence[Run]], None]
    applies: Callable[[Result], bool] = lambda result: True


_followers: tuple[EndingFollower, ...] = ()


def use_followers(*followers: EndingFollower) -> None:
    """Sets the followers of this process. `chat.apps` calls it once."""
    global _followers
    _followers = followers


# --- with the end of a run -------------------------------------------------------------------


def _names(result: Result) -> list[str] | None:
    return [each.name for each in _followers if each.applies(result)] or None


def _store(run_pk: int, prepared: object) -> None:
    # The database's clock, which `hand_over` asks: SQLite's has milliseconds only.
    EndedRun.objects.bulk_create(
        EndedRun(run_id=run_pk, follower=name, due_at=Now()) for name in cast(list[str], prepared)
    )


FOLLOWED = EndingRows(
    name="followed",
    prepare=_names,
    clause=queries.FOLLOWED_ROWS,
    values=lambda prepared: [prepared],
    store=_store,
)


# --- in the runners --------------------------------------------------------------------------


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def follow() -> None:
        for follower in _followers:
            while await threads.call(hand_over, follower):
                pass

    return follow


FOLLOW_ENDED_RUNS = PeriodicTask(topic=ENDED, seconds=POLL_SECONDS, make=_make)


def hand_over(follower: EndingFollower) -> bool:
    """Hands the runs that are due to a follower. Returns whether there may be more. After an error
    each is handed over by itself, so that one can't block the others."""
    due = EndedRun.objects.filter(follower=follower.name, due_at__lte=Now())
    keys = list(due.order_by("due_at", "pk").values_list("pk", flat=True)[:AT_ONCE])
    if not keys:
        return False
    try:
        _hand_over(follower, keys)
    except Exception as error:
        if is_database_unavailable(error):
            raise
        for key in keys:
            _hand_over_alone(follower, key)
    return len(keys) == AT_ONCE


def _hand_over(follower: EndingFollower, keys: Sequence[int]) -> None:
    with transaction.atomic():
        # Another runner may have the same rows.
        rows = list(EndedRun.objects.select_for_update(skip_locked=True).filter(pk__in=keys))
        runs = Run.objects.filter(pk__in=[row.run_id for row in rows]).defer("result")
        if rows:
            follower.follow(list(runs.order_by("pk")))
            EndedRun.objects.filter(pk__in=[row.pk for row in rows]).delete()


def _hand_over_alone(follower: EndingFollower, key: int) -> None:
    try:
        _hand_over(follower, [key])
    except Exception as error:
        if is_database_unavailable(error):
            raise
        row = EndedRun.objects.filter(pk=key).first()
        if row is None:
            return
        # The log names only the kind of error, because a database's message may quote the value.
        logger.error(
            "run.follower_failed run=%d follower=%s error=%s",
            row.run_id,
            follower.name,
            type(error).__name__,
        )
        row.failures += 1
        row.due_at = timezone.now() + min(timedelta(seconds=2**row.failures), LONGEST_PAUSE)
        row.save(update_fields=["failures", "due_at"])
