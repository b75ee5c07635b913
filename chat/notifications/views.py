"""The inbox: questions of answers that this user may answer, and those that were answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from chat import access
from chat.models import Question, Run, User, Visibility
from chat.models.run import model_label
from chat.questions.question_cards import QuestionCard
from chat.web.decorators import login_required

# More than anybody answers in a day. The oldest come first, so that none is forgotten.
SHOWN_QUESTIONS = 100
SHOWN_ANSWERED = 30

FOR_YOU, TEAM, ANSWERED = "you", "team", "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A question, and where it comes from."""

    question: Question
    asked: QuestionCard
    # The open questions of the same run that are listed, this one included.
    open_count: int = 1

    @property
    def icon(self) -> str:
        if self.asked.is_tool:
            return "wrench"
        return "shield-check" if self.asked.is_approval else "hand"

    @property
    def model_label(self) -> str:
        return model_label(self.question.run)

    @property
    def is_private(self) -> bool:
        return self.question.conversation.visibility == Visibility.PRIVATE

    @property
    def age(self) -> str:
        """How long it waits, or since when it is answered, in the largest unit that fits."""
        since = self.question.answered_at or self.question.created_at
        if timezone.now() - since < timedelta(minutes=1):
            return gettext("Just now")
        return timesince(since, depth=1)

    # --- what `questions/_rest.html` shows ---

    @property
    def run(self) -> Run:
        return self.question.run

    @property
    def may_go_on(self) -> bool:
        return self.asked.is_open


@login_required
@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Opens at what waits for this user, or for the team if nothing else does."""
    user = request.user
    waiting = _lines(access.questions_for(user).order_by("created_at", "pk")[: SHOWN_QUESTIONS + 1])
    has_more = len(waiting) > SHOWN_QUESTIONS
    waiting = waiting[:SHOWN_QUESTIONS]
    for_you = [line for line in waiting if _is_for(user, line.question)]
    of_team = [line for line in waiting if not _is_for(user, line.question)]
    tab = request.GET.get("tab", "")
    if tab not in (FOR_YOU, TEAM, ANSWERED):
        tab = TEAM if of_team and not for_you else FOR_YOU
    if tab == ANSWERED:
        lines = _lines(access.answered_questions_for(user)[:SHOWN_ANSWERED])
    else:
        lines = of_team if tab == TEAM else for_you
    context = {
        "tab": tab,
        "lines": lines,
        "for_you": len(for_you),
        "of_team": len(of_team),
        "has_more": has_more and tab != ANSWERED,
        "may_write": True,
        "sidebar_page": "inbox",
    }
    return render(request, "notifications/inbox.html", context)


def _lines(questions: QuerySet[Question]) -> Sequence[Line]:
    found = list(
        questions.select_related(
            *("conversation__team", "claimed_by", "answered_by", "run__message"),
            *("run__requested_by", "run__upstream"),
        ).defer("run__result")
    )
    of_run = Counter(question.run_id for question in found)
    return [
        Line(
            question=question,
            asked=QuestionCard(question=question),
            open_count=of_run[question.run_id],
        )
        for question in found
    ]


def _is_for(user: User, question: Question) -> bool:
    """Whether the answer was asked for by this user, or they answer the question already."""
    is_claimed = QuestionCard(question=question).claimer == user
    return is_claimed or user.pk in (question.run.requested_by_id, question.conversation.owner_id)
