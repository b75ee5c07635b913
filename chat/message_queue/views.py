"""Views of queued messages: edit, remove, send now."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from chat import access
from chat.conversations import page
from chat.core.errors import ActionRefused, InvalidForm
from chat.message_queue import actions
from chat.message_queue.forms import QueuedTextForm
from chat.message_queue.shown import read_shown_queue
from chat.models import Conversation, QueuedMessage
from chat.web.decorators import login_required, post_action
from chat.web.responses import refusal_patch


@login_required
@require_GET
def queue(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The queue anew, such as after an edit that was canceled."""
    return _shown(request, access.get_conversation(request.user, public_id))


def _refuse_edit(
    request: HttpRequest, queued: QueuedMessage, refusal: ActionRefused
) -> HttpResponse:
    status = refusal.status
    if request.htmx:
        place = f"qe{queued.public_id.hex}"
        return refusal_patch(request, str(refusal), status=status, place=place)
    context = {
        "queued": queued,
        "conversation": queued.conversation,
        "draft": request.POST.get("text", ""),
        "refusal": str(refusal),
    }
    return render(request, "message_queue/edit.html", context, status=status)


@post_action(access.get_own_queued_message, _refuse_edit, methods=("GET", "HEAD", "POST"))
def edit(request: HttpRequest, queued: QueuedMessage) -> HttpResponse:
    if request.method != "POST":
        template = "message_queue/_edit.html" if request.htmx else "message_queue/edit.html"
        context = {"queued": queued, "conversation": queued.conversation}
        return render(request, template, context)
    form = QueuedTextForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    actions.edit(queued, form.cleaned_data["text"])
    response = _shown(request, queued.conversation)
    # On this event the browser deletes its copy of the edited text.
    response["HX-Trigger"] = page.ACCEPTED
    return response


@post_action(access.get_removable_queued_message, page.refuse_beside())
def remove(request: HttpRequest, queued: QueuedMessage) -> HttpResponse:
    actions.remove(request.user, queued)
    return _shown(request, queued.conversation)


@post_action(access.get_queued_message, page.refuse_beside())
def send(request: HttpRequest, queued: QueuedMessage) -> HttpResponse:
    """Sends it before the others; an answer that runs is stopped for it."""
    actions.send_now(request.user, queued)
    return _shown(request, queued.conversation)


def _shown(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    if not request.htmx:
        return redirect("conversation", public_id=conversation.public_id)
    may_write = access.may_write(request.user, conversation)
    shown = read_shown_queue(request.user, conversation, may_write=may_write)
    context = {"queue": shown, "conversation": conversation}
    return render(request, "message_queue/_patch.html", context)
