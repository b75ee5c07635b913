"""The list from which fields complete a name after ``@``."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from chat import access
from chat.mentions.candidates import candidates
from chat.web.decorators import login_required_in_background

# Longer words name nobody.
WORDS_LIMIT = 100


@login_required_in_background
@require_safe
def find(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The people that ``q`` names, also for readers, who mention people in comments; managers can share with
    them."""
    conversation = access.get_conversation(request.user, public_id)
    words = request.GET.get("q", "")[:WORDS_LIMIT]
    context = {
        "conversation": conversation,
        "found": candidates(request.user, conversation, words),
        "may_manage": access.may_manage(request.user, conversation),
    }
    return render(request, "mentions/_found.html", context)
