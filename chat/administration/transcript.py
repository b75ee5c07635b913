"""A page of a conversation's transcript: every message of every branch, in the order of the tree, as in
an exported document, with what administrators see of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext, gettext_lazy

from chat.conversations.change_lines import ChangeLine, lines_below
from chat.exports.html_form import Picture, RunPart, TurnPart, run_part, turn_part
from chat.exports.reading import read_messages
from chat.models import Attempt, Conversation, Message, Run
from chat.models.tree import Position, tree_order
from chat.rendering.figures import count
from chat.run_details.facts import figures_of, moments_of, outcome_label
from chat.runs.event_buffer import LogEntry
from chat.runs.segments import read_logs
from chat.web.admin import seconds
from chat.web.tags import when

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
    messages: Sequence[Message]
    logs: Mapping[int, Sequence[LogEntry]]
    changes: Mapping[int, Sequence[ChangeLine]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """The facts of a run, which the transcript and its own page show below the answer."""

    part: RunPart
    badge: str
    moments: Sequence[tuple[str, datetime, str]]
    figures: Sequence[tuple[str, str]]
    # The attempts, each with its outcome in words.
    attempts: Sequence[tuple[Attempt, str]]
    result: str
    is_result_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptTurn:
    position: Position
    turn: TurnPart
    cards: Sequence[RunCard]

    @property
    def page(self) -> int:
        return page_of(self.position.number)

    @property
    def parent_page(self) -> int | None:
        parent = self.position.parent_number
        return page_of(parent) if parent else None


# --- reading -------------------------------------------------------------------------


def page_of(number: int) -> int:
    return (number - 1) // TURNS_PER_PAGE + 1


def read_page(conversation: Conversation, page: int) -> PageRows:
    """The rows of one page. A number beyond the end gives the last page."""
    light = Message.objects.filter(conversation=conversation).only("pk", "parent_id")
    order = tree_order(light)
    page_count = page_of(len(order)) if order else 1
    page = min(max(page, 1), page_count)
    shown = order[(page - 1) * TURNS_PER_PAGE : page * TURNS_PER_PAGE]
    messages = read_messages(conversation, [position.pk for position in shown])
    return PageRows(
        positions=shown,
        turn_count=len(order),
        page=page,
        page_count=page_count,
        messages=messages,
        logs=read_logs([run.pk for message in messages for run in message.runs.all()]),
        changes=lines_below([position.pk for position in order], conversation),
    )


# --- rendering ------------------------------------------------------------------------


def turns_of(rows: PageRows) -> list[TranscriptTurn]:
    """The messages of a page, rendered. It reads nothing from the database."""
    return [
        _turn(position, message, rows.logs, rows.changes.get(message.pk, ()))
        for position, message in zip(rows.positions, rows.messages, strict=True)
    ]


def _turn(
    position: Position,
    message: Message,
    logs: Mapping[int, Sequence[LogEntry]],
    changes: Sequence[ChangeLine],
) -> TranscriptTurn:
    turn = turn_part(
        message,
        position.number,
        created=when(message.created_at, "full"),
        # Files have pages of their own here, which record who reads them.
        pictures=[Picture(name=each.file.name, source="") for each in message.attachments.all()],
        runs=[run_part(run, logs[run.pk]) for run in message.runs.all()],
        changes=[(line.sentence, when(line.at, "full")) for line in changes],
    )
    return TranscriptTurn(
        position=position,
        turn=turn,
        cards=[card_of(part, result_length=RESULT_LENGTH) for part in turn.runs],
    )


def card_of(part: RunPart, *, result_length: int | None = None) -> RunCard:
    run = part.run
    result = pretty_result(run.result)
    is_cut = result_length is not None and len(result) > result_length
    return RunCard(
        part=part,
        badge=BADGES[run.status],
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
