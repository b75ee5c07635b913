"""Views of single turns: send, edit, try again, switch versions, stop, copy."""

from __future__ import annotations

import uuid
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import access, events
from chat.conversations import composer, page
from chat.conversations.actions import conversation
from chat.conversations.actions import messages as verbs
from chat.conversations.forms import KeyForm, SendForm, WordsForm
from chat.core.errors import ActionRefused, storage_errors
from chat.core.prepared import Prepared
from chat.events import Result
from chat.files.actions import read_pictures, shows
from chat.live.snapshot import render_part
from chat.models import Conversation, Message, Role, Run, Upstream
from chat.models.run import LIVE_STATUSES
from chat.result import fold, plain_text
from chat.result.merge import merge
from chat.runs.segments import read_events
from chat.web import responses
from chat.web.decorators import login_required


def source_of(answer: Message) -> str:
    """The text of all its runs as one answer; of a live one what is there so far."""
    runs = Run.objects.filter(message=answer).order_by("position")
    results = [_result_of(run) for run in runs]
    return plain_text(merge(results)) if results else ""


def _result_of(run: Run) -> Result:
    return events.decode_result(run.result) if run.result else fold(read_events(run))


# What is done to single turns: send, edit, try again, switch between siblings, copy.


@login_required
@require_POST
def send(request: HttpRequest, public_id: UUID) -> HttpResponse:
    conversation = access.get_conversation(request.user, public_id, for_write=True)
    form = SendForm(request.POST, upstreams=upstreams_of_choice(request, conversation))
    if not form.is_valid():
        return page.refused(request, conversation, form.first_error(), status=422)
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
        return page.refused(
            request, conversation, str(refusal), status=responses.status_of(refusal)
        )
    if run.is_repeated and not (
        page.says(run, said["text"], within=conversation) and shows(run, pictures)
    ):
        return page.refused(request, conversation, page.SAID_OTHERWISE, status=409, new_key=True)
    return page.sent(request, conversation, run, has_pictures=bool(pictures))


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


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, public_id: UUID) -> HttpResponse:
    message = access.get_message(request.user, public_id, for_write=True)
    if request.method != "POST":
        return _edit_form(request, message)
    words = WordsForm(request.POST)
    choice = composer.remembered_choice(request.user, message.conversation, request.POST)
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
        return _edit_refused(request, message, str(refusal), responses.status_of(refusal))
    if not (page.says(run, text, within=message.conversation) and _stands_beside(run, message)):
        return _edit_refused(request, message, page.SAID_OTHERWISE, 409)
    return page.accepted(request, message.conversation)


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
    return render(request, "conversations/edit.html", context, status=status)


def _edit_refused(
    request: HttpRequest, message: Message, refusal: str, status: int
) -> HttpResponse:
    if request.htmx:
        place = f"e{message.public_id.hex}"
        return responses.refusal_patch(request, refusal, status=status, place=place)
    context = {
        "message": message,
        "conversation": message.conversation,
        "key": uuid.uuid4(),
        "draft": request.POST.get("text", ""),
        "refusal": refusal,
    }
    return _edit_page(request, context, status)


@login_required
@require_POST
def retry(request: HttpRequest, public_id: UUID) -> HttpResponse:
    answer = access.get_message(request.user, public_id, for_write=True)
    form = KeyForm(request.POST)
    choice = composer.remembered_choice(request.user, answer.conversation, request.POST)
    if not (form.is_valid() and choice.is_valid()):
        refusal = form.first_error() or choice.first_error()
        return page.refused(request, answer.conversation, refusal, status=422)
    try:
        run = verbs.retry(
            request.user,
            answer,
            choice=choice.model_choice(),
            idempotency_key=form.cleaned_data["key"],
        )
    except ActionRefused as refused:
        status = responses.status_of(refused)
        return page.refused(request, answer.conversation, str(refused), status=status)
    if run.message.parent_id != answer.parent_id:
        sentence = "Nothing was tried again: reload the page, then try once more."
        return page.refused(request, answer.conversation, sentence, status=409)
    return page.accepted(request, answer.conversation)


@login_required
@require_POST
def show(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Which sibling this person looks at; their own affair, so readers may do it too."""
    message = access.get_message(request.user, public_id)
    verbs.choose_branch(request.user, message)
    return page.accepted(request, message.conversation)


@login_required
@require_GET
def find(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """From a link to a turn, or to what is in it, to its page. It may stand in a branch that this
    person does not look at; then they do from here on. Which one is their own affair, and nobody
    else's page changes, so a link may do that. The browser keeps what stands behind ``#``."""
    message = access.get_message(request.user, public_id)
    verbs.choose_path(request.user, message)
    return redirect("conversation", message.conversation.public_id)


@login_required
@require_GET
def source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The turn as Markdown, so far."""
    message = access.get_message(request.user, public_id)
    text = message.text if message.role == Role.USER else source_of(message)
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@login_required
@require_POST
def stop(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The page that asked shows the button as pressed by itself, and hears of the end by its live
    connection, as everybody's: nothing is made for it here, so that many can stop at once."""
    run = access.get_run(request.user, public_id, for_write=True)
    try:
        with storage_errors():
            was_live = conversation.stop_run(request.user, run)
    except ActionRefused as refusal:
        status = responses.status_of(refusal)
        return page.refused(request, run.conversation, str(refusal), status=status)
    if not request.htmx:
        return redirect("conversation", public_id=run.conversation.public_id)
    # Over already: the page does not know that yet, and fetches what it lacks.
    return HttpResponse(status=204, headers={} if was_live else {"HX-Trigger": page.CHANGED})


@login_required
@require_GET
def part(request: HttpRequest, public_id: UUID, part_id: str) -> HttpResponse:
    """What a fold of an answer holds, for a page whose reader has opened it."""
    run = access.get_run(request.user, public_id)
    html = render_part(run, part_id)
    if html is None:
        raise Http404(access.NOT_HERE)
    return HttpResponse(html)


@login_required
@require_GET
def text(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The answer as a Markdown file, so far."""
    run = access.get_run(request.user, public_id)
    response = HttpResponse(source_of(run.message), content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="answer.md"'
    return response
