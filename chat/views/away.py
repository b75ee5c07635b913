"""What is answered while the database is away: that it is, and not that something broke."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from chat.actions.errors import is_away
from chat.views.errors import away


class DatabaseAway(MiddlewareMixin):
    """Verbs that keep a draft say so themselves; this is for everything that comes before them,
    such as who is asking."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return away(request) if is_away(exception) else None
