"""Conversations on pages where several can be selected: a page of them, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import F, QuerySet
from django.http import HttpRequest

from chat.models import Conversation, User
from chat.models.team import WRITING_ROLES

PAGE_LINES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A conversation on one of the pages. ``at`` is the time that its page is about."""

    conversation: Conversation
    at: datetime
    may_change: bool
    # When it is removed from the trash.
    ends_at: datetime | None = None


def page_of_lines(
    request: HttpRequest, rows: QuerySet[Conversation], *, by: str
) -> tuple[Page[Any], list[Line]]:
    """The page that the address asks for, in the order of the time ``by``."""
    rows = rows.annotate(role=F("team__memberships__role"))
    rows = rows.select_related("team", "owner", "project")
    rows = rows.order_by(f"-{by}", "-pk").defer("system_prompt", "parameters")
    page = Paginator(rows, PAGE_LINES).get_page(request.GET.get("page"))
    return page, [_line(request.user, row, by) for row in page]


def _line(user: User, row: Any, by: str) -> Line:
    ends = [row.expires_at] if row.expires_at else []
    if row.deleted_at is not None:
        ends.append(row.deleted_at + timedelta(days=settings.TRASH_DAYS))
    return Line(
        conversation=row,
        at=getattr(row, by),
        may_change=row.owner_id == user.pk and row.role in WRITING_ROLES,
        ends_at=min(ends, default=None),
    )
