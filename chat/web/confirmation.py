"""Confirmation before something sensitive: people with a second factor show it again if the last time is a while ago."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import urlencode

from allauth.account import app_settings
from allauth.account.internal.flows.login import get_authentication_records
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from chat.core import encryption
from chat.core.encryption import DecryptionError
from chat.web.decorators import page_of, referring_page

Parameters = ParamSpec("Parameters")
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponseBase]

ALL_METHODS = ("GET", "HEAD", "POST")
# The key of the session for the request that waits for the confirmation. Forms may contain keys, so theirs is encrypted.
WAITING = "waiting_for_confirmation"
# Sensitive forms have a few fields. A larger one has to be sent again.
MOST_KEPT_CHARACTERS = 64 * 1024


def is_recently_confirmed(request: HttpRequest) -> bool:
    """True if the person of this session has shown a factor or the password a short while ago."""
    records = get_authentication_records(request, request.user)  # type: ignore[arg-type]
    latest = max((float(record.get("at", 0)) for record in records), default=0.0)
    return 0 <= time.time() - latest < app_settings.REAUTHENTICATION_TIMEOUT


def confirmed_recently(
    *,
    methods: Sequence[str] = ALL_METHODS,
    only_if: Callable[..., bool] | None = None,
    gives_file: bool = False,
) -> Callable[[View[Parameters]], View[Parameters]]:
    """Declares a sensitive view. People without a second factor are never asked.

    The page with a form is declared as well where it is there for nothing else (all ``methods``), so that people are
    asked before they fill it in. ``only_if(request, **address)`` is for views of which only some requests are
    sensitive. A form that was sent is kept while the person confirms, and then arrives as it was sent. With
    ``gives_file``, a page that starts the download follows the confirmation.
    """

    def decorate(view: View[Parameters]) -> View[Parameters]:
        @wraps(view)
        def guarded(
            request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs
        ) -> HttpResponseBase:
            user = request.user
            has_factor = user.is_authenticated and user.has_second_factor
            if not has_factor or request.method not in methods:
                return view(request, *args, **kwargs)
            if is_recently_confirmed(request):
                _take_kept_form(request)
                return view(request, *args, **kwargs)
            if only_if is not None and not only_if(request, *args, **kwargs):
                return view(request, *args, **kwargs)
            return _ask(request, gives_file=gives_file)

        guarded.confirmed_methods = tuple(methods)  # type: ignore[attr-defined]
        return guarded

    return decorate


def _ask(request: HttpRequest, *, gives_file: bool) -> HttpResponse:
    request.session.pop(WAITING, None)
    target = page_of(request)
    if request.method == "POST" or gives_file:
        target = _keep(request, gives_file=gives_file) or target
    url = f"{reverse('account_reauthenticate')}?{urlencode({'next': target})}"
    if request.htmx:
        return HttpResponse(status=401, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def _keep(request: HttpRequest, *, gives_file: bool) -> str:
    """Keeps the request in the session, and returns the address at which it continues; empty if it is too large."""
    form = request.POST.urlencode()
    if len(form) > MOST_KEPT_CHARACTERS or request.FILES:
        return ""
    # Ties the request to this confirmation. Another one must not send a form that was given up.
    query = request.GET.copy()
    query["confirmed"] = secrets.token_urlsafe(16)
    address = f"{request.path}?{query.urlencode()}"
    request.session[WAITING] = {
        "address": address,
        "form": encryption.encrypt(form, context=_context(address)),
        "is_post": request.method == "POST",
        "gives_file": gives_file,
        "page": page_of(request) if request.method == "POST" else referring_page(request),
        "at": time.time(),
    }
    return address


def _context(address: str) -> str:
    return f"session.{WAITING}:{address}"


def after_confirmation(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Continues the request that this confirmation is for: ``response`` is the redirect to its address. The browser
    sends a POST there (307), whose form is replaced by the kept one."""
    waiting = request.session.get(WAITING)
    if waiting is None or response.headers.get("Location") != waiting["address"]:
        return response
    if time.time() - waiting["at"] > app_settings.REAUTHENTICATION_TIMEOUT:
        del request.session[WAITING]
        return HttpResponseRedirect(waiting["page"])
    if waiting["gives_file"]:
        return render(request, "account/confirmed.html", {"waiting": waiting})
    return HttpResponseRedirect(waiting["address"], preserve_request=True)


def _take_kept_form(request: HttpRequest) -> None:
    """Gives the request the form that was kept for its address, once."""
    waiting = request.session.pop(WAITING, None)
    if waiting is None or request.method != "POST" or request.get_full_path() != waiting["address"]:
        return
    try:
        form = encryption.decrypt(waiting["form"], context=_context(waiting["address"]))
    except DecryptionError:
        # The keys have changed meanwhile. The empty form is refused.
        form = ""
    request.POST = QueryDict(form)  # type: ignore[assignment]
