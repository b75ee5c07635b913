"""Executes a web search: one request to the service that the team has chosen."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from chat.core.text import clean
from chat.models import SearchService
from chat.tools.http import fetch, headers_of
from chat.tools.kinds import CallFailed, CallOutput, CallRequest
from chat.tools.web.definitions import MOST_RESULTS, QUERY_CHARACTERS
from chat.tools.web.results import as_text, pages_in, request_of

DEFAULT_RESULTS = 5

# Sentences for people and for the model, stored in English; pages translate them.
NO_QUERY = gettext_noop("The search has no words to search for.")
LONG_QUERY = gettext_noop("The words to search for are longer than the limit.")
KEY_REFUSED = gettext_noop("The search service refuses the key.")
NO_JSON = gettext_noop(
    "The SearXNG server doesn’t answer in JSON. Its administrator has to add “json” to “search.formats” in its "
    "settings.yml."
)
TOO_OFTEN = gettext_noop("The search service gets too many requests at the moment.")
STATUS = gettext_noop("The search service answered with an error, HTTP status %s.")
UNREADABLE = gettext_noop("The search service’s answer isn’t a list of results.")


async def search_web(request: CallRequest) -> CallOutput:
    """Searches once. What it finds becomes the sources of the answer. Raises ``CallFailed``."""
    query, count = _query_of(request), _count_of(request)
    address = request.address
    asked = request_of(address.service, address.url, query, count)
    headers = headers_of(
        {"accept": "application/json", **address.headers}, has_body=bool(asked.body)
    )
    response, content = await fetch(
        request, method=asked.method, url=asked.url, headers=headers, body=asked.body
    )
    if response.status != 200:
        raise CallFailed(_why(address.service, response.status))
    try:
        pages = pages_in(address.service, content, count)
    except ValueError:
        raise CallFailed(UNREADABLE) from None
    return CallOutput(
        text=as_text(query, pages),
        sources=[page.source for page in pages],
        request_bytes=len(asked.url) + len(asked.body),
        response_bytes=len(content),
    )


def _query_of(request: CallRequest) -> str:
    value = request.arguments.get("query")
    query = " ".join(clean(value).split()) if isinstance(value, str) else ""
    if not query:
        raise CallFailed(NO_QUERY)
    if len(query) > QUERY_CHARACTERS:
        raise CallFailed(LONG_QUERY)
    return query


def _count_of(request: CallRequest) -> int:
    value = request.arguments.get("count")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:
        return DEFAULT_RESULTS
    return int(min(max(value, 1), MOST_RESULTS))


def _why(service: str, status: int) -> str:
    if service == SearchService.SEARXNG and status == 403:
        return NO_JSON
    if status in (401, 403, 422) and service != SearchService.SEARXNG:
        return KEY_REFUSED
    return TOO_OFTEN if status in (429, 432) else STATUS % status
