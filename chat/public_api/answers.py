"""Responses about a run: LM Studio's result, an error, or the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from django.conf import settings
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat import events as canonical
from chat.dialects.lmstudio.client_events import client_result
from chat.events import ErrorInfo, JsonObject, Result
from chat.models import Run, RunStatus
from chat.public_api.errors import BAD_GATEWAY, status_of
from chat.result.merge import merge
from chat.runs.public_events import public_result, response_id_of

# Endings without an answer: errors with the partial result, if the request asked for no stream.
_FAILURES = frozenset({RunStatus.FAILED, RunStatus.CUT, RunStatus.INTERRUPTED})
_WORDS: Mapping[str, tuple[int, Promise]] = {
    RunStatus.CUT: (
        BAD_GATEWAY,
        gettext_lazy("The connection to the server was lost before the answer was complete."),
    ),
    RunStatus.INTERRUPTED: (503, gettext_lazy("The answer was interrupted. Try again.")),
}
FAILED = gettext_lazy("The server couldn’t answer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The response to a request without a stream."""

    status: int
    body: bytes


def next_of(run: Run) -> Run | None:
    """The run that continues a paused answer."""
    following = Run.objects.filter(message_id=run.message_id, position=run.position + 1).first()
    return following if following is not None and not following.inputs else None


def has_paused(result: Result) -> bool:
    return result.ext.status == "incomplete" and result.ext.stop.reason == "pause"


def complete(runs: Sequence[UUID], *, stores: bool) -> Complete:
    """The answer of these consecutive runs; all of them have ended."""
    rows = _rows(runs)
    last = rows[-1]
    result = merge([canonical.decode_result(run.result) for run in rows])
    body = result_of(last, result, stores=stores, notes=_notes_of(rows))
    error = _error_of(last, result)
    if error is None:
        return Complete(status=200, body=msgspec.json.encode(body))
    info, status = error
    wrapped = {"error": lm_error(info), "result": body}
    return Complete(status=status, body=msgspec.json.encode(wrapped))


def final_result(runs: Sequence[UUID], *, stores: bool) -> JsonObject:
    """The result in ``chat.end``, in a stream that several runs may have written."""
    rows = _rows(runs)
    result = merge([canonical.decode_result(run.result) for run in rows])
    return result_of(rows[-1], result, stores=stores, notes=_notes_of(rows))


def _notes_of(rows: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(note for run in rows for note in run.notes))


def _rows(runs: Sequence[UUID]) -> list[Run]:
    rows = {
        run.public_id: run
        for run in Run.objects.filter(public_id__in=runs).select_related("conversation")
    }
    return [rows[run] for run in runs]


def result_of(
    run: Run, result: Result, *, stores: bool, notes: Sequence[str] | None = None
) -> JsonObject:
    """LM Studio's result. ``ext`` adds the ids of run and conversation, and deviations from the
    request: ``notes``, or those of the run."""
    public = public_result(result, run.public_id)
    if not stores:
        public.response_id = None
    body = client_result(public)
    body["ext"] |= {
        "run": str(run.public_id),
        "conversation": str(run.conversation.public_id),
        "notes": list(run.notes if notes is None else notes),
    }
    return body


def lm_error(info: ErrorInfo) -> JsonObject:
    return {
        "type": info.type,
        "message": info.message or str(FAILED),
        "code": info.code or info.kind,
        "param": info.param,
    }


def _error_of(run: Run, result: Result) -> tuple[ErrorInfo, int] | None:
    if run.status not in _FAILURES:
        return None
    info = result.ext.error
    if run.status == RunStatus.FAILED and info is not None:
        return info, status_of(info)
    status, words = _WORDS.get(run.status, (BAD_GATEWAY, FAILED))
    return ErrorInfo(type="internal_error", message=str(words), code=run.status), status


# --- state ----------------------------------------------------------------------------------------


def run_state(run: Run, *, place: int | None = None) -> JsonObject:
    """The response of ``GET /api/v1/runs/<id>``. ``place`` is the place in the queue, counted from
    1."""
    context = run.conversation.context
    # A participant may not know the project.
    is_known = context is None or context.reads_project
    project = run.conversation.project if is_known else None
    return {
        "run": str(run.public_id),
        "response_id": response_id_of(run.public_id),
        "conversation": str(run.conversation.public_id),
        "project": str(project.public_id) if project else None,
        "url": settings.SITE_URL + reverse("conversation", args=[run.conversation.public_id]),
        "status": run.status,
        "place": place,
        "model": run.model,
        "server": run.upstream.name if run.upstream else None,
        "queued_at": _time(run.queued_at),
        "started_at": _time(run.claimed_at),
        "first_token_at": _time(run.first_token_at),
        "finished_at": _time(run.finished_at),
        "stop_requested": run.stop_requested_at is not None,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "reasoning_tokens": run.reasoning_tokens,
        "notes": list(run.notes),
        "result": _result_if_ended(run),
        "follow_up": _follow_up(run),
    }


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _result_if_ended(run: Run) -> JsonObject | None:
    if run.is_live or not run.result:
        return None
    return result_of(run, canonical.decode_result(run.result), stores=True)


def _follow_up(run: Run) -> str | None:
    """The run that continues the same answer."""
    later = Run.objects.filter(message_id=run.message_id, position=run.position + 1)
    public_id = later.values_list("public_id", flat=True).first()
    return str(public_id) if public_id else None
