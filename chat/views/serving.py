"""Hands out bytes that somebody else made, so that a browser can do nothing with them but keep them."""

from __future__ import annotations

import re

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from chat.actions.files import may_be_shown, picture_name
from chat.actions.pictures import read_picture

# Whatever it turns out to be: no script, no form, no origin, no request.
POLICY = "sandbox; default-src 'none'"
# How a sound begins, so that one whose form nobody told gets a name that players know.
_SOUNDS = (
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "wav"),
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "mp3"),
    (re.compile(rb"OggS"), "ogg"),
    (re.compile(rb"fLaC"), "flac"),
)


def bytes_response(body: bytes, name: str, *, may_show: bool = True) -> HttpResponse:
    """As a download; a picture whose bytes really are one also in the page (``may_show``).

    The announced media type decides nothing.
    """
    facts = read_picture(body) if may_show else None
    is_shown = may_be_shown(facts)
    media_type = facts.media_type if facts and is_shown else "application/octet-stream"
    response = HttpResponse(body, content_type=media_type)
    return _guarded(response, _telling_name(name, body), is_shown=is_shown)


def _telling_name(name: str, body: bytes) -> str:
    stem, _, suffix = name.rpartition(".")
    if suffix != "bin":
        return name
    return next((f"{stem}.{end}" for begin, end in _SOUNDS if begin.match(body)), name)


def text_response(text: str, name: str) -> HttpResponse:
    """Text as a download, whatever language it is in."""
    body = text.encode("utf-8", "replace")
    return _guarded(
        HttpResponse(body, content_type="text/plain; charset=utf-8"), name, is_shown=False
    )


def _guarded(response: HttpResponse, name: str, *, is_shown: bool) -> HttpResponse:
    disposition = content_disposition_header(not is_shown, picture_name(name))
    response["Content-Disposition"] = disposition or "attachment"
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Referrer-Policy"] = "no-referrer"
    return response
