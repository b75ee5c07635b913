"""Recordings of calls for their receipts: the last message and the response.

These functions are called in a database thread.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings

from chat.core.text import clean
from chat.models import ToolCall, ToolRecording
from chat.tools import endings
from chat.tools.kinds import CallFailed, CallOutput, InputNeeded, NeedsSignIn, Recording


def end_recorded(
    pk: int,
    claim: UUID,
    ending: CallOutput | InputNeeded | CallFailed | NeedsSignIn,
    recording: Recording,
) -> bool:
    """Ends the call as ``end_call`` does, and keeps the recording. A call without one has ended as well."""
    has_ended = endings.end_call(pk, claim, ending)
    if has_ended and recording.sent and settings.RAW_FRAMES_DAYS > 0:
        _keep(pk, recording)
    return has_ended


def _keep(pk: int, recording: Recording) -> None:
    """A result that may stay with the executor stands in its row and nowhere else."""
    call = ToolCall.objects.filter(pk=pk).exclude(is_personal=True, keeps_private=True).first()
    if call is not None:
        texts = {"sent": clean(recording.sent), "received": clean(recording.received)}
        ToolRecording.objects.update_or_create(call=call, defaults=texts)
