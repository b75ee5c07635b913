"""Views of questions: claim, answer, decline, submit a tool's result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from chat import access
from chat.conversations import page
from chat.conversations.page_parts import PageCard
from chat.core.errors import ActionRefused, InvalidForm
from chat.models import Question, QuestionKind, Run, User
from chat.questions import actions
from chat.questions.forms import FORMS, AnswerForm, ReasonForm, ReplyForm, ResultForm
from chat.questions.question_cards import QuestionCard
from chat.questions.replies import accepted_reply, is_in_inbox, refused_reply
from chat.web.decorators import post_action


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedForm:
    """A reply that was refused, for a page without scripts. ``form`` has what was typed."""

    question: Question
    refusal: str
    form: ReplyForm | None = None

    def put_into(self, cards: Iterable[PageCard]) -> None:
        for asked in cards:
            if not isinstance(asked, QuestionCard) or asked.question.pk != self.question.pk:
                continue
            asked.refusal = self.refusal
            if isinstance(self.form, FORMS[asked.question.kind]) and asked.is_open:
                asked.form = self.form


def refuse_on_card(
    request: HttpRequest, question: Question, refusal: ActionRefused
) -> HttpResponse:
    form = refusal.form if isinstance(refusal, InvalidForm) else None
    refused = RefusedForm(
        question=question,
        refusal=str(refusal),
        form=form if isinstance(form, ReplyForm) else None,
    )
    return refused_reply(request, question, refusal, refused)


def refuse_beside_rest(request: HttpRequest, run: Run, refusal: ActionRefused) -> HttpResponse:
    if is_in_inbox(request):
        messages.error(request, str(refusal))
        return _reload_inbox()
    return page.refuse_beside(f"rest-note-{run.public_id.hex}")(request, run, refusal)


question_action = post_action(partial(access.get_question, for_write=True), refuse_on_card)


@question_action
def claim(request: HttpRequest, question: Question) -> HttpResponse:
    """Reserves the question for this user, or takes over an expired claim."""
    actions.claim(request.user, question)
    return accepted_reply(request, question)


@question_action
def release(request: HttpRequest, question: Question) -> HttpResponse:
    actions.release(request.user, question)
    return accepted_reply(request, question)


@question_action
def answer(request: HttpRequest, question: Question) -> HttpResponse:
    """The answer to a question, an approval, or the result of a tool."""
    form_class, settle = _ANSWERS[question.kind]
    return _settle(request, question, form_class(request.POST, question=question), settle)


@question_action
def refuse(request: HttpRequest, question: Question) -> HttpResponse:
    return _settle(request, question, ReasonForm(request.POST, question=question), _refuse)


@post_action(partial(access.get_run, for_write=True), refuse_beside_rest)
def go_on(request: HttpRequest, run: Run) -> HttpResponse:
    """Continues the answer; whatever is still open stays unanswered."""
    actions.go_on_without(request.user, run)
    if is_in_inbox(request):
        messages.success(request, gettext("Skipped. The answer continues."))
        return _reload_inbox()
    return page.accepted(request, run.conversation)


Settle = Callable[[User, Question, ReplyForm], Run | None]


def _settle(
    request: HttpRequest, question: Question, form: ReplyForm, settle: Settle
) -> HttpResponse:
    if not form.is_valid():
        raise InvalidForm(form.first_error(), form)
    try:
        settle(request.user, question, form)
    except ActionRefused as refusal:
        # A page without scripts shows the typed text again.
        again = InvalidForm(str(refusal), form)
        again.status = refusal.status
        raise again from refusal
    return accepted_reply(request, question)


# --- the page that the card is on ------------------------------------------------------------


def _reload_inbox() -> HttpResponse:
    """Reloads the whole inbox, because several of its lines may have been skipped."""
    return HttpResponse(headers={"HX-Refresh": "true"})


def _answer(user: User, question: Question, form: ReplyForm) -> Run | None:
    assert isinstance(form, AnswerForm)
    return actions.answer(user, question, **form.reply())


def _allow(user: User, question: Question, form: ReplyForm) -> Run | None:
    return actions.approve(user, question, is_approved=True, reason=form.cleaned_data["reason"])


def _give(user: User, question: Question, form: ReplyForm) -> Run | None:
    said = form.cleaned_data
    return actions.give_result(user, question, said["output"], is_error=said["is_error"])


def _refuse(user: User, question: Question, form: ReplyForm) -> Run | None:
    return actions.refuse(user, question, form.cleaned_data["reason"])


_ANSWERS: dict[str, tuple[type[ReplyForm], Settle]] = {
    QuestionKind.ASK: (AnswerForm, _answer),
    QuestionKind.APPROVAL: (ReasonForm, _allow),
    QuestionKind.TOOL: (ResultForm, _give),
}
