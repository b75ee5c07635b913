"""Searching conversations by title: beside the list in the sidebar, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from chat.conversations.listing import (
    SEARCH_CHARACTERS,
    ConversationLine,
    by_day,
    found_by_title,
)
from chat.models import Conversation, Message, Role
from chat.web.decorators import login_required

# Two screens of a phone.
FOUND_LINES = 20
SNIPPET_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A conversation on the page of results. ``snippet`` is the beginning of its newest message of a
    person, empty if the title says the same."""

    line: ConversationLine
    team: str
    snippet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDay:
    label: str
    results: list[Found]


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "")[:SEARCH_CHARACTERS].strip()
    lines = found_by_title(request.user, query, limit=FOUND_LINES + 1)
    shown = lines[:FOUND_LINES]
    context = {"query": query, "has_more": len(lines) > FOUND_LINES, "current": None}
    if request.htmx:
        context["found"] = shown
        return render(request, "conversations/_found.html", context)
    context["days"] = _by_day(shown)
    return render(request, "conversations/search.html", context)


def _by_day(lines: Sequence[ConversationLine]) -> list[FoundDay]:
    newest = (
        Message.objects.filter(conversation=OuterRef("pk"), role=Role.USER)
        .exclude(text="")
        .order_by("-created_at", "-pk")
        .values_list(Substr("text", 1, SNIPPET_CHARACTERS))[:1]
    )
    rows = Conversation.objects.filter(public_id__in=[line.public_id for line in lines])
    more = {
        public_id: (team, text)
        for public_id, team, text in rows.values_list("public_id", "team__name", Subquery(newest))
    }
    return [
        FoundDay(
            label=day.label,
            results=[
                _found(line, *more.get(line.public_id, ("", ""))) for line in day.conversations
            ],
        )
        for day in by_day(lines)
    ]


def _found(line: ConversationLine, team: str, text: str | None) -> Found:
    snippet = text or ""
    is_title = snippet.startswith(line.title.rstrip("…"))
    return Found(line=line, team=team, snippet="" if is_title else snippet)
