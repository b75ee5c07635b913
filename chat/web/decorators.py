"""Decorators of views: sign-in, actions on a record, administrators only, framing of previews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlencode, urlsplit

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from chat.core.errors import ActionRefused
from chat.web.time_zone import use_zone_of

Parameters = ParamSpec("Parameters")
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponse]
Record = TypeVar("Record")
Refuse = Callable[[HttpRequest, Record, ActionRefused], HttpResponse]


def login_required(view: View[Parameters]) -> View[Parameters]:
    """Calls ``view`` for signed-in users. No cache stores the response."""

    @never_cache
    @wraps(view)
    def gated(
        request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        if request.user.is_authenticated:
            use_zone_of(request.user)
            return view(request, *args, **kwargs)
        return ask_to_sign_in(request)

    return gated


def login_required_in_background(view: View[Parameters]) -> View[Parameters]:
    """`login_required` for what a page fetches by itself: a page whose session has ended stays, because its
    connection tells it, and it keeps the draft."""
    gated = login_required(view)

    @wraps(view)
    def quiet(
        request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        if request.htmx and not request.user.is_authenticated:
            return HttpResponse(status=401)
        return gated(request, *args, **kwargs)

    return quiet


def post_action(
    load: Callable[..., Record],
    refuse: Refuse[Record],
    *,
    methods: Sequence[str] = ("POST",),
) -> Callable[[Callable[[HttpRequest, Record], HttpResponse]], Callable[..., HttpResponse]]:
    """Declares a view that changes one record: sign-in, method, access, and what a refusal shows.

    ``load(user, **address)`` is a function of `chat.access`, which raises ``Http404`` or
    ``PermissionDenied``; the view gets the record. An ``ActionRefused`` that the view raises goes
    to ``refuse(request, record, refusal)``.
    """

    def decorate(
        view: Callable[[HttpRequest, Record], HttpResponse],
    ) -> Callable[..., HttpResponse]:
        @login_required
        @require_http_methods(list(methods))
        @wraps(view)
        def handle(request: HttpRequest, **address: object) -> HttpResponse:
            record = load(request.user, **address)
            try:
                return view(request, record)
            except ActionRefused as refusal:
                return refuse(request, record, refusal)

        return handle

    return decorate


def refuse_with_message(address: str) -> Refuse[object]:
    """Redirects to a page that shows the refusal as a message."""

    def refuse(request: HttpRequest, record: object, refusal: ActionRefused) -> HttpResponse:
        messages.error(request, str(refusal))
        return redirect(address)

    return refuse


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirects to the sign-in page, and from there back to the page the user was on.

    A request for a fragment must not be answered by a redirect: the browser would follow it
    silently, and the sign-in page would appear in the middle of the room.
    """
    url = f"{resolve_url('account_login')}?{urlencode({'next': page_of(request)})}"
    if not request.htmx:
        return HttpResponseRedirect(url)
    return HttpResponse(status=401, headers={"HX-Redirect": url})


def page_of(request: HttpRequest) -> str:
    if request.htmx:
        return path_in_browser(request)
    if request.method == "GET":
        return request.get_full_path()
    return referring_page(request)


def referring_page(request: HttpRequest) -> str:
    """The path of the page of ours with the link or form that was used."""
    referer = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(referer, allowed_hosts={request.get_host()}):
        return "/"
    return urlsplit(referer).path


def path_in_browser(request: HttpRequest) -> str:
    """The path and query of the page that sent an htmx request."""
    try:
        return request.htmx.current_url_abs_path or "/"
    except ValueError:
        # No browser sends this, so the header holds no address.
        return "/"


PREFIX = "/preview/"


def frames_previews(view: View[Parameters]) -> View[Parameters]:
    """Lets a page contain previews and diagrams: its policy allows framing those, and nothing
    else."""

    @wraps(view)
    def framing(
        request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        response = view(request, *args, **kwargs)
        places = (PREFIX, reverse("diagram_frame"))
        allowed = {"frame-src": [request.build_absolute_uri(place) for place in places]}
        response._csp_update = {**getattr(response, "_csp_update", {}), **allowed}  # type: ignore[attr-defined]
        return response

    return framing


def administrators_only(view: View[Parameters]) -> View[Parameters]:
    """Lets administrators see a page. Its address is no secret: others are told that they lack access."""

    @wraps(view)
    def guarded(
        request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        if not (request.user.is_active and request.user.is_staff):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return login_required(guarded)
