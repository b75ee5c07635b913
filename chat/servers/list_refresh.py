"""Reads the lists of models of the servers again about every hour, so that pickers show models that are new, gone or
loaded. One process reads each list; a failure keeps the list and is tried again later and later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core.threads import DatabaseThreads
from chat.models import Upstream
from chat.runs.runner import RareWork
from chat.servers.actions.servers import same_server, store_models
from chat.servers.calls import Listing, NotAskable, ProbeTarget, read_list, target_of
from chat.upstreams.client import Client

logger = logging.getLogger(__name__)

# How often a runner looks for lists that are due.
LOOK_SECONDS = 300.0
READ_AGAIN_AFTER = timedelta(hours=1)
# The pause after a failure, which doubles with each further one.
FIRST_PAUSE = timedelta(minutes=15)
LONGEST_PAUSE = timedelta(hours=6)
# Another runner reads a list that a runner has not ended to read after this time.
LOST_AFTER = timedelta(minutes=5)
AT_ONCE = 4
BROKEN = gettext_noop("The list couldn’t be read because of an error in Tributary.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRead:
    """A server whose list this process reads. Without a ``target``, ``error`` says why it can't be asked."""

    upstream: Upstream
    target: ProbeTarget | None
    error: str = ""


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def refresh_due() -> None:
        while reads := await threads.call(claim_due):
            await asyncio.gather(*(_refresh(client, threads, each) for each in reads))

    return refresh_due


REFRESH_LISTS = RareWork(seconds=LOOK_SECONDS, make=_make)


async def _refresh(client: Client, threads: DatabaseThreads, read: ListRead) -> None:
    """A failure concerns this server alone. If this is canceled, the list is read again soon."""
    if read.target is None:
        listing = Listing(error=read.error)
    else:
        try:
            listing = await read_list(client, read.target)
        except Exception as error:
            logger.error(
                "server.list_broken server=%s error=%s",
                *(read.upstream.public_id, type(error).__name__),
            )
            listing = Listing(error=BROKEN)
    await threads.call(end_read, read.upstream, listing)


def claim_due() -> list[ListRead]:
    """The servers whose lists this process reads from now on: those that were read before, so that no model appears of
    servers for which an administrator has typed the names."""
    now = timezone.now()
    is_due = Q(models_due_at__lt=now)
    is_due |= Q(models_due_at=None, models_listed_at__lt=now - READ_AGAIN_AFTER)
    due = Upstream.objects.filter(
        is_due, is_enabled=True, is_demo=False, models_listed_at__isnull=False
    )
    reads = []
    for upstream in due.order_by(F("models_due_at").asc(nulls_first=True), "pk")[:AT_ONCE]:
        row = Upstream.objects.filter(pk=upstream.pk, models_due_at=upstream.models_due_at)
        if row.update(models_due_at=now + LOST_AFTER):
            reads.append(_read_of(upstream))
    return reads


def _read_of(upstream: Upstream) -> ListRead:
    try:
        return ListRead(upstream=upstream, target=target_of(upstream))
    except NotAskable as reason:
        return ListRead(upstream=upstream, target=None, error=str(reason))


def end_read(upstream: Upstream, listing: Listing) -> None:
    """Stores the list, or the failure. A server that was changed meanwhile stays as it is, and is read again soon."""
    if not listing.error:
        store_models(upstream, listing.models)
        logger.info("server.list_read server=%s", upstream.public_id)
        return
    failures = min(upstream.models_failures + 1, 100)
    pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE)
    now = timezone.now()
    same_server(upstream).update(
        models_failures=failures,
        models_failed_at=now,
        models_error=listing.error,
        models_due_at=now + pause,
    )
    logger.info("server.list_failed server=%s failures=%d", upstream.public_id, failures)
