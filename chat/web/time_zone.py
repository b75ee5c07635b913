"""The time zone of the person who asks: a script of every page says it in a cookie (base/shell.js)."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from chat.core.time_zones import COOKIE, zone_named

Respond = Callable[[HttpRequest], HttpResponse]


def person_time_zone(respond: Respond) -> Respond:
    """Middleware: times of the response are written in the person's zone; without a known one, in
    that of the installation."""

    def in_zone(request: HttpRequest) -> HttpResponse:
        # `None` is the zone of the installation, whatever the thread's last request had.
        with timezone.override(zone_named(request.COOKIES.get(COOKIE, ""))):
            return respond(request)

    return in_zone
