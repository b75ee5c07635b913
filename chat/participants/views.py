"""The Share dialog: who has access to a conversation, and for its managers how to change that."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from chat import access
from chat.conversations import page as page_responses
from chat.core.errors import ActionRefused, InvalidForm
from chat.models import Conversation, Participant
from chat.participants import actions
from chat.participants.forms import RoleForm, ShareForm, VisibilityForm
from chat.participants.sharing import sharing_context
from chat.web.decorators import login_required, post_action
from chat.web.responses import beside_room

# Longer words name nobody.
WORDS_LIMIT = 100


@login_required
@require_safe
def people(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id)
    words = request.GET.get("q", "")[:WORDS_LIMIT]
    context = sharing_context(request.user, conversation, words)
    if request.htmx:
        return render(request, "participants/_sharing.html", {**context, "in_dialog": True})
    return beside_room(request, "participants/people.html", conversation, context)


@login_required
@require_safe
def search(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The people and groups that were searched, for the dialog."""
    conversation = access.get_managed_conversation(request.user, public_id)
    context = sharing_context(request.user, conversation, request.GET.get("q", "")[:WORDS_LIMIT])
    return render(request, "participants/_found.html", context)


refuse = page_responses.refuse_beside("sharing-note")


@post_action(access.get_managed_conversation, refuse)
def add(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    form = ShareForm(request.POST, conversation=conversation)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose a person or a group of the team."))
    values = form.cleaned_data
    actions.add_participant(request.user, conversation, values["who"], values["role"])
    return _shared(request, conversation)


@post_action(access.get_managed_conversation, refuse)
def visibility(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Shares the conversation with everyone, or makes it private."""
    form = VisibilityForm(request.POST, conversation=conversation)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose who can read this conversation."))
    chosen = form.values()
    if chosen != (conversation.visibility, conversation.shared_role):
        actions.set_visibility(request.user, conversation, *chosen)
    return _shared(request, conversation)


@post_action(access.get_managed_conversation, refuse)
def settings_shown(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """Sets whether readers see the system prompts, parameters and tools, too."""
    are_shown = bool(request.POST.get("shown"))
    actions.set_settings_shown(request.user, conversation, are_shown=are_shown)
    return _shared(request, conversation)


@post_action(access.get_participant, refuse)
def change(request: HttpRequest, participant: Participant) -> HttpResponse:
    """Another role for a participant, or their removal. Everybody may leave."""
    conversation = participant.conversation
    if "remove" in request.POST:
        actions.remove_participant(request.user, participant)
        return _shared(request, conversation)
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(gettext("Choose a role."))
    actions.set_role(request.user, participant, form.cleaned_data["role"])
    return _shared(request, conversation)


def _shared(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    """The dialog and the page after a change. A person who has ended their own access gets
    the start page."""
    try:
        now = access.get_conversation(request.user, conversation.public_id)
    except Http404:
        messages.success(request, gettext("You left the conversation."))
        return _to_start(request)
    if not request.htmx:
        return redirect("conversation_people", public_id=conversation.public_id)
    response = page_responses.accepted(request, now)
    context = {**sharing_context(request.user, now), "in_dialog": True}
    response.content += render(request, "participants/sharing_patch.html", context).content
    return response


def _to_start(request: HttpRequest) -> HttpResponse:
    if request.htmx:
        return HttpResponse(headers={"HX-Redirect": reverse("home")})
    return redirect("home")


def _to_groups(
    request: HttpRequest, conversation: Conversation, refusal: ActionRefused | None = None
) -> HttpResponse:
    if refusal is not None:
        messages.error(request, str(refusal))
    return redirect("groups", team_id=conversation.team.public_id)


@post_action(access.get_unmanaged_conversation, _to_groups)
def take_over(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    actions.take_over(request.user, conversation)
    messages.success(request, gettext("You now manage this conversation."))
    return redirect("conversation_people", public_id=conversation.public_id)
