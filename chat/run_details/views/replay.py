"""The answer of a run at any moment, and its replay."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_GET

from chat import access
from chat.live import snapshot
from chat.models.run import model_label
from chat.rendering import figures
from chat.run_details import log_pages, replay
from chat.run_details.replay import TooFar
from chat.run_details.views.log import number_in
from chat.web.decorators import login_required
from chat.web.responses import beside_room

SPEEDS = (1, 4, 20)
# In the run's own time: as often as the live page is updated, and less often at a higher speed.
FRAME_MILLISECONDS = 50
LONGEST_STEP_MILLISECONDS = FRAME_MILLISECONDS * max(SPEEDS)
TOO_FAR = gettext_noop(
    "There are too many events before this one to replay it. Find it in the event list."
)


@login_required
@require_GET
def page(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The answer at ``?at=`` a number; without it, before the first event."""
    run = access.get_run(request.user, public_id)
    last = log_pages.last_entry(run.pk)
    context: dict[str, Any] = {
        "run": run,
        "model_label": model_label(run),
        "replay_id": snapshot.replay_id(run),
        "last_seq": last.seq if last else 0,
        "whole_milliseconds": log_pages.t_in(last.body) if last else 0,
        "speeds": SPEEDS,
        "frame_milliseconds": FRAME_MILLISECONDS,
    }
    try:
        shown = replay.moment_at(run, number_in(request, "at"))
    except TooFar:
        context["trouble"] = gettext(TOO_FAR)
        shown = replay.moment_at(run, 0)
    context |= {
        "seq": shown.answer.seq,
        "t": shown.t,
        "at": figures.duration(shown.t),
        "answer_html": shown.answer.snapshot(),
        "phase_html": shown.answer.phase(),
    }
    replay.keep(run, shown)
    return beside_room(request, "run_details/replay.html", run.conversation, context)


@login_required
@require_GET
def moment(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The answer after event ``?seq=``, or at ``?t=`` milliseconds: JSON with ``seq``, ``t`` and
    ``contents``, of which the first replaces what is shown and the others are appended."""
    run = access.get_run(request.user, public_id)
    is_time = "t" in request.GET
    seq = replay.seq_at(run, number_in(request, "t")) if is_time else number_in(request, "seq")
    try:
        shown = replay.moment_at(run, seq)
    except TooFar:
        return _too_far()
    answer = shown.answer
    said = {"seq": answer.seq, "t": shown.t, "contents": answer.replacement()}
    replay.keep(run, shown)
    return JsonResponse(said)


@login_required
@require_GET
def frames(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Patches after ``?after=``, at least ``?step=`` milliseconds of the run apart: JSON with
    ``frames`` (each ``t``, ``seq``, ``content``), the last ``seq``, and ``is_over``. ``?most=``
    limits their number."""
    run = access.get_run(request.user, public_id)
    step = min(number_in(request, "step"), LONGEST_STEP_MILLISECONDS)
    most = number_in(request, "most") or replay.BATCH_FRAMES
    try:
        batch = replay.batch_after(
            run,
            number_in(request, "after"),
            step_milliseconds=step,
            most=min(most, replay.BATCH_FRAMES),
        )
    except TooFar:
        return _too_far()
    return HttpResponse(msgspec.json.encode(batch), content_type="application/json")


def _too_far() -> HttpResponse:
    return JsonResponse({"detail": gettext(TOO_FAR)}, status=422)
