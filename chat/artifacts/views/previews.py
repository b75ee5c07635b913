"""Previews of what answers made: documents without an origin, at signed addresses.

The address of a preview needs no cookie and sets none. It names who may see which version for the
next ten minutes. The document can run scripts if a person asked for that, but it reaches nothing:
neither the page around it nor any address outside of its own bundle. ``docs/decisions/`` has the
reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import quote
from uuid import UUID

from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from chat import access
from chat.models import ArtifactVersion, FetchStatus, MockupFile, User
from chat.web.decorators import frames_previews
from chat.web.files import language_of

# Long enough to look at a preview and to load a slow page; a copied address expires soon.
LIFETIME_SECONDS = 600
SALT = "chat.preview"

Kind = Literal["artifact", "mockup"]

# Matches possible scripts. One that is missed does not run; a false match shows a needless button.
_SCRIPT = re.compile(r"<script|\bon[a-z]+\s*=|javascript:", re.IGNORECASE)
# A language, or the end of a media type or file name.
_DIAGRAM = re.compile(r"(?:^|[./+-])(?:mermaid|mmd)$", re.IGNORECASE)
# The media type for each file suffix. Nothing else decides the type; everything else is served as
# bytes.
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "htm": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
    "md": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
}
# Centres a drawing. It is HTML, because models often leave out the SVG namespace.
_SVG_PAGE = """<!doctype html><meta charset="utf-8"><style>
html, body { height: 100%; margin: 0 }
body { display: grid; place-items: center; overflow: auto }
svg { max-width: 100%; max-height: 100vh }
</style>"""

_DOCUMENT_TYPE = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s++|<!--.*?-->|<\?[^>]*+>)*+<!doctype[^>]*+>", re.IGNORECASE | re.DOTALL
)
# The messages go to any parent: the policy decides who may frame the document, and they contain
# nothing secret. It is one line, so that line numbers in errors are those of the document.
_REPORTER = "".join(
    (
        "<script>(() => {const texts = $TEXTS;",
        " const fill = (text, values) =>",
        " text.replace(/%\\((\\w+)\\)s/g, (_, name) => values[name]);",
        ' const say = words => parent.postMessage({trouble: String(words).slice(0, 500)}, "*");',
        ' addEventListener("error", ({message, lineno: line}) =>',
        " message && say(line ? fill(texts.error, {message, line}) : message));",
        ' addEventListener("unhandledrejection", ({reason}) => say(reason?.message ?? reason));',
        ' addEventListener("securitypolicyviolation", ({blockedURI: address}) =>',
        " say(fill(texts.blocked, {address})));",
        " document.currentScript.remove();})()</script>",
    )
)


# --- what can be previewed ---------------------------------------------------------------------


def form_of(version: ArtifactVersion) -> str:
    """``html``, ``svg``, ``markdown`` or ``mermaid``; empty where the code itself is the best
    view."""
    if version.content_type.startswith("image/svg"):
        return "svg"
    name = version.title or version.identifier or version.artifact.artifact_id
    for word in (version.language, version.content_type, name):
        if _DIAGRAM.search(word):
            return "mermaid"
        language = language_of(word, word)
        if language in ("html", "svg"):
            return language
        if language in ("markdown", "md"):
            return "markdown"
        if language:
            return ""
    return ""


def has_scripts(text: str) -> bool:
    return _SCRIPT.search(text) is not None


# --- addresses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right of one user to look at one version; ``runs`` says whether its scripts run."""

    kind: Kind
    public_id: UUID
    number: int
    user: UUID
    runs: bool


def sign(ticket: Ticket, path: str = "") -> str:
    """The address of a version for this user; ``path`` is the path of a file in a bundle."""
    said = [
        ticket.kind,
        ticket.public_id.hex,
        ticket.number,
        ticket.user.hex,
        ticket.runs,
    ]
    address = reverse("preview", args=[signing.dumps(said, salt=SALT)])
    return address + quote(path)


def _read(token: str) -> Ticket:
    """Raises ``BadSignature`` if the token is forged, or older than ten minutes."""
    kind, public_id, number, user, runs = signing.loads(token, salt=SALT, max_age=LIFETIME_SECONDS)
    return Ticket(kind=kind, public_id=UUID(public_id), number=number, user=UUID(user), runs=runs)


# --- responses ------------------------------------------------------------------------------------


@require_safe
@xframe_options_exempt
def preview(request: HttpRequest, token: str, path: str = "") -> HttpResponse:
    """A preview. Forged, expired and unknown addresses give the same 404, and so do rooms that the
    user has lost.

    It cannot be opened as a page of its own: outside of our frame it could navigate elsewhere, and
    take its content along.
    """
    if request.headers.get("Sec-Fetch-Dest") == "document":
        return _guarded(request, _nothing(), token, runs=False)
    try:
        ticket = _read(token)
        response = _OF_KIND[ticket.kind](ticket, path)
    except (signing.BadSignature, Http404):
        return _guarded(request, _nothing(), token, runs=False)
    return _guarded(request, response, token, runs=ticket.runs)


def _nothing() -> HttpResponse:
    text = gettext("This preview isn’t available or has expired. Reload the page to see it.")
    return HttpResponse(text, status=404, content_type="text/plain; charset=utf-8")


def _of_artifact(ticket: Ticket, path: str) -> HttpResponse:
    artifact = access.get_artifact(_user(ticket), ticket.public_id)
    version = ArtifactVersion.objects.filter(artifact=artifact, number=ticket.number).first()
    if version is None or path:
        raise Http404(access.NOT_HERE)
    version.artifact = artifact
    form = form_of(version)
    if form not in ("html", "svg"):
        raise Http404(access.NOT_HERE)
    text = version.content if form == "html" else _SVG_PAGE + version.content
    body = _reporting(text.encode("utf-8", "replace"), ticket)
    return HttpResponse(body, content_type="text/html; charset=utf-8")


def _of_mockup(ticket: Ticket, path: str) -> HttpResponse:
    mockup = access.get_mockup(_user(ticket), ticket.public_id)
    if "\0" in path:  # PostgreSQL refuses such a text even in a condition.
        raise Http404(access.NOT_HERE)
    file = (
        MockupFile.objects.filter(
            version__mockup=mockup,
            version__number=ticket.number,
            path=path,
            status=FetchStatus.STORED,
        )
        .select_related("file")
        .first()
    )
    if file is None or file.file is None:
        raise Http404(access.NOT_HERE)
    suffix = PurePosixPath(path).suffix[1:].lower()
    media_type = _MEDIA_TYPES.get(suffix, "application/octet-stream")
    body = file.file.body
    if media_type.startswith("text/html"):
        body = _reporting(body, ticket)
    response = HttpResponse(body, content_type=media_type)
    # The requesting document has no origin, so its own files are cross-origin for it. They carry no
    # cookie, and the address alone gives access to them anyway.
    response["Access-Control-Allow-Origin"] = "*"
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


def _reporting(body: bytes, ticket: Ticket) -> bytes:
    """The document with a script that reports errors to the page around it, if scripts run at
    all."""
    if not ticket.runs:
        return body
    # The script follows the document type: before it, browsers would use their quirks mode.
    place = _DOCUMENT_TYPE.match(body)
    at = place.end() if place else 0
    return body[:at] + _reporter() + body[at:]


def _reporter() -> bytes:
    texts = {
        "error": gettext("%(message)s (line %(line)s)"),
        "blocked": gettext("Not loaded: %(address)s"),
    }
    # A tag in a text would end the script.
    return _REPORTER.replace("$TEXTS", json.dumps(texts).replace("<", r"\u003c")).encode()


_OF_KIND: dict[str, Callable[[Ticket, str], HttpResponse]] = {
    "artifact": _of_artifact,
    "mockup": _of_mockup,
}


def _user(ticket: Ticket) -> User:
    """The user of the ticket. Access is checked again, so who lost the room has lost its
    previews."""
    user = User.objects.filter(public_id=ticket.user).first()
    if user is None:
        raise Http404(access.NOT_HERE)
    return user


def _guarded(
    request: HttpRequest, response: HttpResponse, token: str, *, runs: bool
) -> HttpResponse:
    response["Content-Security-Policy"] = _policy(request, token, runs=runs)
    response["X-Content-Type-Options"] = "nosniff"
    response["Referrer-Policy"] = "no-referrer"
    response["Cross-Origin-Opener-Policy"] = "same-origin"
    response["Cache-Control"] = "private, no-store"
    return response


def _policy(request: HttpRequest, token: str, *, runs: bool) -> str:
    """The policy names addresses instead of 'self', because a document without an origin has no
    self."""
    own = quote(request.build_absolute_uri(reverse("preview", args=[token])), safe=":/%[]")
    page = request.build_absolute_uri("/").rstrip("/")
    return "; ".join(
        (
            "sandbox allow-scripts" if runs else "sandbox",
            "default-src 'none'",
            f"script-src 'unsafe-inline' {own}" if runs else "script-src 'none'",
            f"style-src 'unsafe-inline' {own}",
            f"img-src data: {own}",
            f"font-src data: {own}",
            f"media-src data: {own}",
            "connect-src 'none'",
            "form-action 'none'",
            "frame-src 'none'",
            "base-uri 'none'",
            f"frame-ancestors {page}",
        )
    )


__all__ = ["Ticket", "form_of", "frames_previews", "has_scripts", "preview", "sign"]
