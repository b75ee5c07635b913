"""Responses of pages: whole, as a panel beside the conversation, or a refusal."""

from __future__ import annotations

import uuid
from typing import Any

from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chat.models import Conversation

IN_PANEL = "base/panel.html"


def beside_room(
    request: HttpRequest, template: str, conversation: Conversation, context: dict[str, Any]
) -> HttpResponse:
    """Renders a ``template`` that extends ``frame`` and has the blocks ``panel_title`` and
    ``main``."""
    is_panel = "X-Panel" in request.headers
    context = {"conversation": conversation, "in_panel": is_panel, **context}
    context["frame"] = IN_PANEL if is_panel else "base/beside.html"
    return render(request, template, context)


def form_page(request: HttpRequest, template: str, form: BaseForm, **context: Any) -> HttpResponse:
    """A page with a form. One that was sent and is shown again was refused, which is a 422."""
    status = 422 if form.is_bound else 200
    return render(request, template, {"form": form, **context}, status=status)


def refusal_patch(
    request: HttpRequest, refusal: str, *, status: int, place: str, key_place: str = ""
) -> HttpResponse:
    """``key_place``: where the form has its idempotency key, if it needs a new one."""
    context = {"refusal": refusal, "place": place, "key_place": key_place, "key": uuid.uuid4()}
    return render(request, "base/refused.html", context, status=status)
