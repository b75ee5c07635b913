"""The inbox: what waits for this user, what they have not read, and the questions of their teams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import BooleanField, ExpressionWrapper, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.inbox.channel import version_of
from chat.inbox.entries import Entry, entries_of, mark_all_read
from chat.inbox.forms import NotificationForm, muted_kinds, notified_kinds
from chat.models import Question, Run, User
from chat.models.run import model_label
from chat.questions.card_reading import cards_of, with_calls
from chat.questions.question_cards import QuestionCard
from chat.web.decorators import login_required

# The inbox shows this many, the oldest first, so that none is forgotten.
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
        if self.asked.tool_call is not None:
            return "shield-check"
        if self.asked.is_tool:
            return "wrench"
        return "shield-check" if self.asked.is_approval else "hand"

    @property
    def model_label(self) -> str:
        return model_label(self.question.run)

    @property
    def is_private(self) -> bool:
        return not self.question.is_seen_by_others

    @property
    def age(self) -> str:
        """How long it waits, or since when it is answered."""
        return _age(self.question.answered_at or self.question.created_at)

    # --- what `questions/_rest.html` shows ---

    @property
    def run(self) -> Run:
        return self.question.run

    @property
    def may_skip(self) -> bool:
        return self.open_count > 1 or not self.asked.has_own_way_on

    @property
    def may_go_on(self) -> bool:
        return self.asked.is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLine:
    """An entry that is a link."""

    entry: Entry

    @property
    def words(self) -> str:
        return str(self.entry.source.line) % {"person": self.entry.actor or gettext("Somebody")}

    @property
    def detail(self) -> str:
        return self.entry.source.words(self.entry.detail)

    @property
    def age(self) -> str:
        return _age(self.entry.at)


@login_required
@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Opens at what waits for this user, or for the team if nothing else does. A page that is open asks for
    its lists again; it keeps the questions (``keep``) while somebody answers one."""
    context = _context(request.user, request.GET.get("tab", ""))
    if request.htmx:
        return _patches(request, context, keeps_questions="keep" in request.GET)
    return render(request, "inbox/inbox.html", context)


@login_required
@require_POST
def mark_read(request: HttpRequest) -> HttpResponse:
    mark_all_read(request.user)
    if not request.htmx:
        return redirect("inbox")
    context = _context(request.user, FOR_YOU)
    return _patches(request, context, keeps_questions=bool(context["questions"]))


@login_required
@require_POST
def notifications(request: HttpRequest) -> HttpResponse:
    """Sets of which kinds the browser notifies this person."""
    form = NotificationForm(request.POST)
    if form.is_valid():
        User.objects.filter(pk=request.user.pk).update(muted_kinds=form.muted_kinds())
        messages.success(request, gettext("Notifications saved."))
    return redirect("inbox")


def _patches(
    request: HttpRequest, context: Mapping[str, Any], *, keeps_questions: bool
) -> HttpResponse:
    return render(request, "inbox/patches.html", {**context, "keeps_questions": keeps_questions})


def _context(user: User, tab: str) -> dict[str, Any]:
    entries = entries_of(user)
    lines = [EntryLine(entry=each) for each in entries if each.source.is_read_by_reading]
    is_for_user = ExpressionWrapper(access.addressed_to(user), BooleanField())
    questions = access.questions_for(user).annotate(is_for_user=is_for_user)
    waiting = _lines(questions.order_by("created_at", "pk")[: SHOWN_QUESTIONS + 1])
    has_more = len(waiting) > SHOWN_QUESTIONS
    waiting = waiting[:SHOWN_QUESTIONS]
    for_you = [line for line in waiting if line.question.is_for_user]
    of_team = [line for line in waiting if not line.question.is_for_user]
    if tab not in (FOR_YOU, TEAM, ANSWERED):
        tab = TEAM if of_team and not for_you and not lines else FOR_YOU
    if tab == ANSWERED:
        shown = _lines(access.answered_questions_for(user)[:SHOWN_ANSWERED])
    else:
        shown = of_team if tab == TEAM else for_you
    return {
        "tab": tab,
        "questions": shown,
        "lines": lines if tab == FOR_YOU else [],
        "for_you": len(for_you) + len(lines),
        "of_team": len(of_team),
        "has_more": has_more and tab != ANSWERED,
        "version": version_of(entries),
        "notification_form": NotificationForm(
            initial={
                "kinds": [kind for kind, _ in notified_kinds() if kind not in muted_kinds(user)]
            }
        ),
        "may_write": True,
        "sidebar_page": "inbox",
    }


def _age(since: datetime) -> str:
    """In the largest unit that fits."""
    if timezone.now() - since < timedelta(minutes=1):
        return gettext("Just now")
    return gettext("%(duration)s ago") % {"duration": timesince(since, depth=1)}


def _lines(questions: QuerySet[Question]) -> Sequence[Line]:
    found = list(
        with_calls(access.with_audience(questions))
        .select_related(
            *("conversation__team", "claimed_by", "answered_by", "run__message"),
            *("run__requested_by", "run__upstream"),
        )
        .defer("run__result")
    )
    of_run = Counter(question.run_id for question in found)
    return [
        Line(
            question=question,
            asked=card,
            open_count=of_run[question.run_id],
        )
        for question, card in zip(found, cards_of(found), strict=True)
    ]
