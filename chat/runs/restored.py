"""Ends what a restored database believes to be under way."""

from __future__ import annotations

from django.db import transaction

from chat.actions.endings import end_unstarted
from chat.models import Run, Runner, RunStatus
from chat.runs import reaper

RESTORED = (
    "The installation was restored from a backup. Whether this had been sent after the backup was "
    "made is not known, so it was not sent again."
)


def settle_restored() -> int:
    """Ends every live run, and forgets every runner; returns how many runs.

    The caller knows that no runner is alive. Nothing is put back in line: what waited when the
    backup was made may have been sent since, and no request is ever sent twice.
    """
    settled = 0
    for run in Run.objects.filter(status=RunStatus.QUEUED):
        with transaction.atomic():
            settled += end_unstarted(run)
            _note(run)
    for run in Run.objects.filter(status=RunStatus.RUNNING).select_related("runner"):
        settled += reaper.end_lost(run, run.runner)
        _note(run)
    Runner.objects.all().delete()
    return settled


def _note(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(notes=[*run.notes, RESTORED])
