"""Executes a tool of kind ``http``: one request, built from the arguments of the call."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec
from django.conf import settings
from django.utils.translation import gettext_noop

from chat.events import Json, JsonObject
from chat.rendering.figures import size
from chat.tools.kinds import (
    RECORDED_BYTES,
    Address,
    CallFailed,
    CallOutput,
    CallRequest,
    OutputFile,
    Recording,
)
from chat.tools.lost_calls import sentence_of
from chat.upstreams.exchange import ExchangedResponse, ExchangeTimes, Headers, exchange
from chat.upstreams.failures import UpstreamError, UpstreamRefused
from chat.upstreams.redaction import Redactor, secret_texts

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_WITHOUT_BODY = ("GET", "DELETE")
REQUEST_BYTES = 1024 * 1024
URL_CHARACTERS = 8000
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_.-]{1,64})\}")
# The transport makes them, or they would be another server's.
_FORBIDDEN_HEADERS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer")
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
TEXT_TYPES = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|x-ndjson|javascript|x-www-form-urlencoded|toml)"
)
# The names that Python gives to the character sets that are read. Others, as punycode, take minutes.
_CHARSETS = re.compile(
    r"utf-(?:8|(?:16|32)(?:-[bl]e)?)|ascii|iso8859-\d+|cp125\d|shift_jis|gb2312|gbk|gb18030|euc_jp|euc_kr|big5|koi8-r"
)
# Segments of a path that servers resolve.
_DOTS = frozenset((".", "..", "%2e", "%2e%2e", ".%2e", "%2e."))

# Sentences for people and for the model, stored in English; pages translate them.
BAD_ADDRESS = gettext_noop("The tool’s address isn’t a valid URL.")
BAD_ARGUMENT = gettext_noop("An argument can’t be part of the tool’s address: %s")
MISSING = gettext_noop("An argument that the tool’s address needs is missing: %s")
UNKNOWN = gettext_noop("The tool has no argument of this name: %s")
FIXED = gettext_noop("An argument can’t replace a part of the tool’s address: %s")
TOO_MUCH = gettext_noop("The arguments are larger than the limit.")
BAD_HEADER = gettext_noop("A header of the tool contains a character that HTTP doesn’t allow.")
TOO_LARGE = gettext_noop("The result is larger than the limit.")
REDIRECTED = gettext_noop("The server redirects to another address, and redirects aren’t followed.")


async def call_http(request: CallRequest) -> CallOutput:
    """Sends the request once, and follows no redirect. Raises ``CallFailed``."""
    url, body = build(request.address, request.arguments)
    headers = headers_of(request.address.headers, has_body=bool(body))
    response, content = await fetch(
        request, method=request.address.method, url=url, headers=headers, body=body
    )
    return _output(response, content, request_bytes=len(url) + len(body))


async def fetch(
    request: CallRequest, *, method: str, url: str, headers: Headers, body: bytes = b""
) -> tuple[ExchangedResponse, bytes]:
    """One request of the call, and the body of its response without the tool's credentials. Raises ``CallFailed``."""
    await request.sent()
    try:
        response = await exchange(
            request.client,
            method=method,
            url=url,
            headers=headers,
            body=body,
            times=ExchangeTimes(connect_seconds=settings.TOOL_CONNECT_SECONDS),
        )
        try:
            content = await _read(response, request)
            _record(request, method, url, body, content)
            return response, content
        finally:
            await response.aclose()
    except UpstreamError as error:
        never_sent = isinstance(error, UpstreamRefused) and error.never_accepted
        sentence = error.info.message if never_sent else sentence_of(error.info)
        raise CallFailed(sentence, may_have_run=not never_sent) from None


def _record(request: CallRequest, method: str, url: str, body: bytes, content: bytes) -> None:
    """The path and the query of a tool's address may be a secret, as those of a webhook are; the arguments in them are
    in the receipt."""
    headers = dict(request.address.headers)
    parts = urlsplit(url)
    line = f"{method} {parts.scheme}://{parts.netloc}/…"
    redactor = Redactor([*headers.values(), *secret_texts(headers, "headers")])
    sent = f"{line}\n\n{body[:RECORDED_BYTES].decode('utf-8', 'replace')}".strip()
    received = content[:RECORDED_BYTES].decode("utf-8", "replace")
    request.record(Recording(sent=redactor.text(sent), received=received))


# --- the request -----------------------------------------------------------------------------------


def build(address: Address, arguments: JsonObject) -> tuple[str, bytes]:
    """The URL and the body. An argument replaces ``{name}`` in the path or the query, and can't change
    anything else of the address; the others are the query or the JSON body. One that nobody declared, or that would
    be a second value of what the address has, is refused. Raises ``CallFailed``."""
    if address.method not in METHODS:
        raise CallFailed(BAD_ADDRESS)
    try:
        parts = urlsplit(address.url.strip())
        _ = parts.port
    except ValueError:
        raise CallFailed(BAD_ADDRESS) from None
    is_web = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if not is_web or "{" in parts.netloc or not parts.netloc.isascii():
        raise CallFailed(BAD_ADDRESS)
    path = "/".join(_segment(segment, arguments) for segment in parts.path.split("/"))
    query = _filled(parts.query, arguments)
    named = {*PLACEHOLDER.findall(parts.path), *PLACEHOLDER.findall(parts.query)}
    others = {name: value for name, value in arguments.items() if name not in named}
    _check_names(arguments, others, address, query)
    body = b""
    if address.method in _WITHOUT_BODY:
        query = "&".join(part for part in (query, urlencode(list(_pairs(others)))) if part)
    else:
        body = msgspec.json.encode(others)
    url = urlunsplit((parts.scheme, parts.netloc, path or "/", query, ""))
    if len(url) > URL_CHARACTERS or len(body) > REQUEST_BYTES:
        raise CallFailed(TOO_MUCH)
    return url, body


def _check_names(arguments: JsonObject, others: JsonObject, address: Address, query: str) -> None:
    if address.arguments is not None:
        _refuse(UNKNOWN, [name for name in arguments if name not in address.arguments])
    fixed = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    _refuse(FIXED, [name for name in others if name in fixed])


def _refuse(sentence: str, names: list[str]) -> None:
    if names:
        raise CallFailed(sentence % ", ".join(name[:64] for name in names[:5]))


def _segment(segment: str, arguments: JsonObject) -> str:
    """A segment of the path. It stays one segment, and none that a server resolves."""
    filled = _filled(segment, arguments)
    names = PLACEHOLDER.findall(segment)
    if names and (not filled or filled.lower() in _DOTS):
        raise CallFailed(BAD_ARGUMENT % ", ".join(names))
    return filled


def _filled(template: str, arguments: JsonObject) -> str:
    def value_of(match: re.Match[str]) -> str:
        name = match.group(1)
        if arguments.get(name) is None:
            raise CallFailed(MISSING % name)
        return quote(_text(arguments[name]).encode("utf-8", "replace"), safe="")

    return PLACEHOLDER.sub(value_of, template)


def _pairs(arguments: JsonObject) -> Iterator[tuple[str, str]]:
    """A list becomes several values of one name."""
    for name, value in arguments.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield name, _text(each).encode("utf-8", "replace").decode()


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def headers_of(own: Mapping[str, str], *, has_body: bool) -> Headers:
    """The headers of a request, with the tool's own. Raises ``CallFailed``."""
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "Tributary"}
    if has_body:
        headers["content-type"] = "application/json"
    for name, value in own.items():
        is_sendable = value.isascii() and value.isprintable() and value == value.strip()
        if not _HEADER_NAME.fullmatch(name) or not is_sendable:
            raise CallFailed(BAD_HEADER)
        if name.lower() not in _FORBIDDEN_HEADERS:
            headers[name.lower()] = value
    # A compressed body can expand without limit.
    headers["accept-encoding"] = "identity"
    return [(name.encode(), value.encode()) for name, value in headers.items()]


# --- the response ----------------------------------------------------------------------------------


async def _read(response: ExchangedResponse, request: CallRequest) -> bytes:
    """The body, without the tool's credentials."""
    headers = dict(request.address.headers)
    redactor = Redactor([*headers.values(), *secret_texts(headers, "headers")])
    pieces: list[bytes] = []
    size = 0
    async for data in response.chunks():
        size += len(data)
        if size > request.most_bytes:
            # It has run, and there is an answer; it only can't be used.
            raise CallFailed(TOO_LARGE)
        pieces.append(redactor.chunk(data))
    return b"".join([*pieces, redactor.flush()])


def _output(response: ExchangedResponse, content: bytes, *, request_bytes: int) -> CallOutput:
    status = response.status
    media_type, charset = type_of(response.headers)
    files: list[OutputFile] = []
    if not content:
        text = f"HTTP status {status}, without content."
    elif TEXT_TYPES.fullmatch(media_type) or (not media_type and b"\x00" not in content):
        text = decoded(content, charset)
    else:
        # For the model, in English as the definitions of tools are.
        text = f"[File: {media_type or 'application/octet-stream'}, {size(len(content))}]"
        files.append(OutputFile(media_type=media_type, content=content))
    if 300 <= status < 400:
        text, files = REDIRECTED, []
    elif status >= 400 and content:
        text = f"HTTP status {status}.\n\n{text}"
    return CallOutput(
        text=text,
        is_error=status >= 300,
        files=files,
        request_bytes=request_bytes,
        response_bytes=len(content),
    )


def type_of(headers: Headers) -> tuple[str, str]:
    """The media type in small letters, and the character set."""
    values = [value for name, value in headers if name.lower() == b"content-type"]
    media_type, _, rest = (values[0].decode("latin-1") if values else "").partition(";")
    charset = re.search(r"charset=\"?([A-Za-z0-9_.:-]{1,40})", rest)
    return media_type.strip().lower(), charset.group(1) if charset else "utf-8"


def decoded(content: bytes, charset: str) -> str:
    """The text of a body; UTF-8 if its character set isn't one of those that are read."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = ""
    return content.decode(name if _CHARSETS.fullmatch(name) else "utf-8", "replace")
