"""Views of questions: claim, answer, decline, submit a tool's result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from chat import access
from chat.conversations import page
from chat.conversations.page_parts import Card
from chat.core.errors import ActionRefused
from chat.models import Question, QuestionKind, Run, User
from chat.questions import actions as verbs
from chat.questions.forms import FORMS, AnswerForm, ReasonForm, ReplyForm, ResultForm
from chat.questions.question_cards import QuestionCard
from chat.web import responses
from chat.web.decorators import login_required


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedForm:
    """A reply that was not taken, for a page without scripts. ``form`` is what was typed."""

    question: Question
    refusal: str
    form: ReplyForm | None = None

    def put_into(self, cards: Iterable[Card]) -> None:
        for asked in cards:
            if not isinstance(asked, QuestionCard) or asked.question.pk != self.question.pk:
                continue
            asked.refusal = self.refusal
            if isinstance(self.form, FORMS[asked.question.kind]) and asked.is_open:
                asked.form = self.form


# Settling what an answer waits for: who is at it, what they say, and going on without it.


@login_required
@require_POST
def claim(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """I'll answer this; or, where somebody left it lying, I take it over."""
    question = access.get_question(request.user, public_id, for_write=True)
    try:
        verbs.claim(request.user, question)
    except ActionRefused as refusal:
        return _refused(request, question, str(refusal), responses.status_of(refusal))
    return page.accepted(request, question.conversation, asked=question)


@login_required
@require_POST
def release(request: HttpRequest, public_id: UUID) -> HttpResponse:
    question = access.get_question(request.user, public_id, for_write=True)
    try:
        verbs.release(request.user, question)
    except ActionRefused as refusal:
        return _refused(request, question, str(refusal), responses.status_of(refusal))
    return page.accepted(request, question.conversation, asked=question)


@login_required
@require_POST
def answer(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The answer to a question, leave to run something, or what a tool gave."""
    question = access.get_question(request.user, public_id, for_write=True)
    form_class, settle = _ANSWERS[question.kind]
    return _settle(request, question, form_class(request.POST, question=question), settle)


@login_required
@require_POST
def refuse(request: HttpRequest, public_id: UUID) -> HttpResponse:
    question = access.get_question(request.user, public_id, for_write=True)
    return _settle(request, question, ReasonForm(request.POST, question=question), _refuse)


@login_required
@require_POST
def go_on(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Whatever is still open stays unanswered."""
    run = access.get_run(request.user, public_id, for_write=True)
    try:
        verbs.go_on_without(request.user, run)
    except ActionRefused as refusal:
        place, status = f"rest-note-{run.public_id.hex}", responses.status_of(refusal)
        return page.refused(request, run.conversation, str(refusal), status=status, place=place)
    return page.accepted(request, run.conversation)


# --- steps -------------------------------------------------------------------------------

Settle = Callable[[User, Question, ReplyForm], Run | None]


def _settle(
    request: HttpRequest, question: Question, form: ReplyForm, settle: Settle
) -> HttpResponse:
    if not form.is_valid():
        return _refused(request, question, form.first_error(), 422, form)
    try:
        settle(request.user, question, form)
    except ActionRefused as refusal:
        return _refused(request, question, str(refusal), responses.status_of(refusal), form)
    return page.accepted(request, question.conversation, asked=question)


def _refused(
    request: HttpRequest,
    question: Question,
    refusal: str,
    status: int,
    form: ReplyForm | None = None,
) -> HttpResponse:
    """A sentence on the card; without scripts the page again, with what was typed."""
    if request.htmx:
        place = f"ask-note-{question.public_id.hex}"
        return responses.refusal_patch(request, refusal, status=status, place=place)
    return page.room_page(
        request,
        question.conversation,
        status=status,
        amend=RefusedForm(question=question, refusal=refusal, form=form),
    )


def _answer(user: User, question: Question, form: ReplyForm) -> Run | None:
    assert isinstance(form, AnswerForm)
    return verbs.answer(user, question, **form.reply())


def _allow(user: User, question: Question, form: ReplyForm) -> Run | None:
    return verbs.approve(user, question, is_approved=True, reason=form.cleaned_data["reason"])


def _give(user: User, question: Question, form: ReplyForm) -> Run | None:
    said = form.cleaned_data
    return verbs.give_result(user, question, said["output"], is_error=said["is_error"])


def _refuse(user: User, question: Question, form: ReplyForm) -> Run | None:
    return verbs.refuse(user, question, form.cleaned_data["reason"])


_ANSWERS: dict[str, tuple[type[ReplyForm], Settle]] = {
    QuestionKind.ASK: (AnswerForm, _answer),
    QuestionKind.APPROVAL: (ReasonForm, _allow),
    QuestionKind.TOOL: (ResultForm, _give),
}
