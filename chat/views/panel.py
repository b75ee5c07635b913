"""The right panel: pages about a room that can stand beside it, one at a time.

Each is a page with an address of its own. A room's page asks for it with the header ``X-Panel``
and gets what is inside, in the panel's frame.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chat.models import Conversation
from chat.views.listing import listing_context

IN_PANEL = "base/panel.html"


def beside_room(
    request: HttpRequest, template: str, conversation: Conversation, context: dict[str, Any]
) -> HttpResponse:
    """``template`` extends ``frame``, and has blocks ``panel_title`` and ``main``."""
    is_panel = "X-Panel" in request.headers
    context = {"conversation": conversation, "in_panel": is_panel, **context}
    if is_panel:
        context["frame"] = IN_PANEL
    else:
        context |= {"frame": "base/beside.html", **listing_context(request.user, conversation)}
    return render(request, template, context)
