"""Views of the star beside a model, to which the script of the picker posts."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from chat import access
from chat.core.errors import ActionRefused
from chat.favorites import actions
from chat.favorites.forms import ModelForm
from chat.models import Upstream, User
from chat.web.decorators import login_required_in_background


def _answer(request: HttpRequest, act: Callable[[User, Upstream, str], None]) -> HttpResponse:
    """Nothing, or the sentence of a refusal."""
    form = ModelForm(request.POST)
    if not form.is_valid():
        raise Http404(access.NOT_HERE)
    upstream = access.get_usable_upstream(request.user, form.cleaned_data["server"])
    try:
        act(request.user, upstream, form.cleaned_data["model"])
    except ActionRefused as refusal:
        return HttpResponse(str(refusal), status=refusal.status, content_type="text/plain")
    return HttpResponse(status=204)


@login_required_in_background
@require_POST
def favorite(request: HttpRequest) -> HttpResponse:
    return _answer(request, actions.add_favorite)


@login_required_in_background
@require_POST
def favorite_remove(request: HttpRequest) -> HttpResponse:
    return _answer(request, actions.remove_favorite)
