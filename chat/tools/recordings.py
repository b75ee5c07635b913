"""Recordings of calls for their receipts: the messages and the responses.

These functions are called in a database thread, but for the periodic task of runners that deletes old ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from chat.core.text import clean
from chat.core.threads import DatabaseThreads
from chat.models import ToolCall, ToolRecording
from chat.runs.runner import PeriodicTask
from chat.tools import endings
from chat.tools.kinds import CallFailed, CallOutput, InputNeeded, NeedsSignIn, Recording
from chat.upstreams.client import Client

# Nobody waits for it.
PURGE_SECONDS = 60.0
PURGED_AT_ONCE = 500


def end_recorded(
    pk: int,
    claim: UUID,
    ending: CallOutput | InputNeeded | CallFailed | NeedsSignIn,
    recordings: Sequence[Recording],
) -> bool:
    """Ends the call as ``end_call`` does, and keeps the recordings, also beside those of earlier requests of the call. A
    call without any has ended as well."""
    has_ended = endings.end_call(pk, claim, ending)
    if has_ended and recordings and settings.RAW_FRAMES_DAYS > 0:
        _keep(pk, recordings)
    return has_ended


def _keep(pk: int, recordings: Sequence[Recording]) -> None:
    """A result that may stay with the executor stands in its row and nowhere else."""
    call = ToolCall.objects.filter(pk=pk).exclude(is_personal=True, keeps_private=True).first()
    if call is not None:
        ToolRecording.objects.bulk_create(
            ToolRecording(call=call, sent=clean(each.sent), received=clean(each.received))
            for each in recordings
        )


def purge_some() -> bool:
    """Deletes some recordings that are as old as expired raw frames. Says whether there may be more."""
    before = timezone.now() - timedelta(days=settings.RAW_FRAMES_DAYS)
    expired = ToolRecording.objects.filter(recorded_at__lt=before)
    keys = list(expired.values_list("pk", flat=True)[:PURGED_AT_ONCE])
    if keys:
        ToolRecording.objects.filter(pk__in=keys).delete()
    return len(keys) == PURGED_AT_ONCE


def _make(client: Client, threads: DatabaseThreads) -> Callable[[], Awaitable[None]]:
    async def purge() -> None:
        while await threads.call(purge_some):
            pass

    return purge


PURGE_RECORDINGS = PeriodicTask(topic="tool_recordings.purge", seconds=PURGE_SECONDS, make=_make)
