"""The page of the first start: makes the first administrator and the first team, once."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from chat.access import NOT_HERE
from chat.actions import setup as actions
from chat.actions.errors import ActionRefused
from chat.views.account import sign_in, without_referrer
from chat.views.people_forms import SetupForm


@never_cache
@without_referrer
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, token: str) -> HttpResponse:
    if not actions.is_setup_token(token):
        raise Http404(NOT_HERE)
    form = SetupForm(request.POST or None)
    if not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "accounts/setup.html", {"form": form}, status=status)
    try:
        user = actions.set_up(**form.cleaned_data)
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("account_login")
    sign_in(request, user)
    return redirect("home")
