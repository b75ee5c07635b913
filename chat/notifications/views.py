"""The inbox: questions of answers that this user may answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from chat import access
from chat.models import Question
from chat.questions.question_cards import QuestionCard
from chat.web.decorators import login_required

# More than anybody answers in a day. The oldest come first, so that none is forgotten.
SHOWN_QUESTIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A question, and where it is answered."""

    question: Question
    asked: QuestionCard

    @property
    def icon(self) -> str:
        if self.asked.is_tool:
            return "wrench"
        return "shield-check" if self.asked.is_approval else "hand"

    @property
    def since(self) -> str:
        """How long it waits, in the largest unit that fits."""
        if timezone.now() - self.question.created_at < timedelta(minutes=1):
            return gettext("Just now")
        return timesince(self.question.created_at, depth=1)


@login_required
@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    questions = list(
        access.questions_for(request.user)
        .select_related("conversation__team", "claimed_by", "run__message")
        .defer("run__result")
        .order_by("created_at", "pk")[: SHOWN_QUESTIONS + 1]
    )
    shown = questions[:SHOWN_QUESTIONS]
    context = {
        "waiting": [Waiting(question=each, asked=QuestionCard(question=each)) for each in shown],
        "has_more": len(questions) > len(shown),
        "is_inbox": True,
    }
    return render(request, "notifications/inbox.html", context)
