"""Settings → Titles: the model that writes the titles of conversations. Administrators only."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.models import TitleSetting, User
from chat.titles.actions import choose_model
from chat.titles.forms import TitlesForm
from chat.web.decorators import administrators_only
from chat.web.responses import form_page


@administrators_only
@require_http_methods(["GET", "HEAD", "POST"])
def titles(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    form = TitlesForm(
        request.POST if request.method == "POST" else None,
        setting=TitleSetting.objects.select_related("upstream").first(),
        upstreams=access.enabled_upstreams(),
    )
    if form.is_valid():
        choose_model(person, form.cleaned_data["upstream"], form.cleaned_data["model"])
        messages.success(request, gettext("Saved"))
        return redirect("titles")
    return form_page(request, "titles/titles.html", form)
