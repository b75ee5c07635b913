"""Moments and figures of a run, for its details and the administration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from chat import events
from chat.models import Attempt, Run, RunStatus
from chat.rendering.figures import count, decimal, duration, milliseconds_of
from chat.rendering.safety import reveal, storable


def moments_of(run: Run) -> list[tuple[str, datetime]]:
    """The steps of a run that have a time, in order: label and time."""
    steps = (
        (gettext("Queued"), run.queued_at),
        (gettext("Started"), run.claimed_at),
        (gettext("Request sent"), run.request_sent_at),
        (gettext("First event"), run.first_event_at),
        (gettext("First token"), run.first_token_at),
        (gettext("Stop requested"), run.stop_requested_at),
        (gettext("Finished"), run.finished_at),
    )
    return sorted(((label, at) for label, at in steps if at), key=lambda step: step[1])


def figures_of(run: Run) -> list[tuple[str, str]]:
    """Label and value of each figure that was reported or measured.

    Reasoning tokens are left out if they are 0, and so is the time of a run that failed before the request.
    """
    figures: list[tuple[str, str]] = []
    counts = (
        (gettext("Input tokens"), run.input_tokens),
        (gettext("Output tokens"), run.output_tokens),
        (gettext("Thinking tokens"), run.reasoning_tokens or None),
    )
    figures += [(label, count(number)) for label, number in counts if number is not None]
    result = _result_of(run)
    if result is not None:
        stats, usage = result.stats, result.ext.usage
        if usage is not None and usage.cache_read_tokens:
            figures.append((gettext("Cached input tokens"), count(usage.cache_read_tokens)))
        if usage is not None:
            figures += _combined_usage(usage)
        if stats.tokens_per_second is not None:
            figures.append((gettext("Tokens per second"), decimal(stats.tokens_per_second)))
        measured = (
            (gettext("Time to first token"), stats.time_to_first_token_seconds),
            (gettext("Model load time"), stats.model_load_time_seconds),
        )
        figures += [
            (label, duration(milliseconds_of(seconds)))
            for label, seconds in measured
            if seconds is not None
        ]
    if run.finished_at and (run.request_sent_at or run.status != RunStatus.FAILED):
        total = (run.finished_at - run.queued_at).total_seconds()
        figures.append((gettext("Total time"), duration(milliseconds_of(total))))
    return figures


# Facts of the server about an answer, which are otherwise only in its events: member of the result's
# ``meta`` -> label.
_FACTS: Mapping[str, str] = {
    "request_id": gettext_noop("Request ID"),
    "generation_id": gettext_noop("Generation ID"),
    "upstream_id": gettext_noop("Answer ID"),
    "model": gettext_noop("Model"),
    "service_tier": gettext_noop("Service tier"),
    "system_fingerprint": gettext_noop("System fingerprint"),
    "provider": gettext_noop("Provider"),
    "native_finish_reason": gettext_noop("Finish reason of the provider"),
    "rate_limit": gettext_noop("Rate limit"),
    "perf": gettext_noop("Performance"),
}
# Limits of facts with members of their own, such as performance figures.
_MOST_MEMBERS = 40
_MOST_FACT_CHARACTERS = 200


def server_facts_of(run: Run) -> list[tuple[str, str]]:
    """Label and value of what the server told about the answer."""
    result = _result_of(run)
    if result is None:
        return []
    stop = result.ext.stop
    facts = [
        (gettext("Finish reason"), stop.raw),
        (gettext("Stop sequence"), stop.sequence),
        *((gettext(label), result.ext.meta.get(name)) for name, label in _FACTS.items()),
    ]
    return [row for label, value in facts for row in _rows(label, value)]


def _rows(label: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        members = list(value.items())[:_MOST_MEMBERS]
        return [row for name, each in members for row in _rows(f"{label}: {name}", each)]
    if value is None or value == "" or isinstance(value, list):
        return []
    return [(label, reveal(storable(str(value)[:_MOST_FACT_CHARACTERS])))]


# A server's event with the figures of the whole answer: what each count is called there.
_COMBINED = "x_chat.metadata"


def _combined_usage(usage: events.Usage) -> list[tuple[str, str]]:
    """Counts that include the server's own research, where it also sends those of the answer alone."""
    raw = usage.raw.get(_COMBINED) if isinstance(usage.raw, dict) else None
    if not isinstance(raw, dict):
        return []
    labels = (
        (gettext("Input tokens with research"), ("input_tokens", "prompt_tokens")),
        (gettext("Output tokens with research"), ("output_tokens", "completion_tokens")),
    )
    found = ((label, next((raw[n] for n in names if n in raw), None)) for label, names in labels)
    return [(label, count(number)) for label, number in found if type(number) is int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """The part of the context that the conversation used, in tokens as they are shown."""

    used: str
    budget: str
    percent: int


def context_budget_of(run: Run) -> ContextBudget | None:
    result = _result_of(run)
    context = result.ext.meta.get("context_budget") if result is not None else None
    if not isinstance(context, dict):
        return None
    used, budget = context.get("totalTokens"), context.get("inputBudget")
    if type(used) is not int or type(budget) is not int or used < 0 or budget <= 0:
        return None
    percent = min(100, round(100 * used / budget))
    return ContextBudget(used=count(used), budget=count(budget), percent=percent)


def _result_of(run: Run) -> events.Result | None:
    """``None`` without a result, or with one that cannot be parsed: administrators still see the
    rest."""
    if not run.result:
        return None
    try:
        return events.decode_result(run.result)
    except msgspec.MsgspecError:
        return None


OUTCOMES = {
    "eof": gettext_lazy("Completed"),
    "stopped": gettext_lazy("Stopped"),
    "refused": gettext_lazy("Rejected"),
    "failed": gettext_lazy("Failed"),
    "interrupted": gettext_lazy("Interrupted"),
}


def outcome_label(run: Run, attempt: Attempt) -> str:
    """How an attempt ended. One that a runner could not complete has no outcome of its own; it
    ended with its run."""
    if attempt.outcome:
        return str(OUTCOMES.get(attempt.outcome, attempt.outcome))
    return gettext("In progress") if run.is_live else run.get_status_display()
