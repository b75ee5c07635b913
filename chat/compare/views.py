"""Views of comparisons: the answers side by side, the choice among them, and their stop."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from chat import access
from chat.compare import actions
from chat.conversations import page
from chat.conversations.paths import read_path
from chat.conversations.transcript import read_compared
from chat.core.errors import ActionRefused
from chat.models import ComparedAnswer, Comparison
from chat.web.decorators import frames_previews, login_required, post_action


@login_required
@require_GET
@frames_previews
def comparison(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The page with all answers of a comparison, also those that nobody went on with."""
    found = access.get_comparison(request.user, public_id)
    path = read_path(request.user, found.conversation)
    question, shown = read_compared(path, found)
    context = {
        "conversation": found.conversation,
        "comparison": found,
        "question": question,
        "shown": shown,
        "may_write": False,
        "may_fork": False,
    }
    return render(request, "compare/comparison.html", context)


def _refuse(request: HttpRequest, compared: ComparedAnswer, refusal: ActionRefused) -> HttpResponse:
    return page.refused(request, compared.answer.conversation, str(refusal), status=refusal.status)


@post_action(access.get_compared_answer, _refuse)
def choose(request: HttpRequest, compared: ComparedAnswer) -> HttpResponse:
    actions.choose(request.user, compared)
    return page.accepted(request, compared.answer.conversation)


def _refuse_stop(
    request: HttpRequest, comparison: Comparison, refusal: ActionRefused
) -> HttpResponse:
    return page.refused(request, comparison.conversation, str(refusal), status=refusal.status)


@post_action(partial(access.get_comparison, for_write=True), _refuse_stop)
def stop(request: HttpRequest, comparison: Comparison) -> HttpResponse:
    """The page receives the ends of the answers over its live connection, as all pages do."""
    was_live = actions.stop(request.user, comparison)
    if not request.htmx:
        return redirect("conversation", public_id=comparison.conversation.public_id)
    return HttpResponse(status=204, headers={} if was_live else {"HX-Trigger": page.CHANGED})
