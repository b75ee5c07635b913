"""The part of the visible path that the next answer is sent, and the line on the page where it begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from chat.models import ContextStart, Message, Role, Run, SentContext, StartKind
from chat.models.tree import Place, path_to
from chat.runs.context import first_sent_below, newest_start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The last run of an answer that may be a summary."""

    pk: int
    status: str
    sent_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A message of the path, as `chat.runs.context` reads it."""

    pk: int
    role: str
    start: int | None
    start_kind: str | None
    runs: Sequence[_Run] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOfPath:
    """``first`` is the index of the first message of the path that the next answer is sent. ``below`` is the index of the
    turn below which a line says so, with the person who chose it and the time. ``former`` are the indices of turns below
    which there were lines of choices that are no longer in effect."""

    first: int
    below: int | None = None
    kind: str = ""
    person: str = ""
    at: datetime | None = None
    former: frozenset[int] = frozenset()

    @property
    def is_summary(self) -> bool:
        return self.kind == StartKind.SUMMARY

    @property
    def left_out(self) -> int:
        """The number of messages above the line that are not sent; of a summary it is the number that it stands for."""
        return self.first


def context_of_path(places: Sequence[Place]) -> ContextOfPath | None:
    """``None`` where nobody ever chose what is sent on this path, which takes no query. The messages are those of
    `chat.conversations.paths`."""
    rows: Sequence[Any] = [place.message for place in places]
    if all(row.start is None for row in rows):
        return None
    path = _with_summaries(rows)
    lines = {
        index: index + 1 if row.start_kind == StartKind.SUMMARY else index - 1
        for index, row in enumerate(rows)
        if row.start is not None
    }
    first = first_sent_below(path)
    if not first:
        return ContextOfPath(first=0, former=frozenset(lines.values()))
    chosen = rows[first]
    return ContextOfPath(
        first=first,
        below=lines[first],
        kind=chosen.start_kind,
        person=chosen.start_by or gettext("Deleted user"),
        at=chosen.start_at,
        former=frozenset(lines.values()) - {lines[first]},
    )


def _with_summaries(rows: Sequence[Any]) -> list[_Message]:
    """With the last runs of the answers that are to be summaries, which decide whether they are."""
    asked = {
        rows[index + 1].pk
        for index, row in enumerate(rows[:-1])
        if row.start_kind == StartKind.SUMMARY
    }
    runs = _last_runs(asked) if asked else {}
    return [
        _Message(
            pk=row.pk,
            role=row.role,
            start=row.start,
            start_kind=row.start_kind,
            runs=[runs[row.pk]] if row.pk in runs else [],
        )
        for row in rows
    ]


def _last_runs(answers: Iterable[int]) -> Mapping[int, _Run]:
    rows = Run.objects.filter(message__in=answers).order_by("position")
    return {
        message: _Run(pk=pk, status=status)
        for pk, message, status in rows.values_list("pk", "message", "status")
    }


def start_in_effect(places: Sequence[Place]) -> Message | None:
    """The message whose choice decides what the next answer is sent, also where it is to send everything."""
    chosen = newest_start(_with_summaries([place.message for place in places]))
    return None if chosen is None else places[chosen].message


def keep_start(message: Message, version: Message) -> None:
    """Gives another version of a message the choice of the first, if that is in effect there: an edit leaves what is sent
    as it is."""
    own = ContextStart.objects.filter(message=message).first()
    if own is None:
        return
    rows = Message.objects.filter(conversation=message.conversation_id).only("id", "parent_id")
    messages = {row.pk: row for row in rows}
    above = [each.pk for each in path_to(messages[message.pk], messages)]
    if not ContextStart.objects.filter(message__in=above, pk__gt=own.pk).exists():
        ContextStart.objects.create(
            message=version, kind=own.kind, person=own.person, created_at=own.created_at
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedContext:
    """``tokens`` of the conversation as the server of the last answer counted them; ``None`` where they are to be
    estimated: it counted none, or was sent something else than the next answer."""

    tokens: int | None
    # True if there are messages that could be sent.
    is_begun: bool


def used_context(
    places: Sequence[Place], context: ContextOfPath | None, last: Run | None
) -> UsedContext:
    """``last`` is the newest run of the last answer. Takes a query only where people chose what is sent."""
    is_begun = any(place.message.role == Role.USER for place in places)
    if last is None or last.input_tokens is None or last.output_tokens is None:
        return UsedContext(tokens=None, is_begun=is_begun)
    if context is not None:
        sent = SentContext.objects.filter(run=last).values_list("start", flat=True).first()
        if sent != (places[context.first].message.pk if context.first else None):
            return UsedContext(tokens=None, is_begun=is_begun)
    return UsedContext(tokens=last.input_tokens + last.output_tokens, is_begun=is_begun)
