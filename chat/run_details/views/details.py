"""The page with the details of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_GET

from chat import access, events
from chat.dialects import DIALECTS
from chat.models import (
    Attempt,
    Run,
    RunInstructions,
    RunPersonalInstructions,
    RunStatus,
    TitleRequest,
)
from chat.models.run import model_label
from chat.rendering import final_comparison
from chat.rendering.figures import clock, decimal, duration, milliseconds_of
from chat.rendering.final_comparison import FinalComparison, responses_said
from chat.rendering.latency import Latency, shares
from chat.rendering.messages import error_title
from chat.run_details import log_pages
from chat.run_details.facts import (
    context_budget_of,
    figures_of,
    moments_of,
    outcome_label,
    server_facts_of,
)
from chat.run_details.tool_receipts import tool_receipts_of
from chat.run_details.trace import final_response
from chat.run_details.views.log import HIDDEN_RECORDING, log_context, sees_settings
from chat.runs.segments import read_raw
from chat.runs.tool_calls import WaitingFor, waiting_for
from chat.upstreams.redaction import redact_patterns
from chat.web.decorators import login_required
from chat.web.responses import beside_room

# How many of the bytes the page shows; the export has all of them.
RAW_BYTES_SHOWN = 64 * 1024
# Tone of the badge that shows the status; none for the others.
TONES = {
    RunStatus.COMPLETED: "good",
    **dict.fromkeys((RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING), "wait"),
    **dict.fromkeys((RunStatus.FAILED, RunStatus.CUT, RunStatus.INTERRUPTED), "bad"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMoment:
    """A step in the life of a run. ``elapsed`` is the time since the first one."""

    label: str
    at: datetime
    elapsed: str


@login_required
@require_GET
def details(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """One tab of the details: ``?tab=``, the timeline without it."""
    run = access.get_run(request.user, public_id)
    tab = _tab_in(request)
    label, context_of = TABS[tab]
    here = reverse("run_details", args=[run.public_id])
    context: dict[str, Any] = {
        "run": run,
        "with_settings": sees_settings(request, run),
        "model_label": model_label(run),
        "tone": TONES.get(run.status, ""),
        "status": _status_of(run),
        "parts": list(Run.objects.filter(message=run.message_id).order_by("position")),
        "error_title": error_title(run.error_kind) if run.error_kind or run.error_message else "",
        "tab": tab,
        "tab_label": gettext(label),
        "tab_template": f"run_details/{tab}.html",
        "tabs": [
            (gettext(each), f"{here}?tab={name}", name == tab) for name, (each, _) in TABS.items()
        ],
        **context_of(run, request),
    }
    return beside_room(request, "run_details/details.html", run.conversation, context)


def _status_of(run: Run) -> str:
    """The status in words. A run that waits only for tools waits for nobody."""
    if run.status == RunStatus.WAITING:
        statuses = run.questions.values_list("status", flat=True)
        if waiting_for(statuses) == WaitingFor.TOOLS:
            return gettext("Running a tool")
    return str(run.get_status_display())


def _tab_in(request: HttpRequest) -> str:
    """A link to an event need not say where events are."""
    tab = request.GET.get("tab") or ("events" if "at" in request.GET else "")
    return tab if tab in TABS else "timeline"


def timeline_context(run: Run, request: HttpRequest) -> dict[str, Any]:
    attempts = attempts_of(run)
    return {
        "moments": _moments(run),
        "attempts": attempts,
        "tool_receipts": tool_receipts_of(run, with_settings=sees_settings(request, run)),
        "title_requests": title_requests_of(run),
        **time_of(run, attempts),
    }


def usage_context(run: Run, request: HttpRequest) -> dict[str, Any]:
    return {
        "figures": figures_of(run),
        "context_budget": context_budget_of(run),
        "facts": server_facts_of(run),
        "receipt": receipt_of(run),
    }


def request_context(run: Run, request: HttpRequest) -> dict[str, Any]:
    sent = RunInstructions.objects.filter(run=run).select_related("project").first()
    is_readable = sent is not None and access.may_read_project(request.user, sent.project)
    return {
        "parameters": parameters_of(run) if sees_settings(request, run) else [],
        "has_instructions": sent is not None,
        "instructions": sent if is_readable else None,
        "personal": RunPersonalInstructions.objects.filter(run=run).select_related("user").first(),
    }


def recording_context(run: Run, request: HttpRequest) -> dict[str, Any]:
    # One byte more than is shown tells that there is more.
    sees = sees_settings(request, run)
    raw = read_raw(run, limit_bytes=RAW_BYTES_SHOWN + 1) if sees else b""
    return {
        "raw": redact_patterns(raw[:RAW_BYTES_SHOWN].decode("utf-8", "replace")),
        "has_more_raw": len(raw) > RAW_BYTES_SHOWN,
        "hidden": "" if sees else gettext(HIDDEN_RECORDING),
        "has_events": log_pages.last_entry(run.pk) is not None,
    }


# Name in the address, also that of the template -> label, and what fills it.
TABS: dict[str, tuple[str, Callable[[Run, HttpRequest], dict[str, Any]]]] = {
    "timeline": (gettext_noop("Timeline"), timeline_context),
    "events": (gettext_noop("Events"), log_context),
    "usage": (gettext_noop("Usage"), usage_context),
    "request": (gettext_noop("Request"), request_context),
    "recording": (gettext_noop("Recording"), recording_context),
}


def _moments(run: Run) -> list[TimelineMoment]:
    moments = moments_of(run)
    return [
        TimelineMoment(
            label=label,
            at=at,
            elapsed=clock(milliseconds_of((at - moments[0][1]).total_seconds())),
        )
        for label, at in moments
    ]


def time_of(run: Run, attempts: Sequence[Attempt]) -> dict[str, object]:
    """The use of the time from the click to the end: from the events, and from the records of what
    events do not contain: the queue, refused attempts, the pause for a person, our own work. Empty
    for a run that has not ended."""
    if not run.finished_at or not run.claimed_at or not run.request_sent_at:
        return {}
    spent, end_t = _spent_in(run)
    # The reaper ended a lost run later, so the time after its last event was spent by nobody.
    is_end_unseen = not end_t
    ended_at = run.request_sent_at + timedelta(milliseconds=end_t)
    asked_at = attempts[0].started_at if attempts else run.request_sent_at
    before = Run.objects.filter(message=run.message_id, position__lt=run.position)
    waited_from = before.order_by("-position").values_list("finished_at", flat=True).first()
    steps = (
        ("person", waited_from, run.queued_at),
        ("queue", run.queued_at, run.claimed_at),
        ("overhead", run.claimed_at, asked_at),
        ("attempts", asked_at, run.request_sent_at),
        ("overhead", None if is_end_unseen else ended_at, run.finished_at),
    )
    recorded = [
        (kind, round((until - since).total_seconds() * 1000))
        for kind, since, until in steps
        if since
    ]
    return {"shares": shares([*recorded, *spent]), "is_end_unseen": is_end_unseen}


def receipt_of(run: Run) -> FinalComparison | None:
    """The server's final values compared with the stream; ``None`` if it sent none."""
    if not run.result:
        return None
    result = events.decode_result(run.result)
    final = responses_said(final_response(run))
    if final is None:
        return final_comparison.receipt_of(result)
    return final_comparison.compare(final_comparison.streamed(result.output), final)


def _spent_in(run: Run) -> tuple[list[tuple[str, int]], int]:
    """The times in the events, and the time of the last one in milliseconds; 0 if the end was not
    recorded."""
    latency, t, before, passed_over = Latency(), 0, "", b""
    for entry in log_pages.entries_behind(run.pk):
        kind = log_pages.type_in(entry.body)
        # Most of a long log are deltas that continue a delta of the same kind; they are not
        # decoded.
        if kind == before and kind.endswith(".delta"):
            passed_over = entry.body
            continue
        if passed_over:
            latency.reach(log_pages.t_in(passed_over))
            passed_over = b""
        event = events.decode(entry.body)
        latency.add(event)
        before, t = kind, event.t
    return latency.spent(t), t


def attempts_of(run: Run) -> list[Attempt]:
    attempts = list(Attempt.objects.filter(run=run).order_by("number"))
    for attempt in attempts:
        attempt.outcome_label = outcome_label(run, attempt)
        attempt.error_title = error_title(attempt.error_kind) if attempt.error_kind else ""
        attempt.asked_to_wait = _asked_to_wait(attempt)
    return attempts


def title_requests_of(run: Run) -> list[TitleRequest]:
    """The request for a title that followed this answer, from whichever of its runs the details are."""
    rows = TitleRequest.objects.filter(run__message=run.message_id).select_related("upstream")
    for request in rows:
        request.error_title = error_title(request.error_kind) if request.error_kind else ""
    return list(rows)


def _asked_to_wait(attempt: Attempt) -> str:
    """How long the server asked to wait, in words; empty if it did not."""
    seconds = attempt.retry_after_seconds
    if not seconds:
        return ""
    if seconds < 1:
        return gettext("%(seconds)s s") % {"seconds": decimal(seconds, 2)}
    return duration(milliseconds_of(seconds))


def parameters_of(run: Run) -> list[tuple[str, object]]:
    """The parameters, under the labels of the form."""
    dialect = DIALECTS.get(run.upstream.dialect) if run.upstream else None
    labels = {each.name: each.label for each in dialect.parameters} if dialect else {}
    return [(labels.get(name, name), value) for name, value in run.parameters.items()]
