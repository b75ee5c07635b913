"""Views of what models are sent: the panel beside a conversation, and the choices in it."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from chat import access
from chat.context import actions
from chat.context.forms import StartForm, SummaryForm
from chat.context.reading import chosen_model, read_context
from chat.conversations import composer, page
from chat.core.errors import ActionRefused, InvalidForm
from chat.models import Conversation, Message, Role, User
from chat.web.decorators import login_required, login_required_in_background, post_action
from chat.web.responses import beside_room

REFUSAL_PLACE = "context-refusal"


@login_required
@require_safe
def context(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The panel. With ``?propose`` it proposes which turns to leave out."""
    conversation = access.get_conversation(request.user, public_id)
    return beside_room(request, "context/context.html", conversation, _panel(request, conversation))


def _panel(request: HttpRequest, conversation: Conversation) -> dict[str, Any]:
    user = cast(User, request.user)
    sent = read_context(user, conversation)
    model = chosen_model(user, conversation, _choice_in(request))
    may_write = access.may_write(user, conversation)
    is_proposal = "propose" in request.GET
    first = max(sent.first, sent.proposal(model.window)) if is_proposal else sent.first
    return {
        "conversation": conversation,
        "sent": sent,
        "model": model,
        # The numbers of the first turn that is sent, of the selected one, and of those that are not listed.
        "first": sent.first + 1,
        "checked": first + 1,
        "unlisted": len(sent.turns) - len(sent.listed),
        "is_proposal": is_proposal and first > sent.first,
        "is_over": model.window is not None and sent.tokens > model.window,
        "may_write": may_write,
        # A single message has nothing above it that could be left out.
        "may_choose": may_write and sum(turn.is_person for turn in sent.turns) > 1,
        "parent": _parent(sent.turns[-1].hex) if sent.turns else "",
        "key": uuid.uuid4(),
    }


def _parent(hex_id: str) -> str:
    """The message below which a request for a summary goes, which is an answer."""
    rows = Message.objects.filter(public_id=hex_id, role=Role.ASSISTANT)
    return hex_id if rows.exists() else ""


def _choice_in(request: HttpRequest) -> str:
    return (request.POST.get("choice") or request.GET.get("choice", ""))[:300]


@login_required_in_background
@require_safe
def size(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """An estimate of the tokens of the next request, for the gauge of a page whose server counts none."""
    conversation = access.get_conversation(request.user, public_id)
    sent = read_context(cast(User, request.user), conversation)
    return JsonResponse({"tokens": sent.estimated})


@login_required_in_background
@require_safe
def limit_note(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The note above the composer, with what can be done about a conversation that the model can't read."""
    conversation = access.get_conversation(request.user, public_id, for_write=True)
    model = chosen_model(cast(User, request.user), conversation, _choice_in(request))
    return render(request, "context/_note.html", {"conversation": conversation, "model": model})


@post_action(partial(access.get_conversation, for_write=True), page.refuse_beside(REFUSAL_PLACE))
def start(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    form = StartForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    user = cast(User, request.user)
    if (chosen := form.cleaned_data["start"]) is None:
        actions.include_all(user, conversation)
    else:
        message = access.get_message(user, chosen, for_write=True)
        if message.conversation_id != conversation.pk:
            raise ActionRefused(
                gettext("This message isn’t in this conversation. Reload the page.")
            )
        actions.leave_out_above(user, message)
    return _done(request, conversation)


@post_action(partial(access.get_conversation, for_write=True), page.refuse_beside(REFUSAL_PLACE))
def summary(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    user = cast(User, request.user)
    form = SummaryForm(request.POST)
    choice = composer.remembered_choice(user, conversation, request.POST)
    if not (form.is_valid() and choice.is_valid()):
        raise InvalidForm(form.first_error() or choice.first_error())
    actions.ask_for_summary(
        user,
        conversation,
        parent=form.cleaned_data["parent"],
        choice=choice.model_choice(),
        idempotency_key=form.cleaned_data["key"],
    )
    return page.accepted(request, conversation)


def _done(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Patches of the conversation's page, and the panel as it is now."""
    if not request.htmx:
        return redirect("conversation", public_id=conversation.public_id)
    conversation = access.get_conversation(request.user, conversation.public_id)
    response = page.changes(request, conversation)
    context = {**_panel(request, conversation), "in_panel": True}
    response.content += render_to_string("context/_patch.html", context, request).encode()
    return response
