"""What is done to single turns: send, edit, try again, switch between siblings, copy."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access
from chat.actions import conversations as verbs
from chat.actions.errors import ActionRefused
from chat.actions.files import read_pictures, shows
from chat.models import Conversation, Message, Role, Run, Upstream
from chat.models.prepared import Prepared
from chat.models.run import LIVE_STATUSES
from chat.views import room
from chat.views.forms import KeyForm, SendForm, WordsForm
from chat.views.gate import signed_in
from chat.views.listing import listing_context
from chat.views.source import source_of


@signed_in
@require_POST
def send(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id, for_write=True)
    form = SendForm(request.POST, upstreams=upstreams_of_choice(request, conversation))
    if not form.is_valid():
        return room.refused(request, conversation, form.first_error(), status=422)
    said = form.cleaned_data
    try:
        pictures = read_pictures(request.FILES.getlist("pictures"))
        run = verbs.send_message(
            request.user,
            conversation,
            parent=_parent(conversation, said["parent"]),
            text=said["text"],
            choice=form.model_choice(),
            idempotency_key=said["key"],
            pictures=pictures,
            # Only a page that shows the conversation names what it writes below.
            is_last=said["parent"] is not None,
        )
    except ActionRefused as refusal:
        return room.refused(request, conversation, str(refusal), status=room.status_of(refusal))
    if run.is_repeated and not (
        room.says(run, said["text"], within=conversation) and shows(run, pictures)
    ):
        return room.refused(request, conversation, room.SAID_OTHERWISE, status=409, new_key=True)
    return room.sent(request, conversation, run, has_pictures=bool(pictures))


def upstreams_of_choice(request: HttpRequest, conversation: Conversation) -> list[Upstream]:
    """The server that a posted choice names, where the person may send to it: whoever only reads
    the form needs no other. Most often it is the one that the conversation had before."""
    identity = request.POST.get("choice", "").partition(":")[0]
    known = conversation.upstream
    try:
        return [access.get_usable_upstream(request.user, UUID(identity), known=known)]
    except (ValueError, Http404):
        return []


def _parent(conversation: Conversation, public_id: UUID | None) -> Message | None:
    if public_id is None:
        return None
    parent = _message_of.first(room=conversation.pk, public_id=public_id)
    if parent is None:
        raise ActionRefused("This message has no place in the conversation. Reload the page.")
    return parent


_message_of = Prepared(
    lambda room, public_id: Message.objects.filter(conversation=room, public_id=public_id).annotate(
        is_live=Exists(Run.objects.filter(message=OuterRef("pk"), status__in=LIVE_STATUSES)),
        is_last=~Exists(Message.objects.filter(parent=OuterRef("pk"))),
    )
)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, public_id: UUID) -> HttpResponse:
    message = access.get_message(request.user, public_id, for_write=True)
    if request.method != "POST":
        return _edit_form(request, message)
    words = WordsForm(request.POST)
    choice = room.remembered_choice(request.user, message.conversation, request.POST)
    if not (words.is_valid() and choice.is_valid()):
        return _edit_refused(request, message, words.first_error() or choice.first_error(), 422)
    text = words.cleaned_data["text"]
    try:
        run = verbs.edit_message(
            request.user,
            message,
            text=text,
            choice=choice.model_choice(),
            idempotency_key=words.cleaned_data["key"],
        )
    except ActionRefused as refusal:
        return _edit_refused(request, message, str(refusal), room.status_of(refusal))
    if not (room.says(run, text, within=message.conversation) and _stands_beside(run, message)):
        return _edit_refused(request, message, room.SAID_OTHERWISE, 409)
    return room.accepted(request, message.conversation)


def _stands_beside(run: Run, message: Message) -> bool:
    """Whether what the run answers is a version of this message."""
    question = run.message.parent
    return question is not None and question.parent_id == message.parent_id


def _edit_form(request: HttpRequest, message: Message) -> HttpResponse:
    """The form in place of the words, the words again (``?cancel``), or a page of its own."""
    context = {"message": message, "conversation": message.conversation, "key": uuid.uuid4()}
    if not request.htmx:
        return _edit_page(request, context)
    return render(
        request,
        "conversations/_words.html" if "cancel" in request.GET else "conversations/_edit.html",
        context,
    )


def _edit_page(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    context |= listing_context(request.user, context["conversation"])
    return render(request, "conversations/edit.html", context, status=status)


def _edit_refused(
    request: HttpRequest, message: Message, refusal: str, status: int
) -> HttpResponse:
    if request.htmx:
        place = f"e{message.public_id.hex}"
        return room.refusal_patch(request, refusal, status=status, place=place)
    context = {
        "message": message,
        "conversation": message.conversation,
        "key": uuid.uuid4(),
        "draft": request.POST.get("text", ""),
        "refusal": refusal,
    }
    return _edit_page(request, context, status)


@signed_in
@require_POST
def retry(request: HttpRequest, public_id: UUID) -> HttpResponse:
    answer = access.get_message(request.user, public_id, for_write=True)
    form = KeyForm(request.POST)
    choice = room.remembered_choice(request.user, answer.conversation, request.POST)
    if not (form.is_valid() and choice.is_valid()):
        refusal = form.first_error() or choice.first_error()
        return room.refused(request, answer.conversation, refusal, status=422)
    try:
        run = verbs.retry(
            request.user,
            answer,
            choice=choice.model_choice(),
            idempotency_key=form.cleaned_data["key"],
        )
    except ActionRefused as refused:
        status = room.status_of(refused)
        return room.refused(request, answer.conversation, str(refused), status=status)
    if run.message.parent_id != answer.parent_id:
        sentence = "Nothing was tried again: reload the page, then try once more."
        return room.refused(request, answer.conversation, sentence, status=409)
    return room.accepted(request, answer.conversation)


@signed_in
@require_POST
def show(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Which sibling this person looks at; their own affair, so readers may do it too."""
    message = access.get_message(request.user, public_id)
    verbs.choose_branch(request.user, message)
    return room.accepted(request, message.conversation)


@signed_in
@require_GET
def find(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """From a link to a turn, or to what is in it, to its page. It may stand in a branch that this
    person does not look at; then they do from here on. Which one is their own affair, and nobody
    else's page changes, so a link may do that. The browser keeps what stands behind ``#``."""
    message = access.get_message(request.user, public_id)
    verbs.choose_path(request.user, message)
    return redirect("conversation", message.conversation.public_id)


@signed_in
@require_GET
def source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The turn as Markdown, so far."""
    message = access.get_message(request.user, public_id)
    text = message.text if message.role == Role.USER else source_of(message)
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
