"""Views of single turns: send, edit, try again, switch versions, stop, copy."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from chat import access
from chat.conversations import composer, page
from chat.conversations.actions import conversation as conversation_actions
from chat.conversations.actions import messages as message_actions
from chat.conversations.answer_text import source_of
from chat.conversations.forms import KeyForm, SendForm, WordsForm
from chat.conversations.page_parts import enqueue_message
from chat.conversations.paths import read_path
from chat.conversations.preset_choice import with_preset, without_scripts
from chat.conversations.transcript import last_page, page_around
from chat.core.errors import (
    ActionRefused,
    AnswerLive,
    InvalidForm,
    KeyReused,
    Overtaken,
    storage_errors,
)
from chat.files.actions import shows
from chat.live.snapshot import render_part
from chat.models import Conversation, Message, Role, Run, Upstream, User
from chat.web.decorators import login_required, post_action
from chat.web.posts import note_begun
from chat.web.responses import refusal_patch


@post_action(partial(access.get_conversation, for_write=True), page.refuse_beside())
def send(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    data = without_scripts(request.user, request.POST, [conversation.team])
    form = SendForm(data, upstreams=upstreams_of_choice(request.user, data, conversation))
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    said = form.cleaned_data
    # Only pages that show the conversation send the answer above.
    parent = message_actions.parent_in(
        request.user, conversation, said["parent"], idempotency_key=said["key"]
    )
    words: dict[str, Any] = {
        "text": said["text"],
        "choice": with_preset(request.user, form.model_choice(), data, conversation),
        "idempotency_key": said["key"],
        "attachments": form.files_at(conversation.public_id.hex),
    }
    try:
        run = message_actions.send_message(
            request.user,
            conversation,
            parent=parent.message if parent else None,
            end=parent,
            **words,
        )
    except (AnswerLive, Overtaken):
        # Nobody waits at the page for what is queued, so there is nothing to choose side by side.
        if parent is None or said["compare"]:
            raise
        enqueue_message()(request.user, conversation, parent=parent.message, **words)
        return page.accepted(request, conversation)
    if run.is_repeated and not (
        page.says(run, said["text"], within=conversation) and shows(run, said["files"])
    ):
        raise KeyReused(page.SAID_OTHERWISE)
    note_begun(request, run)
    if said["compare"]:
        return page.accepted(request, conversation)
    return page.sent(request, conversation, run, parent=parent, has_attachments=bool(said["files"]))


def upstreams_of_choice(user: User, data: QueryDict, conversation: Conversation) -> list[Upstream]:
    """The server of a posted choice, if the person may use it. Reading a form needs no other servers, but for a
    comparison; most often it is the last one of the conversation."""
    if data.get("compare"):
        return list(access.usable_upstreams(user, [conversation.team]))
    identity = data.get("choice", "").partition(":")[0]
    known = conversation.upstream
    try:
        team = conversation.team_id
        return [access.get_usable_upstream(user, UUID(identity), team, known=known)]
    except (ValueError, Http404):
        return []


def _refuse_edit(request: HttpRequest, message: Message, refusal: ActionRefused) -> HttpResponse:
    if request.htmx:
        hex_id = message.public_id.hex
        key_place = f"k{hex_id}" if isinstance(refusal, KeyReused) else ""
        return refusal_patch(
            request, str(refusal), status=refusal.status, place=f"e{hex_id}", key_place=key_place
        )
    context = {
        "message": message,
        "conversation": message.conversation,
        "key": uuid.uuid4(),
        "draft": request.POST.get("text", ""),
        "refusal": str(refusal),
    }
    return _edit_page(request, context, refusal.status)


@post_action(
    partial(access.get_message, for_write=True), _refuse_edit, methods=("GET", "HEAD", "POST")
)
def edit(request: HttpRequest, message: Message) -> HttpResponse:
    if request.method != "POST":
        return _edit_form(request, message)
    words = WordsForm(request.POST)
    choice = composer.remembered_choice(request.user, message.conversation, request.POST)
    if not (words.is_valid() and choice.is_valid()):
        raise InvalidForm(words.first_error() or choice.first_error())
    text = words.cleaned_data["text"]
    run = message_actions.edit_message(
        request.user,
        message,
        text=text,
        choice=choice.model_choice(),
        idempotency_key=words.cleaned_data["key"],
    )
    if not (page.says(run, text, within=message.conversation) and _stands_beside(run, message)):
        raise KeyReused(page.SAID_OTHERWISE)
    note_begun(request, run)
    return page.accepted(request, message.conversation)


def _stands_beside(run: Run, message: Message) -> bool:
    """Returns whether the run answers a version of this message."""
    question = run.message.parent
    return question is not None and question.parent_id == message.parent_id


def _edit_form(request: HttpRequest, message: Message) -> HttpResponse:
    """The form in place of the text, the text again (``?cancel``), or a page with the form."""
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


@post_action(partial(access.get_message, for_write=True), page.refuse_beside())
def retry(request: HttpRequest, answer: Message) -> HttpResponse:
    form = KeyForm(request.POST)
    choice = composer.remembered_choice(request.user, answer.conversation, request.POST)
    if not (form.is_valid() and choice.is_valid()):
        raise InvalidForm(form.first_error() or choice.first_error())
    run = message_actions.retry(
        request.user,
        answer,
        choice=choice.model_choice(),
        idempotency_key=form.cleaned_data["key"],
    )
    if run.message.parent_id != answer.parent_id:
        raise ActionRefused(
            gettext("Couldn’t request a new answer. Reload the page and try again.")
        )
    note_begun(request, run)
    return page.accepted(request, answer.conversation)


@post_action(access.get_message, page.refuse_beside())
def show_version(request: HttpRequest, message: Message) -> HttpResponse:
    """Selects the version that this person sees. People who only read may do that, too."""
    message_actions.choose_branch(request.user, message)
    return page.accepted(request, message.conversation)


@login_required
@require_GET
def find(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """From a link to a turn, or to what is in it, to its page. It may stand in a branch that this
    person does not look at; then they do from here on. Which one is their own affair, and nobody
    else's page changes, so a link may do that. The browser keeps what stands behind ``#``, and the
    page gets what the link says of its words (static/search/marks.js)."""
    message = access.get_message(request.user, public_id)
    message_actions.choose_path(request.user, message)
    conversation = message.conversation
    path = read_path(request.user, conversation)
    query = request.GET.copy()
    if end := page_around(path, public_id):
        address = reverse("conversation_earlier", args=[conversation.public_id, end.public_id])
    else:
        address = reverse("conversation", args=[conversation.public_id])
        if path.index_of(public_id.hex) not in last_page(path):
            query["since"] = public_id.hex
    return redirect(f"{address}?{query.urlencode()}" if query else address)


@login_required
@require_GET
def source(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The message as Markdown; of a live answer, so far. For a page the words of a person in place
    (``?as=source``), and formatted again (``?as=text``)."""
    message = access.get_message(request.user, public_id)
    if request.htmx and message.role == Role.USER:
        context = {
            "message": message,
            "conversation": message.conversation,
            "is_source": request.GET.get("as") == "source",
        }
        return render(request, "conversations/_words.html", context)
    text = message.text if message.role == Role.USER else source_of(message)
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@post_action(partial(access.get_run, for_write=True), page.refuse_beside())
def stop(request: HttpRequest, run: Run) -> HttpResponse:
    """The page shows its button as pressed by itself, and receives the end over its live connection,
    as all pages do. Nothing is rendered here, so that many people can stop at once."""
    with storage_errors():
        was_live = conversation_actions.stop_run(request.user, run)
    if not request.htmx:
        return redirect("conversation", public_id=run.conversation.public_id)
    # The run has already ended, so the page fetches its changes.
    return HttpResponse(status=204, headers={} if was_live else {"HX-Trigger": page.CHANGED})


@login_required
@require_GET
def part(request: HttpRequest, public_id: UUID, part_id: str) -> HttpResponse:
    """The content of a fold of an answer, loaded when a reader opens it."""
    run = access.get_run(request.user, public_id)
    html = render_part(run, part_id)
    if html is None:
        raise Http404(access.NOT_HERE)
    return HttpResponse(html)


@login_required
@require_GET
def text(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The answer as a Markdown file; of a live answer, so far."""
    run = access.get_run(request.user, public_id)
    response = HttpResponse(source_of(run.message), content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="answer.md"'
    return response
