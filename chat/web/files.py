"""Responses with untrusted bytes, and untrusted text as highlighted source."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat.core.pictures import PictureFacts, read_picture
from chat.core.text import without_hidden
from chat.rendering.components import safe
from chat.rendering.markdown import code_block
from chat.rendering.markdown.highlight import LANGUAGES
from chat.rendering.media import BEGINNING, sound_of
from chat.rendering.safety import reveal, storable

NAME_LENGTH = 120

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def may_be_shown(facts: PictureFacts | None) -> bool:
    """Returns whether a browser may show this as a picture."""
    return facts is not None and facts.has_at_most(settings.PICTURE_PIXELS)


def file_name(name: str) -> str:
    """A file's name for people: without folders and invisible characters."""
    last = re.split(r"[/\\]", name)[-1]
    shown = " ".join(without_hidden(last.replace("\n", " ")).split()).strip(". ")
    return shown[-NAME_LENGTH:] or gettext("picture")


_OTHER_NAMES = {"htm": "html", "mjs": "js", "cjs": "js", "h": "c", "text": "txt", "python3": "py"}


def language_of(name: str, media_type: str) -> str:
    """The highlighter's name for a language, a file suffix or a media type; empty if there is
    none."""
    subtype = media_type.rpartition("/")[2].partition(";")[0].strip()
    words = (name, PurePosixPath(name).suffix[1:], subtype, subtype.removeprefix("x-"))
    for word in (word.lower() for word in words):
        language = _OTHER_NAMES.get(word, word)
        if language in LANGUAGES:
            return language
    return ""


# --- responses: a browser can only store or show bytes that come from elsewhere -------------------

# Whatever the bytes turn out to be: no script, no form, no origin, no request.
POLICY = "sandbox; default-src 'none'"
# A single range, as media players request it. Any other range gets the whole file.
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{0,15})")


def bytes_response(
    body: bytes, name: str, *, may_show: bool = True, wanted: str = ""
) -> HttpResponse:
    """The bytes as a download. A picture or sound whose bytes really are one is shown in the page
    if ``may_show``, and a sound can be requested in parts (``wanted``). The announced media type
    decides nothing."""
    facts = read_picture(body) if may_show else None
    sound = sound_of(body[:BEGINNING])
    if facts and may_be_shown(facts):
        return _guarded(HttpResponse(body, content_type=facts.media_type), name, is_shown=True)
    name = _telling_name(name, sound)
    if sound and may_show:
        return _guarded(_part_of(body, sound[0], wanted), name, is_shown=True)
    response = HttpResponse(body, content_type="application/octet-stream")
    return _guarded(response, name, is_shown=False)


def _part_of(body: bytes, media_type: str, wanted: str) -> HttpResponse:
    """The requested part. Without ranges a player cannot seek."""
    match = _RANGE.fullmatch(wanted)
    first = int(match[1]) if match else 0
    end = min(int(match[2]) + 1 if match and match[2] else len(body), len(body))
    is_part = match is not None and first < end
    response = HttpResponse(
        body[first:end] if is_part else body,
        status=206 if is_part else 200,
        content_type=media_type,
    )
    response["Accept-Ranges"] = "bytes"
    if is_part:
        response["Content-Range"] = f"bytes {first}-{end - 1}/{len(body)}"
    return response


def _telling_name(name: str, sound: tuple[str, str] | None) -> str:
    """A name with a suffix, for a sound whose format nobody gave: players need one."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{sound[1]}" if sound and suffix == "bin" else name


def text_response(text: str, name: str) -> HttpResponse:
    """Text as a download, in whatever language it is."""
    body = text.encode("utf-8", "replace")
    return _guarded(
        HttpResponse(body, content_type="text/plain; charset=utf-8"), name, is_shown=False
    )


def archive_response(body: bytes, name: str) -> HttpResponse:
    return _guarded(HttpResponse(body, content_type="application/zip"), name, is_shown=False)


def _guarded(response: HttpResponse, name: str, *, is_shown: bool) -> HttpResponse:
    disposition = content_disposition_header(not is_shown, file_name(name))
    response["Content-Disposition"] = disposition or "attachment"
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Referrer-Policy"] = "no-referrer"
    return response


# --- text from elsewhere as highlighted source: escaped, invisible characters shown, bounded ------

# A page of this length is still easy to scroll; the download has the whole text.
SHOWN_CHARACTERS = 400_000
# A file with more control characters than this is not text.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))


def read_text(body: bytes) -> str | None:
    """The text that these bytes are in UTF-8, or ``None`` if they are something else."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if body.translate(None, _CONTROLS) != body else text


def source_code(text: str, language: str) -> tuple[SafeString, int]:
    """The code block, and how many characters of the text it shows."""
    shown = text[:SHOWN_CHARACTERS]
    return safe(code_block(reveal(storable(shown)), language)), len(shown)


def code_of(text: str, language: str) -> dict[str, Any]:
    """The context of ``artifacts/_code.html``."""
    code, shown = source_code(text, language)
    return {"code": code, "shown": shown, "total": len(text), "is_cut": shown < len(text)}
