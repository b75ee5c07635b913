"""Executes the reading of a page: the address is the model's, so only public ones are connected to."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urljoin, urlsplit, urlunsplit

from django.utils.translation import gettext_noop

from chat.core.text import clean
from chat.documents.readers.html import ReadablePage
from chat.events import Citation
from chat.tools.http import TEXT_TYPES, decoded, fetch, headers_of, type_of
from chat.tools.kinds import CallFailed, CallOutput, CallRequest
from chat.tools.web.reader import Unreadable, read_html
from chat.tools.web.results import URL_CHARACTERS, part_of
from chat.upstreams.configured import configured_client, picture_policy
from chat.upstreams.exchange import Headers

MOST_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
# Characters of the beginning in which a page may name its character set.
HEAD_BYTES = 2048
HTML_TYPES = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)

# Sentences for people and for the model, stored in English; pages translate them.
BAD_ADDRESS = gettext_noop("This isn’t the address of a web page.")
TOO_MANY_REDIRECTS = gettext_noop("The page redirects too often.")
BAD_REDIRECT = gettext_noop("The page redirects to an address that can’t be read.")
NOT_TEXT = gettext_noop("The page isn’t text but a file of another type: %s")
TOO_COMPLEX = gettext_noop("The page is too complicated to be read.")
AFTER_END = gettext_noop("The page ends before this point.")


async def read_page(request: CallRequest) -> CallOutput:
    """Reads a page and follows its redirects. Every address on the way is resolved and checked like the first, and
    gets no credentials. Raises ``CallFailed``."""
    url = checked_url(request.arguments.get("url"))
    async with configured_client(picture_policy()) as client:
        request = replace(request, client=client)
        status, headers, content, url = await _follow(request, url)
    if status >= 400:
        return CallOutput(text=f"HTTP status {status}.", is_error=True, response_bytes=len(content))
    page = await _read(headers, content, url)
    return CallOutput(
        text=part_of(page, url, _begin_of(request.arguments.get("start"), page)),
        sources=[Citation(kind="web", title=page.title or url, url=url)],
        request_bytes=len(url),
        response_bytes=len(content),
    )


def checked_url(value: object, error: str = BAD_ADDRESS) -> str:
    """The address without its fragment. Raises ``CallFailed`` unless it is one of the web, without credentials."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise CallFailed(error) from None
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    if not is_web or "@" in parts.netloc or len(text) > URL_CHARACTERS or not text.isprintable():
        raise CallFailed(error)
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", parts.query, ""))


async def _follow(request: CallRequest, url: str) -> tuple[int, Headers, bytes, str]:
    """Status, headers, body and address of the page at the end of the redirects."""
    for _ in range(MOST_REDIRECTS + 1):
        headers = headers_of({"accept": "text/html, text/*;q=0.9, */*;q=0.1"}, has_body=False)
        response, content = await fetch(request, method="GET", url=url, headers=headers)
        if response.status not in REDIRECTS:
            if 300 <= response.status < 400:
                raise CallFailed(BAD_REDIRECT)
            return response.status, response.headers, content, url
        url = _target(url, response.headers)
    raise CallFailed(TOO_MANY_REDIRECTS)


def _target(url: str, headers: Headers) -> str:
    found = [value for name, value in headers if name.lower() == b"location"]
    try:
        target = urljoin(url, found[0].decode("utf-8", "replace")) if found else ""
    except ValueError:
        target = ""
    target = checked_url(target, BAD_REDIRECT)
    if url.startswith("https:") and not target.startswith("https:"):
        raise CallFailed(BAD_REDIRECT)
    return target


async def _read(headers: Headers, content: bytes, url: str) -> ReadablePage:
    media_type, charset = type_of(headers)
    if media_type in HTML_TYPES:
        named = any(b"charset" in value.lower() for name, value in headers)
        found = None if named else _CHARSET.search(content[:HEAD_BYTES])
        text = decoded(content, found[1].decode("ascii") if found else charset)
        try:
            return await read_html(clean(text), url)
        except Unreadable:
            raise CallFailed(TOO_COMPLEX) from None
    if TEXT_TYPES.fullmatch(media_type) or (not media_type and b"\x00" not in content):
        return ReadablePage(title="", text=clean(decoded(content, charset)).strip())
    raise CallFailed(NOT_TEXT % (media_type or "application/octet-stream"))


def _begin_of(start: object, page: ReadablePage) -> int:
    """Where the model goes on reading. Raises ``CallFailed`` if that is behind the end."""
    begin = max(0, start) if isinstance(start, int) and not isinstance(start, bool) else 0
    if begin and begin >= len(page.text):
        raise CallFailed(AFTER_END)
    return begin
