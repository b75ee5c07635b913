"""A person's picture: the form in the settings, and the bytes for people who may know them."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from chat import access
from chat.core.errors import ActionRefused, FilesUnavailable
from chat.models import User
from chat.profile import actions
from chat.profile.forms import PictureForm
from chat.web.decorators import ask_to_sign_in, login_required, post_action, refuse_with_message
from chat.web.files import bytes_response

# Each picture has an address of its own. A browser keeps it for a day, even if its person may no longer see it.
CACHE = "private, max-age=86400, immutable"


@require_GET
def picture(request: HttpRequest, person_id: UUID, version: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return ask_to_sign_in(request)
    found = access.get_picture(request.user, person_id)
    if found.user.picture_version != version:
        raise Http404(access.NOT_HERE)
    response = bytes_response(found.content.read(), "picture.webp")
    response["Cache-Control"] = CACHE
    return response


@login_required
@require_POST
def picture_set(request: HttpRequest) -> HttpResponse:
    form = PictureForm(request.POST, request.FILES)
    if not form.is_valid():
        messages.error(request, form.errors["picture"][0])
        return redirect("settings")
    try:
        actions.set_picture(request.user, form.cleaned_data["picture"].read())
    except (ActionRefused, FilesUnavailable) as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, gettext("Saved"))
    return redirect("settings")


@login_required
@require_POST
def picture_remove(request: HttpRequest) -> HttpResponse:
    actions.remove_picture(request.user, request.user)
    messages.success(request, gettext("Picture removed"))
    return redirect("settings")


@post_action(access.get_person, refuse_with_message("accounts"))
def person_picture_remove(request: HttpRequest, person: User) -> HttpResponse:
    actions.remove_picture(request.user, person)
    messages.success(request, gettext("Picture removed"))
    return redirect("accounts")
