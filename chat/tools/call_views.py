"""Views of decisions about calls that Tributary runs: approve, refuse, run again, give the result, go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from chat import access
from chat.conversations import page
from chat.conversations.page_parts import PageCard
from chat.core.errors import ActionRefused, InvalidForm
from chat.models import Conversation, Question, Tool, ToolCall
from chat.questions.replies import accepted_reply, refused_reply
from chat.questions.tool_call_cards import ToolCallCard
from chat.tools import calls
from chat.tools.call_forms import ApproveForm, CallResultForm, ChosenToolForm, RefuseForm
from chat.web.decorators import post_action
from chat.web.forms import Sentences

Form = TypeVar("Form", bound=Sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A decision that was refused, for a page without scripts. ``typed`` are the edited arguments."""

    question: Question
    refusal: str
    typed: str

    def put_into(self, cards: Iterable[PageCard]) -> None:
        for card in cards:
            if isinstance(card, ToolCallCard) and card.question.pk == self.question.pk:
                card.refusal = self.refusal
                card.typed = self.typed


def refuse_on_card(request: HttpRequest, call: ToolCall, refusal: ActionRefused) -> HttpResponse:
    typed = request.POST.get("arguments", "")
    refused = RefusedCall(question=call.question, refusal=str(refusal), typed=typed)
    return refused_reply(request, call.question, refusal, refused)


call_action = post_action(partial(access.get_tool_call, for_write=True), refuse_on_card)


@call_action
def approve(request: HttpRequest, call: ToolCall) -> HttpResponse:
    """Runs the call, with the arguments as somebody may have edited them; with *always*, further ones, too."""
    form = _valid(ApproveForm(request.POST))
    said, kept = form.cleaned_data, form.keeps_private
    arguments = None if said["arguments"] == call.arguments else said["arguments"]
    if said["always"]:
        calls.choose(request.user, call, is_allowed=True, arguments=arguments, keeps_private=kept)
    else:
        calls.approve(request.user, call, arguments, keeps_private=kept)
    return accepted_reply(request, call.question)


@call_action
def refuse(request: HttpRequest, call: ToolCall) -> HttpResponse:
    """Tells the model that the call isn't run, with the reason; with *never*, further ones neither."""
    said = _valid(RefuseForm(request.POST)).cleaned_data
    if said["never"]:
        calls.choose(request.user, call, is_allowed=False, reason=said["reason"])
    else:
        calls.refuse(request.user, call, said["reason"])
    return accepted_reply(request, call.question)


@call_action
def run_again(request: HttpRequest, call: ToolCall) -> HttpResponse:
    calls.run_again(request.user, call)
    return accepted_reply(request, call.question)


@call_action
def give_result(request: HttpRequest, call: ToolCall) -> HttpResponse:
    said = _valid(CallResultForm(request.POST)).cleaned_data
    calls.give_result(request.user, call, said["output"], is_error=said["is_error"])
    return accepted_reply(request, call.question)


@call_action
def go_on_without(request: HttpRequest, call: ToolCall) -> HttpResponse:
    calls.go_on_without(request.user, call)
    return accepted_reply(request, call.question)


@post_action(partial(access.get_conversation, for_write=True), page.refuse_beside("tools-note"))
def forget_choice(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Withdraws "always" or "never" for a tool. Anyone who writes in the conversation may have chosen it."""
    form = ChosenToolForm(request.POST)
    chosen = Tool.objects.filter(choices__conversation=conversation).distinct()
    if form.is_valid() and (
        tool := chosen.filter(public_id=form.cleaned_data["tool"])
        .select_related("team", "server")
        .first()
    ):
        calls.forget_choice(request.user, conversation, tool)
    return page.accepted(request, conversation)


def _valid(form: Form) -> Form:
    if not form.is_valid():
        raise InvalidForm(form.first_error(), form)
    return form
