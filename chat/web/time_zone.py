"""The time zone of the person who asks: a script of every page says in a cookie which it is (base/shell.js), the one
that they chose in the settings or that of the browser."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from chat.core.time_zones import COOKIE, zone_named
from chat.models import User

Respond = Callable[[HttpRequest], HttpResponse]


def person_time_zone(respond: Respond) -> Respond:
    """Middleware: times of the response are written in the person's zone; without a known one, in
    that of the installation."""

    def in_zone(request: HttpRequest) -> HttpResponse:
        # `None` is the zone of the installation, whatever the thread's last request had.
        with timezone.override(zone_named(request.COOKIES.get(COOKIE, ""))):
            return respond(request)

    return in_zone


def use_zone_of(user: User) -> None:
    """Uses the zone that a person chose, until the end of the request: also on the first page in a new browser, and
    without scripts. It reads nothing, as the person has been read."""
    if user.time_zone and (zone := zone_named(user.time_zone)) is not None:
        timezone.activate(zone)
