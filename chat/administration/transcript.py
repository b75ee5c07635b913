"""A page of a conversation's transcript: every message of every branch, in the order of the
tree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.live.snapshot import render_unfolded
from chat.models import Attempt, Conversation, Message, Role, Run
from chat.models.imports import name_imported
from chat.models.tree import Position, tree_order
from chat.rendering.figures import count
from chat.run_details.facts import figures_of, moments_of, outcome_label
from chat.runs.event_buffer import LogEntry
from chat.runs.segments import read_logs
from chat.web.admin import seconds

# Ten questions and their answers: what one reads before turning the page.
TURNS_PER_PAGE = 20
# A longer result is cut in the transcript; the page of the run shows all of it.
RESULT_LENGTH = 64 * 1024

BADGES = {
    "queued": "wait",
    "running": "accent",
    "completed": "good",
    "waiting": "wait",
    "incomplete": "wait",
    "stopped": "",
    "failed": "bad",
    "cut": "bad",
    "interrupted": "bad",
}
NATIVE_NOTE = gettext_lazy("(data for the next request; not shown)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRows:
    """The rows that one page needs, read in one transaction."""

    positions: Sequence[Position]
    turn_count: int
    page: int
    page_count: int
    messages: Mapping[int, Message]
    runs: Mapping[int, Sequence[Run]]
    logs: Mapping[int, Sequence[LogEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """One run as the transcript and its own page show it."""

    run: Run
    badge: str
    html: SafeString
    moments: Sequence[tuple[str, datetime, str]]
    figures: Sequence[tuple[str, str]]
    # With how each ended, in words.
    attempts: Sequence[tuple[Attempt, str]]
    result: str
    is_result_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptTurn:
    position: Position
    message: Message
    author: str
    is_answer: bool
    cards: Sequence[RunCard]

    @property
    def page(self) -> int:
        return page_of(self.position.number)

    @property
    def parent_page(self) -> int | None:
        parent = self.position.parent_number
        return page_of(parent) if parent else None


# --- order ---------------------------------------------------------------------------


def page_of(number: int) -> int:
    return (number - 1) // TURNS_PER_PAGE + 1


# --- reading -------------------------------------------------------------------------


def read_page(conversation: Conversation, page: int) -> PageRows:
    """The rows of one page. A number beyond the end gives the last page."""
    light = Message.objects.filter(conversation=conversation).only("pk", "parent_id")
    order = tree_order(light)
    page_count = page_of(len(order)) if order else 1
    page = min(max(page, 1), page_count)
    shown = order[(page - 1) * TURNS_PER_PAGE : page * TURNS_PER_PAGE]
    keys = [position.pk for position in shown]
    runs = runs_for_cards().filter(message_id__in=keys).order_by("position")
    by_message: dict[int, list[Run]] = {}
    for run in runs:
        by_message.setdefault(run.message_id, []).append(run)
    messages = Message.objects.select_related("author").in_bulk(keys)
    name_imported(conversation.pk, messages=messages.values())
    return PageRows(
        positions=shown,
        turn_count=len(order),
        page=page,
        page_count=page_count,
        messages=messages,
        runs=by_message,
        logs=read_logs([run.pk for run in runs]),
    )


def runs_for_cards() -> QuerySet[Run]:
    return Run.objects.select_related(
        *("upstream", "requested_by", "stop_requested_by", "runner", "conversation"),
        "project_instructions",
    ).prefetch_related("attempts")


# --- rendering ------------------------------------------------------------------------


def turns_of(rows: PageRows) -> list[TranscriptTurn]:
    """The messages of a page, answers rendered. It reads nothing from the database."""
    return [_turn(position, rows) for position in rows.positions]


def _turn(position: Position, rows: PageRows) -> TranscriptTurn:
    message = rows.messages[position.pk]
    runs = rows.runs.get(position.pk, ())
    return TranscriptTurn(
        position=position,
        message=message,
        author=_author(message, runs),
        is_answer=message.role == Role.ASSISTANT,
        cards=[
            card_of(run, rows.logs.get(run.pk, ()), result_length=RESULT_LENGTH) for run in runs
        ],
    )


def _author(message: Message, runs: Sequence[Run]) -> str:
    if message.role == Role.ASSISTANT:
        return runs[0].model if runs else gettext("Answer")
    return message.author_name


def card_of(run: Run, log: Sequence[LogEntry], *, result_length: int | None = None) -> RunCard:
    result = pretty_result(run.result)
    is_cut = result_length is not None and len(result) > result_length
    return RunCard(
        run=run,
        badge=BADGES[run.status],
        html=render_unfolded(run, log),
        moments=_moments(run),
        figures=_figures(run),
        attempts=[
            (attempt, outcome_label(run, attempt))
            for attempt in sorted(run.attempts.all(), key=lambda attempt: attempt.number)
        ],
        result=result[:result_length] if is_cut else result,
        is_result_cut=is_cut,
    )


def pretty_result(stored: str) -> str:
    """The stored ``chat.end`` result as indented JSON, without the upstream's own form of the
    message, which is only needed for the next request."""
    if not stored:
        return ""
    try:
        result = json.loads(stored)
    except ValueError:
        return stored
    extension = result.get("ext") if isinstance(result, dict) else None
    if isinstance(extension, dict) and extension.get("native") is not None:
        extension["native"] = str(NATIVE_NOTE)
    return json.dumps(result, ensure_ascii=False, indent=2)


def _moments(run: Run) -> list[tuple[str, datetime, str]]:
    """Label and time of each step, and the time since the message was sent."""
    return [
        (label, at, f"+{seconds(at - run.queued_at)}" if at > run.queued_at else "")
        for label, at in moments_of(run)
    ]


def _figures(run: Run) -> list[tuple[str, str]]:
    events = [(gettext("Events"), count(run.last_seq))] if run.last_seq else []
    return [*figures_of(run), *events]
