"""The view with which people answer what a tool asks in the middle of a call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from django.http import HttpRequest, HttpResponse

from chat import access
from chat.conversations.page_parts import PageCard
from chat.core.errors import ActionRefused, InvalidForm
from chat.core.text import as_uuid
from chat.models import ToolCall
from chat.questions import input_actions
from chat.questions.input_forms import InputForm
from chat.questions.replies import accepted_reply, refused_reply
from chat.questions.tool_call_cards import ToolCallCard
from chat.web.decorators import post_action


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedInput:
    """An answer that was refused, for a page without scripts. ``form`` has what was typed."""

    call: ToolCall
    refusal: str
    form: InputForm | None

    def put_into(self, cards: Iterable[PageCard]) -> None:
        for card in cards:
            if isinstance(card, ToolCallCard) and card.question.pk == self.call.question_id:
                card.refusal = self.refusal
                asked = card.input
                if self.form is not None and asked is not None and self.form.asked == asked.asked:
                    asked.refused = self.form


def refuse_on_card(request: HttpRequest, call: ToolCall, refusal: ActionRefused) -> HttpResponse:
    form = refusal.form if isinstance(refusal, InvalidForm) else None
    refused = RefusedInput(
        call=call, refusal=str(refusal), form=form if isinstance(form, InputForm) else None
    )
    return refused_reply(request, call.question, refusal, refused)


@post_action(partial(access.get_tool_call, for_write=True), refuse_on_card)
def answer_input(request: HttpRequest, call: ToolCall) -> HttpResponse:
    """Answers, declines or dismisses one request of the call."""
    asked = call.inputs.filter(public_id=as_uuid(request.POST.get("input"))).first()
    if asked is None:
        raise ActionRefused(str(input_actions.NOT_ASKED))
    form = InputForm(request.POST, asked=asked)
    if not form.is_valid():
        raise InvalidForm(form.first_error(), form)
    action = form.cleaned_data["action"]
    input_actions.answer(request.user, call, asked, action, form.content())
    return accepted_reply(request, call.question)
