"""The results of web searches as the search services send them, and what models are told of pages. Pure functions."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec
import nh3

from chat.core.text import clean
from chat.documents.readers.html import ReadablePage
from chat.events import Citation, Json, JsonObject
from chat.models import SearchService
from chat.rendering.safety import is_safe_link

TITLE_CHARACTERS = 200
EXTRACT_CHARACTERS = 1000
URL_CHARACTERS = 2000
# Characters of a page that the model gets at once: about ten thousand tokens.
PART_CHARACTERS = 40_000

BRAVE_ADDRESS = "https://api.search.brave.com/res/v1/web/search"
TAVILY_ADDRESS = "https://api.tavily.com/search"
# The header in which a service gets its key.
KEY_HEADERS: Mapping[str, tuple[str, str]] = {
    SearchService.BRAVE: ("X-Subscription-Token", "{key}"),
    SearchService.TAVILY: ("Authorization", "Bearer {key}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    title: str
    url: str
    text: str

    @property
    def source(self) -> Citation:
        return Citation(kind="web", title=self.title, url=self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    method: str
    url: str
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """How a service is asked, where its list of results is, and the name of a result's extract."""

    request: Callable[[str, str, int], SearchRequest]
    results: Callable[[JsonObject], Json]
    extract: str
    # True if extracts are HTML.
    has_markup: bool = False


def request_of(service: str, address: str, query: str, count: int) -> SearchRequest:
    return _SERVICES[service].request(address, query, count)


def pages_in(service: str, body: bytes, count: int) -> list[FoundPage]:
    """The first ``count`` pages of a response. Raises ``ValueError`` if it is none of this service."""
    known = _SERVICES[service]
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("not JSON") from error
    results = known.results(answer) if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise ValueError("no list of results")
    found: dict[str, FoundPage] = {}
    for page in _pages(results, known):
        found.setdefault(page.url, page)
        if len(found) >= count:
            break
    return list(found.values())


def _pages(results: Sequence[Json], service: _Service) -> Iterator[FoundPage]:
    for result in results:
        if not isinstance(result, dict):
            continue
        url = str(result.get("url") or "").strip()
        if len(url) > URL_CHARACTERS or not url.isprintable() or not _is_web(url):
            continue
        title = _plain(result.get("title"), TITLE_CHARACTERS, has_markup=service.has_markup)
        text = _plain(
            result.get(service.extract), EXTRACT_CHARACTERS, has_markup=service.has_markup
        )
        yield FoundPage(title=title or url, url=clean(url), text=text)


def _is_web(url: str) -> bool:
    return url.lower().startswith("http") and is_safe_link(url)


def _plain(value: Json, most: int, *, has_markup: bool) -> str:
    text = value if isinstance(value, str) else ""
    # A little more than is kept, as markup takes room.
    text = text[: most * 4]
    if has_markup:
        text = html.unescape(nh3.clean(text, tags=set()))
    return " ".join(clean(text).split())[:most]


def as_text(query: str, pages: Sequence[FoundPage]) -> str:
    """The results as the text that the model is told."""
    if not pages:
        return f"The search for “{query}” found nothing."
    lines = [f"Results of a web search for “{query}”. Their texts are from the web."]
    for number, page in enumerate(pages, start=1):
        lines += ["", f"{number}. {page.title}", page.url]
        if page.text:
            lines.append(page.text)
    return "\n".join(lines)


def part_of(page: ReadablePage, url: str, begin: int) -> str:
    """The text of a page from the character ``begin`` on, as the model is told it."""
    end = begin + PART_CHARACTERS
    text = page.text[begin:end] or "The page has no text."
    title = f"\n{page.title}" if page.title and not begin else ""
    rest = len(page.text) - end
    more = f"\n\n[{rest} more characters. Go on reading with start={end}.]" if rest > 0 else ""
    return f"Text of {url}, from the web.{title}\n\n{text}{more}"


# --- the services -------------------------------------------------------------------------------


def _ask_searxng(address: str, query: str, count: int) -> SearchRequest:
    # https://docs.searxng.org/dev/search_api.html
    base = address.rstrip("/").removesuffix("/search")
    return SearchRequest(
        method="GET", url=f"{base}/search?{urlencode({'q': query, 'format': 'json'})}"
    )


def _ask_brave(address: str, query: str, count: int) -> SearchRequest:
    # https://api-dashboard.search.brave.com/app/documentation/web-search
    return SearchRequest(method="GET", url=f"{address}?{urlencode({'q': query, 'count': count})}")


def _ask_tavily(address: str, query: str, count: int) -> SearchRequest:
    # https://docs.tavily.com/documentation/api-reference/endpoint/search
    body = msgspec.json.encode({"query": query, "max_results": count})
    return SearchRequest(method="POST", url=address, body=body)


def _of_brave(answer: JsonObject) -> Json:
    # Without results it has no such member.
    web = answer.get("web") or {}
    return web.get("results", []) if isinstance(web, dict) else None


_SERVICES: Mapping[str, _Service] = {
    SearchService.SEARXNG: _Service(
        request=_ask_searxng, results=lambda answer: answer.get("results"), extract="content"
    ),
    SearchService.BRAVE: _Service(
        request=_ask_brave, results=_of_brave, extract="description", has_markup=True
    ),
    SearchService.TAVILY: _Service(
        request=_ask_tavily, results=lambda answer: answer.get("results"), extract="content"
    ),
}
