"""Error pages, the page while the database is unavailable, and sandboxed frames."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_GET

from chat.access import NOT_HERE
from chat.core.deadline import is_over
from chat.core.errors import (
    FilesUnavailable,
    is_database_unavailable,
    is_storage_full,
    no_room,
)

FORBIDDEN = gettext_lazy("You don’t have access. Ask an administrator.")
CSRF_FAILED = gettext_lazy(
    "This page was open for too long, or you signed in again in the meantime. Reload it and try "
    "again."
)
BAD_REQUEST = gettext_lazy("The server couldn’t read this request. Reload the page and try again.")
TOO_LARGE = gettext_lazy("That’s too large to send. The limit is %(size)s.")
AWAY = gettext_lazy(
    "The database isn’t responding. Your text is still in the form: go back and try again; nothing "
    "is sent twice."
)
# Seconds until programs and proxies try again; people do so by themselves.
AWAY_SECONDS = 5
# Shown without scripts; with them, the composer keeps the text and sends it again
# (static/conversations/send_again.js).
BUSY = gettext_lazy(
    "The server is busy, so your message wasn’t sent. Your text is still in the form: go back and send "
    "it again in a moment."
)
BROKEN = gettext_lazy(
    "The server ran into an error and logged it. Try again, or tell an administrator if it keeps "
    "happening."
)


def _answer(
    request: HttpRequest, status: int, template: str, reason: str | Promise
) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        response = HttpResponse(render_to_string("base/notice.html", {"reason": reason}))
        response["HX-Retarget"] = "#toasts"
        response["HX-Reswap"] = "beforeend"
    elif status in (403, 404) and request.method == "GET" and _is_signed_in(request):
        context = {"reason": reason, "frame": "base/error_inside.html"}
        response = HttpResponse(render_to_string(template, context, request))
    else:
        response = HttpResponse(render_to_string(template, {"reason": reason}))
    response.status_code = status
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["Cookie"])
    return response


def _is_signed_in(request: HttpRequest) -> bool:
    # A request that a middleware refused has no user yet.
    user = getattr(request, "user", None)
    return user is not None and user.is_authenticated


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        size = filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return _answer(request, 413, "400.html", TOO_LARGE % {"size": size})
    return _answer(request, 400, "400.html", BAD_REQUEST)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 403, "403.html", str(exception) or FORBIDDEN)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _answer(request, 403, "403_csrf.html", CSRF_FAILED)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The same page for what does not exist and for what belongs to somebody else."""
    return _answer(request, 404, "404.html", NOT_HERE)


def broken(request: HttpRequest) -> HttpResponse:
    """Needs nothing that could be broken itself: no session, no database."""
    if request.headers.get("HX-Request") == "true":
        return _answer(request, 500, "500.html", BROKEN)
    return HttpResponse(render_to_string("500.html", {"reason": BROKEN}), status=500)


def unavailable(request: HttpRequest, error: Exception | None = None) -> HttpResponse:
    """Says nothing of the user or the page: the database does not answer, or has no room."""
    if error is not None and is_storage_full(error):
        return _answer(request, 507, "503.html", no_room())
    response = _answer(request, 503, "503.html", AWAY)
    response["Retry-After"] = str(AWAY_SECONDS)
    return response


def busy(request: HttpRequest, seconds: int) -> HttpResponse:
    """Too many messages wait. Needs no database and little time, because it is made in the event loop."""
    response = _answer(request, 503, "503.html", BUSY)
    response["Retry-After"] = str(seconds)
    return response


# --- while the database is unavailable ------------------------------------------------------------


class DatabaseUnavailable(MiddlewareMixin):
    """Answers requests with 503 when the database, or the storage for files, does not respond.

    Actions that must keep a draft handle this themselves. This covers everything before them, such
    as loading the session, and requests that waited behind others for a database connection.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        return unavailable(request) if is_over() else None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, FilesUnavailable):
            return _answer(request, exception.status, "503.html", str(exception))
        return unavailable(request, exception) if is_database_unavailable(exception) else None


# --- documents in sandboxed frames, without an origin and without requests ------------------------

# Draws what a model wrote. Styles are part of every drawing; requests are not allowed.
DIAGRAM_POLICY = "; ".join(
    (
        *("sandbox allow-scripts", "default-src 'none'", "script-src 'self'", "font-src 'self'"),
        *("style-src 'self' 'unsafe-inline'", "img-src data:", "base-uri 'none'"),
        *("form-action 'none'", "frame-ancestors 'self'"),
    )
)


# The same for everyone, and empty: the page around the frame sends what is to be drawn.
@require_GET
@xframe_options_sameorigin
def diagram(request: HttpRequest) -> HttpResponse:
    response = render(request, "base/diagram_frame.html")
    response["Content-Security-Policy"] = DIAGRAM_POLICY
    response["Cache-Control"] = "private, max-age=3600"
    return response
