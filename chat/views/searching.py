"""Finding a conversation by its title."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from chat.views.gate import signed_in
from chat.views.listing import SEARCH_CHARACTERS, found_by_title, listing_context

# Two screens of a phone; whoever looks for one conversation writes another word instead.
FOUND_LINES = 20


@signed_in
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "")[:SEARCH_CHARACTERS].strip()
    lines = found_by_title(request.user, query, limit=FOUND_LINES + 1)
    context = {
        "query": query,
        "found": lines[:FOUND_LINES],
        "has_more": len(lines) > FOUND_LINES,
        "current": None,
    }
    if request.htmx:
        return render(request, "conversations/_found.html", context)
    return render(
        request, "conversations/search.html", {**context, **listing_context(request.user)}
    )
