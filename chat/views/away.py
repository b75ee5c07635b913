"""What is answered while the database is away: that it is, and not that something broke."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from chat.actions.errors import is_away
from chat.views.errors import away
from project.deadline import is_over


class DatabaseAway(MiddlewareMixin):
    """Verbs that keep a draft say so themselves; this is for everything that comes before them,
    such as who is asking, and for those who have stood in line behind others whom the database
    has not answered."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        return away(request) if is_over() else None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return away(request) if is_away(exception) else None
