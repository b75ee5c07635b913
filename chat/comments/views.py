"""Views of comments: the panel beside a conversation, and what people do with them."""

from __future__ import annotations

import re
import uuid
from typing import cast
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from chat import access
from chat.comments import actions
from chat.comments.forms import CommentForm, ReplyForm, TextForm
from chat.comments.threads import read_threads
from chat.conversations.page import ACCEPTED
from chat.core.errors import ActionRefused, InvalidForm, KeyReused
from chat.models import Comment, Conversation, Message, User
from chat.web.decorators import login_required, post_action
from chat.web.responses import beside_room, refusal_patch

# The element in which a form shows why it was refused.
PLACE = re.compile(r"note-[0-9a-f]{32}")
# The header with the id of the comment that a form has added.
ADDED = "X-Comment"


@login_required
@require_safe
def comments(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """All comments of a conversation, the open or (``?show=resolved``) the resolved ones: a panel, and for
    its script the list alone."""
    return _panel(request, access.get_conversation(request.user, public_id))


def _panel(
    request: HttpRequest,
    conversation: Conversation,
    *,
    message: Message | None = None,
    draft: str = "",
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    threads = read_threads(cast(User, request.user), conversation)
    is_resolved = request.GET.get("show") == "resolved"
    context = {
        "conversation": conversation,
        "threads": [each for each in threads if each.is_resolved == is_resolved],
        "is_resolved": is_resolved,
        "open_count": sum(not each.is_resolved for each in threads),
        "resolved_count": sum(each.is_resolved for each in threads),
        "message": message,
        "key": uuid.uuid4(),
        "draft": draft,
        "refusal": refusal,
    }
    if request.htmx and "X-Panel" not in request.headers:
        return render(request, "comments/_list.html", context)
    response = beside_room(request, "comments/comments.html", conversation, context)
    response.status_code = status
    return response


def _refuse(
    request: HttpRequest, record: Message | Comment, refusal: ActionRefused
) -> HttpResponse:
    """The refusal beside the form; without scripts, the panel with it and the text."""
    if request.htmx:
        named = request.POST.get("place", "")
        place = named if PLACE.fullmatch(named) else "note-new"
        key_place = place.replace("note", "key") if isinstance(refusal, KeyReused) else ""
        return refusal_patch(
            request, str(refusal), status=refusal.status, place=place, key_place=key_place
        )
    return _panel(
        request,
        record.conversation,
        message=record if isinstance(record, Message) else record.message,
        draft=request.POST.get("text", ""),
        refusal=str(refusal),
        status=refusal.status,
    )


@post_action(access.get_message, _refuse, methods=("GET", "HEAD", "POST"))
def on_message(request: HttpRequest, message: Message) -> HttpResponse:
    """The panel with a form for a comment on this turn; POST stores one."""
    if request.method != "POST":
        return _panel(request, message.conversation, message=message)
    form = CommentForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    comment = actions.begin_thread(
        cast(User, request.user),
        message,
        text=form.clean_text(),
        key=form.cleaned_data["key"],
        passage=form.passage(),
    )
    return _done(request, comment)


@post_action(access.get_comment, _refuse)
def reply(request: HttpRequest, comment: Comment) -> HttpResponse:
    form = ReplyForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    added = actions.reply(
        cast(User, request.user), comment, text=form.clean_text(), key=form.cleaned_data["key"]
    )
    return _done(request, added)


@post_action(access.get_own_comment, _refuse, methods=("GET", "HEAD", "POST"))
def edit(request: HttpRequest, comment: Comment) -> HttpResponse:
    if request.method != "POST":
        context = {"comment": comment, "conversation": comment.conversation}
        if request.htmx:
            return render(request, "comments/_edit.html", context)
        return beside_room(request, "comments/edit.html", comment.conversation, context)
    form = TextForm(request.POST)
    if not form.is_valid():
        raise InvalidForm(form.first_error())
    actions.edit(comment, form.clean_text())
    return _done(request, comment)


@post_action(access.get_removable_comment, _refuse)
def delete(request: HttpRequest, comment: Comment) -> HttpResponse:
    actions.delete(comment)
    return _done(request, comment)


@post_action(access.get_resolvable_thread, _refuse)
def resolve(request: HttpRequest, thread: Comment) -> HttpResponse:
    actions.resolve(cast(User, request.user), thread)
    return _done(request, thread)


@post_action(access.get_resolvable_thread, _refuse)
def reopen(request: HttpRequest, thread: Comment) -> HttpResponse:
    actions.reopen(thread)
    return _done(request, thread)


def _done(request: HttpRequest, comment: Comment) -> HttpResponse:
    """The script of the panel fetches the list again; without it, the panel is shown."""
    if request.htmx:
        headers = {"HX-Trigger": ACCEPTED, ADDED: comment.public_id.hex}
        return HttpResponse(headers=headers)
    address = reverse("conversation_comments", args=[comment.conversation.public_id])
    return redirect(f"{address}#comment-{comment.first.public_id.hex}")
