"""Conversations on pages where several can be selected: a page of them, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet
from django.http import HttpRequest

from chat import access
from chat.models import Conversation, Participant, User

PAGE_LINES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A conversation on one of the pages. ``at`` is the time that its page is about."""

    conversation: Conversation
    at: datetime
    may_change: bool
    is_own: bool
    # True if others see it; the next, if the person may know its project.
    is_shared: bool
    knows_project: bool
    # When it is removed from the trash.
    ends_at: datetime | None = None


def page_of_lines(
    request: HttpRequest, rows: QuerySet[Conversation], *, by: str
) -> tuple[Page[Any], list[Line]]:
    """The page that the address asks for, in the order of the time ``by``."""
    user = request.user
    same = OuterRef("pk")
    managed = access.managed_conversations(user).filter(pk=same)
    restorable = access.trashed_conversations(user).filter(pk=same)
    rows = rows.annotate(
        may_change=ExpressionWrapper(Q(Exists(managed)) | Q(Exists(restorable)), BooleanField()),
        has_participants=Exists(Participant.objects.filter(conversation=same)),
        reads_project=Exists(access.visible_projects(user).filter(pk=OuterRef("project"))),
    )
    rows = rows.select_related("team", "owner", "project")
    rows = rows.order_by(f"-{by}", "-pk").defer("system_prompt", "parameters")
    page = Paginator(rows, PAGE_LINES).get_page(request.GET.get("page"))
    return page, [_line(row, by, user) for row in page]


def _line(row: Any, by: str, user: User) -> Line:
    ends = [row.expires_at] if row.expires_at else []
    if row.deleted_at is not None:
        ends.append(row.deleted_at + timedelta(days=settings.TRASH_DAYS))
    return Line(
        conversation=row,
        at=getattr(row, by),
        may_change=row.may_change,
        is_own=row.owner_id == user.pk,
        is_shared=row.is_shared or row.has_participants,
        knows_project=row.reads_project or row.owner_id == user.pk,
        ends_at=min(ends, default=None),
    )
