"""Settings, sessions, sign-out, and the set-up page of a new installation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from allauth.account import views as allauth_views
from django import forms
from django.conf import settings as project_settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from chat.access import NOT_HERE
from chat.accounts.actions import people as actions
from chat.accounts.actions import setup as setup_actions
from chat.accounts.forms import (
    AnnouncementsForm,
    CodeWrapForm,
    InstructionsForm,
    InvisibleForm,
    ProfileForm,
    ReadingForm,
    SetupForm,
    TimeZoneForm,
)
from chat.core.errors import ActionRefused
from chat.models import User
from chat.web.decorators import login_required
from chat.web.responses import form_page

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def without_referrer(view: View[P]) -> View[P]:
    """Keeps the address of a page secret: no request sends it on as a referrer, not even to this
    server.

    "no-referrer" would do that too, but browsers then send ``Origin: null`` with a form, which the
    CSRF check refuses.
    """

    @wraps(view)
    def quiet(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Referrer-Policy"] = "strict-origin"
        return response

    return quiet


def sign_in(request: HttpRequest, user: User) -> None:
    """Signs in a user who was authenticated by something other than a password."""
    login(request, user, backend=project_settings.AUTHENTICATION_BACKENDS[0])


@login_required
@require_http_methods(["GET", "POST"])
def settings(request: HttpRequest) -> HttpResponse:
    form = ProfileForm(request.POST or None, initial={"name": request.user.name})
    if form.is_valid():
        actions.rename_person(request.user, form.cleaned_data["name"])
        messages.success(request, gettext("Saved"))
        return redirect("settings")
    return _settings_page(request, form=form)


def _settings_page(request: HttpRequest, **changed: forms.Form) -> HttpResponse:
    """A bound form is only shown again if it was refused."""
    status = 422 if any(form.is_bound for form in changed.values()) else 200
    context = {
        "form": ProfileForm(initial={"name": request.user.name}),
        "time_zone": TimeZoneForm.of(request.user),
        "instructions": InstructionsForm.of(request.user),
        "reading": ReadingForm.of(request.user),
        "announcements": AnnouncementsForm.of(request.user),
        "invisible": InvisibleForm.of(request.user),
        **changed,
    }
    return render(request, "accounts/settings.html", context, status=status)


def _stores(
    name: str, form_class: type[forms.Form], store: Callable[..., None]
) -> Callable[[HttpRequest], HttpResponse]:
    """Declares the view of one form of the page. ``store(user, **values)`` gets its values."""

    @login_required
    @require_POST
    def view(request: HttpRequest) -> HttpResponse:
        form = form_class(request.POST)
        if not form.is_valid():
            return _settings_page(request, **{name: form})
        store(request.user, **form.cleaned_data)
        messages.success(request, gettext("Saved"))
        return redirect("settings")

    return view


time_zone = _stores("time_zone", TimeZoneForm, actions.choose_time_zone)
instructions = _stores("instructions", InstructionsForm, actions.save_instructions)
announcements = _stores("announcements", AnnouncementsForm, actions.choose_announcements)
invisible = _stores("invisible", InvisibleForm, actions.choose_invisible)


@login_required
@require_http_methods(["GET", "POST"])
def reading(request: HttpRequest) -> HttpResponse:
    """Stores how the person reads conversations. A script of a conversation fetches the form as a dialog, and posts
    each change of it."""
    if request.method == "GET":
        if not request.htmx:
            return redirect(f"{reverse('settings')}#reading")
        form = ReadingForm.of(request.user)
        return render(request, "accounts/_reading_dialog.html", {"reading": form})
    form = ReadingForm(request.POST)
    if not form.is_valid():
        return _settings_page(request, reading=form)
    actions.choose_reading(request.user, **form.cleaned_data)
    if request.htmx:
        return HttpResponse(status=204)
    messages.success(request, gettext("Saved"))
    return redirect(f"{reverse('settings')}#reading")


@login_required
@require_POST
def code_wrap(request: HttpRequest) -> HttpResponse:
    """Stores whether long lines of code wrap, which a button at each block of code decides as well."""
    form = CodeWrapForm(request.POST)
    form.is_valid()
    actions.choose_code_wrap(request.user, **form.cleaned_data)
    return HttpResponse(status=204)


@never_cache
def logout(request: HttpRequest) -> HttpResponse:
    """Drafts in the browser's storage belong to the user who signs out."""
    response = allauth_views.logout(request)
    if request.method == "POST":
        response["Clear-Site-Data"] = '"storage"'
    return response


@never_cache
def password_reset(request: HttpRequest) -> HttpResponse:
    """Sends a link to reset the password; without a mail server the page says who can create one."""
    if not project_settings.EMAIL_HOST:
        return render(request, "account/password_reset_by_people.html")
    return allauth_views.password_reset(request)


@never_cache
@without_referrer
def password_reset_from_key(request: HttpRequest, uidb36: str, key: str) -> HttpResponse:
    return allauth_views.password_reset_from_key(request, uidb36=uidb36, key=key)


# --- the first start: creates the first administrator and the first team, once --------------------


@never_cache
@without_referrer
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, token: str) -> HttpResponse:
    if not setup_actions.is_setup_token(token):
        raise Http404(NOT_HERE)
    form = SetupForm(request.POST or None)
    if not form.is_valid():
        return form_page(request, "accounts/setup.html", form)
    try:
        user = setup_actions.set_up(**form.cleaned_data)
    except ActionRefused as refusal:
        messages.error(request, str(refusal))
        return redirect("account_login")
    sign_in(request, user)
    return redirect("home")
