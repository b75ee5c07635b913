"""Hands out bytes that somebody else made, so that a browser can do nothing with them but keep them."""

from __future__ import annotations

import re

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from chat.actions.files import may_be_shown, picture_name
from chat.rendering.media import BEGINNING, read_picture, sound_of

# Whatever it turns out to be: no script, no form, no origin, no request.
POLICY = "sandbox; default-src 'none'"
# One range, as players ask for it. Of anything else they get the whole.
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{0,15})")


def bytes_response(
    body: bytes, name: str, *, may_show: bool = True, wanted: str = ""
) -> HttpResponse:
    """As a download; a picture or a sound whose bytes really are one also in the page
    (``may_show``), of a sound the part that is ``wanted``.

    The announced media type decides nothing.
    """
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
    """Without parts, a player can only go on from where it is."""
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
    """A sound whose form nobody told gets a name that players know."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{sound[1]}" if sound and suffix == "bin" else name


def text_response(text: str, name: str) -> HttpResponse:
    """Text as a download, whatever language it is in."""
    body = text.encode("utf-8", "replace")
    return _guarded(
        HttpResponse(body, content_type="text/plain; charset=utf-8"), name, is_shown=False
    )


def archive_response(body: bytes, name: str) -> HttpResponse:
    return _guarded(HttpResponse(body, content_type="application/zip"), name, is_shown=False)


def _guarded(response: HttpResponse, name: str, *, is_shown: bool) -> HttpResponse:
    disposition = content_disposition_header(not is_shown, picture_name(name))
    response["Content-Disposition"] = disposition or "attachment"
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Referrer-Policy"] = "no-referrer"
    return response
