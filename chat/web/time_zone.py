"""The time zone of the person who asks: a script of every page says it in a cookie (base/shell.js)."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

COOKIE = "timezone"

Respond = Callable[[HttpRequest], HttpResponse]


@cache
def _names() -> frozenset[str]:
    """Read once: it walks through the whole database of zones."""
    return frozenset(zoneinfo.available_timezones())


def person_time_zone(respond: Respond) -> Respond:
    """Middleware: times of the response are written in the person's zone; without a known one, in
    that of the installation."""

    def in_zone(request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get(COOKIE, "")
        # `None` is the zone of the installation, whatever the thread's last request had.
        with timezone.override(zoneinfo.ZoneInfo(name) if name in _names() else None):
            return respond(request)

    return in_zone
