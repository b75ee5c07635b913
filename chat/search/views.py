"""Views of searching: the page of results, the palette, and finding in one conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_GET

from chat import access
from chat.models import Project, SearchKind, User
from chat.rendering import figures
from chat.search.find import MOST_COUNTED, PAGE_HITS, Hit, Hits, find
from chat.search.forms import SearchForm
from chat.search.tokens import OPERATORS, Query, operator, parse, tokens_of
from chat.web.decorators import login_required
from chat.web.responses import beside_room

# Pages end where counting ends.
LAST_PAGE = MOST_COUNTED // PAGE_HITS
# Lines of each group of the palette, which must fit on a phone above its keyboard.
PALETTE_TITLES = 4
PALETTE_HITS = 6
PALETTE_PEOPLE = 3
PALETTE_PROJECTS = 3
# A query is compared with at most this many people and projects, the first ones.
MOST_PEOPLE = 1_000
MOST_PROJECTS = 1_000
TEXTS = tuple(kind for kind in SearchKind.values if kind != SearchKind.TITLE)
ICONS = {
    SearchKind.TITLE: "message-square",
    SearchKind.MESSAGE: "user",
    SearchKind.ANSWER: "tributary",
    SearchKind.REASONING: "brain",
    SearchKind.ARTIFACT: "file-code",
    SearchKind.FILE: "file",
    SearchKind.QUESTION: "circle-help",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A hit as it is shown, and the address of its turn with what is to be marked there."""

    hit: Hit
    address: str

    @property
    def icon(self) -> str:
        return ICONS[SearchKind(self.hit.kind)]

    @property
    def is_title(self) -> bool:
        return self.hit.kind == SearchKind.TITLE


def lines_of(hits: Hits, query: Query) -> list[Line]:
    marks = [("mark", f"{each.text}{'*' if each.is_prefix else ''}") for each in query.wanted]
    return [Line(hit=hit, address=_address_of(hit, marks)) for hit in hits.hits]


def _address_of(hit: Hit, marks: list[tuple[str, str]]) -> str:
    if hit.message is None:
        return reverse("conversation", args=[hit.conversation])
    shown = urlencode([*marks, ("kind", hit.kind)])
    return f"{reverse('message_find', args=[hit.message])}?{shown}#m{hit.message.hex}"


def query_of(params: QueryDict) -> Query:
    """The query of an address: the filters of controls and what was typed, which wins."""
    filters = [
        operator(name, value[:200])
        for name in OPERATORS
        for value in params.getlist(name)[:10]
        if value.strip()
    ]
    return parse(" ".join([*filters, params.get("q", "")]))


def address_of(query: Query, **more: object) -> str:
    """The address of the page of results."""
    shown = [
        ("q", query.words),
        *query.filters,
        *((name, str(each)) for name, each in more.items()),
    ]
    return f"{reverse('search')}?{urlencode(shown)}"


def in_words(count: int, *, is_more: bool) -> str:
    """How much was found; of more than is counted that it is more."""
    if not count:
        return gettext("No matches")
    shown = figures.count(count)
    if is_more:
        return gettext("%(count)s+ results") % {"count": shown}
    return ngettext("%(count)s result", "%(count)s results", count) % {"count": shown}


def _page_of(params: QueryDict) -> int:
    page = params.get("page", "")
    number = int(page[:6]) if page.isdecimal() else 1
    return min(max(number, 1), LAST_PAGE)


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """The page of results; for htmx only the results of one of its pages."""
    user = cast(User, request.user)
    query = query_of(request.GET)
    page = _page_of(request.GET)
    by_date = request.GET.get("sort") == "date"
    sort = {"sort": "date"} if by_date else {}
    found = find(user, query, page=page, by_date=by_date)
    context = {
        "query": query,
        "lines": lines_of(found, query),
        "count": in_words(found.count, is_more=found.has_more_than_counted),
        "next": address_of(query, **sort, page=page + 1)
        if found.has_next and page < LAST_PAGE
        else "",
    }
    if "HX-Request" in request.headers:
        return render(request, "search/_more.html", context)
    context |= {
        "form": SearchForm(user, query),
        "by_date": by_date,
        # Words that are nearly everywhere say nothing about relevance.
        "is_sorted": found.is_weighed,
        "by_relevance": address_of(query),
        "newest_first": address_of(query, sort="date"),
        "without_filters": address_of(parse(query.words)),
        "previous": address_of(query, **sort, page=page - 1) if page > 1 else "",
    }
    return render(request, "search/search.html", context)


@login_required
@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    """The palette's results for the text typed so far; without any, the latest conversations."""
    user = cast(User, request.user)
    typed = request.GET.get("q", "")
    query = parse(typed)
    titles = find(user, query, kinds=[SearchKind.TITLE], limit=PALETTE_TITLES)
    texts = find(user, query, kinds=TEXTS, limit=PALETTE_HITS)
    projects = _projects(user, query)
    recent = access.visible_conversations(user).filter(archived_at__isnull=True)
    context = {
        "typed": typed,
        "query": query,
        "titles": lines_of(titles, query),
        "texts": lines_of(texts, query),
        "projects": projects,
        "people": [
            (person, address_of(parse(operator("from", str(person)))))
            for person in _people(user, query)
        ],
        "recent": recent.order_by("-updated_at", "-pk")[:PALETTE_TITLES]
        if not typed.strip()
        else (),
        "count": in_words(
            titles.count + texts.count,
            is_more=titles.has_more_than_counted or texts.has_more_than_counted,
        ),
        "all": address_of(query) if titles.count or texts.count else "",
    }
    return render(request, "search/_palette_found.html", context)


def _people(user: User, query: Query) -> list[User]:
    """The people of one's teams whose name or address has all words."""
    words = tokens_of(query.words)
    if not words or query.filters:
        return []
    people = access.people_of_teams(user)[:MOST_PEOPLE]
    return [person for person in people if _has_words(f"{person.name} {person.email}", words)][
        :PALETTE_PEOPLE
    ]


def _projects(user: User, query: Query) -> list[Project]:
    """The visible projects whose name has all words."""
    words = tokens_of(query.words)
    if not words or query.filters:
        return []
    projects = access.visible_projects(user).order_by("name", "pk")[:MOST_PROJECTS]
    return [each for each in projects if _has_words(each.name, words)][:PALETTE_PROJECTS]


def _has_words(name: str, words: Iterable[str]) -> bool:
    names = tokens_of(name)
    return all(any(name.startswith(word) for name in names) for word in words)


@login_required
@require_GET
def find_in_conversation(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Hits in all turns of a conversation, of all its branches: a panel, and for htmx its results."""
    user = cast(User, request.user)
    conversation = access.get_conversation(user, public_id)
    query = parse(request.GET.get("q", ""))
    page = _page_of(request.GET)
    found = find(user, query, page=page, by_date=True, within=conversation, kinds=TEXTS)
    here = reverse("conversation_find", args=[public_id])
    more = urlencode([("q", str(query)), ("page", page + 1)])
    context = {
        "conversation": conversation,
        "query": query,
        "lines": lines_of(found, query),
        "count": in_words(found.count, is_more=found.has_more_than_counted),
        "next": f"{here}?{more}" if found.has_next and page < LAST_PAGE else "",
        "is_within": True,
    }
    if "HX-Request" in request.headers and "X-Panel" not in request.headers:
        template = "search/_more.html" if page > 1 else "search/_found_here.html"
        return render(request, template, context)
    return beside_room(request, "search/find_in_conversation.html", conversation, context)
