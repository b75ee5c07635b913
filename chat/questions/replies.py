"""The response after somebody has replied: patches for the page that the card is on, or a refusal on the card."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from chat import access
from chat.conversations import page
from chat.conversations.page_parts import PageAmendment
from chat.core.errors import ActionRefused
from chat.models import Question
from chat.questions.card_reading import card_of
from chat.web.decorators import path_in_browser
from chat.web.responses import refusal_patch


def is_in_inbox(request: HttpRequest) -> bool:
    return bool(request.htmx) and urlsplit(path_in_browser(request)).path == reverse("inbox")


def accepted_reply(request: HttpRequest, question: Question) -> HttpResponse:
    """Patches for the conversation, or for the card alone where the inbox has sent the request."""
    if not is_in_inbox(request):
        return page.accepted(request, question.conversation, asked=question)
    question = access.get_question(request.user, question.public_id)
    context = {
        "asked": card_of(question),
        "question": question,
        "settled_now": question,
        "may_write": True,
    }
    return render(request, "questions/inbox_changes.html", context)


def refused_reply(
    request: HttpRequest, question: Question, refusal: ActionRefused, amendment: PageAmendment
) -> HttpResponse:
    """Shows a refusal on the card; without scripts the whole page again, where ``amendment`` puts the refusal and what
    was typed on the card."""
    if request.htmx:
        place = f"ask-note-{question.public_id.hex}"
        return refusal_patch(request, str(refusal), status=refusal.status, place=place)
    return page.room_page(request, question.conversation, status=refusal.status, amend=amendment)
