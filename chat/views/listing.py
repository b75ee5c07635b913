"""The sidebar's list of conversations: one's own and the team's, by day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from chat.models import OPEN_STATUSES, Conversation, Question, Run, User
from chat.models.run import LIVE_STATUSES

# A screen and a half; older ones come when they are asked for.
PAGE_LINES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    label: str
    conversations: list[Conversation] = field(default_factory=list)


def listing_context(
    user: User, current: Conversation | None = None, before: str = ""
) -> dict[str, Any]:
    lines = _lines(user, before)
    shown = lines[:PAGE_LINES]
    return {
        "days": by_day(shown),
        "current": current,
        "older_than": shown[-1].updated_at.isoformat() if len(lines) > PAGE_LINES else "",
        "is_first_page": not before,
    }


def _lines(user: User, before: str) -> list[Conversation]:
    """One more than a page, to know whether there is another."""
    live = Run.objects.filter(conversation=OuterRef("pk"), status__in=LIVE_STATUSES)
    # Where somebody wrote on below the question, nobody is waited for any more.
    asked = Question.objects.filter(
        conversation=OuterRef("pk"),
        status__in=OPEN_STATUSES,
        run__message__children__isnull=True,
    )
    visible = (
        Conversation.objects.visible_to(user)
        .select_related("owner")
        .only("public_id", "title", "visibility", "updated_at", "owner__name", "owner__email")
        .annotate(is_running=Exists(live), is_waiting=Exists(asked))
        .order_by("-updated_at", "-pk")
    )
    moment = _moment(before)
    if moment is not None:
        visible = visible.filter(updated_at__lt=moment)
    return list(visible[: PAGE_LINES + 1])


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text)
        if moment is None or timezone.is_naive(moment):
            return None
        # As the database compares it: the ends of the calendar have no such moment.
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def by_day(conversations: Iterable[Conversation]) -> list[Day]:
    today = timezone.localdate()
    return [
        Day(label=label, conversations=list(lines))
        for label, lines in groupby(conversations, lambda line: _label(line.updated_at, today))
    ]


def _label(moment: datetime, today: date) -> str:
    day = timezone.localtime(moment).date()
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last seven days"
    if day > today - timedelta(days=30):
        return "Last thirty days"
    return f"{day:%B %Y}"
