"""The chosen conversations that are changed, and the responses that say what was done with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse

from chat.models import Conversation, User
from chat.organization.undo import Undo
from chat.web.decorators import path_in_browser

# The page to which forms without scripts return.
PAGES = {
    "all": "conversations",
    "archived": "conversations_archived",
    "trash": "conversations_trash",
}


def still_there(
    get: Callable[[User, UUID], Conversation], user: User, ids: Sequence[UUID]
) -> list[Conversation]:
    """The conversations that ``get`` (a function of `chat.access`) finds; raises its error if it finds none."""
    found, problem = [], None
    for public_id in ids:
        try:
            found.append(get(user, public_id))
        except (Http404, PermissionDenied) as error:
            problem = error
    if not found and problem is not None:
        raise problem
    return found


def changed(
    request: HttpRequest,
    text: str,
    chosen: Sequence[Conversation],
    *,
    undo: Undo | None = None,
    is_removal: bool = False,
) -> HttpResponse:
    """Says what was done, and offers the change that takes it back. ``is_removal``: whether nobody
    sees the pages of these conversations any more."""
    address = _address_after(request, chosen, is_removal=is_removal)
    if address is None:
        # The page stays; it fetches its list.
        context = {"text": text, "undo": undo}
        response = render(request, "organization/changed.html", context)
        response["HX-Trigger"] = json.dumps({"list:stale": {"text": text}})
        return response
    messages.success(request, text, extra_tags=undo.mark if undo else "")
    return HttpResponse(headers={"HX-Redirect": address}) if request.htmx else redirect(address)


def _address_after(
    request: HttpRequest, chosen: Sequence[Conversation], *, is_removal: bool
) -> str | None:
    """The page that shows the outcome; ``None`` for the one that asked, which a script patches."""
    if not request.htmx:
        return _address_of(request, chosen, is_removal=is_removal)
    shown = path_in_browser(request)
    if shown.startswith((reverse("conversations"), reverse("projects"))):
        return shown
    try:
        room = resolve(shown.partition("?")[0]).kwargs.get("public_id")
    except Resolver404:
        room = None
    if is_removal and room in [each.public_id for each in chosen]:
        return reverse("home")
    return None


def _address_of(request: HttpRequest, chosen: Sequence[Conversation], *, is_removal: bool) -> str:
    back = PAGES.get(request.POST.get("back", ""))
    if back is not None:
        return reverse(back)
    if len(chosen) == 1 and not is_removal:
        return reverse("conversation", args=[chosen[0].public_id])
    return reverse("home")


def refused(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    if request.htmx:
        context = {"reason": sentence}
        return render(request, "organization/refused.html", context, status=status)
    messages.error(request, sentence)
    return redirect(PAGES.get(request.POST.get("back", ""), "home"))
