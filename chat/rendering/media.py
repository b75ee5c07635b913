"""Images, sounds and other media in answers, recognized by their bytes."""

from __future__ import annotations

import base64
import binascii
import re
from itertools import islice
from typing import ClassVar
from uuid import UUID

from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from chat.events import MediaUpdate
from chat.rendering import figures
from chat.rendering.components import SHOWN_ENTRIES, Card, fill, more_note, name_of, safe
from chat.rendering.safety import host_of, is_safe_link, storable
from chat.result import media_name

# Pictures are part of the page; larger ones are only named.
PICTURE_CHARACTERS = 4 * 1024 * 1024
PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")

_ADDRESS = re.compile(r"data:(image/[a-z]+);base64,")


def is_picture(media_type: str, data: str) -> bool:
    """Returns whether ``data``, base64, may be shown as a picture of this type."""
    is_small = 0 < len(data) <= PICTURE_CHARACTERS
    return media_type in PICTURE_TYPES and is_small and _is_base64(data)


def _is_base64(data: str) -> bool:
    return data.isascii() and data.replace("+", "").replace("/", "").rstrip("=").isalnum()


def picture_of(media_type: str, data: str) -> SafeString:
    """The picture as HTML; empty if it is not a picture."""
    if not is_picture(media_type, data):
        return safe("")
    return fill("picture", source=safe(f"data:{media_type};base64,{data}"))


def picture_of_address(address: str) -> SafeString:
    """The same for a ``data:`` URL."""
    match = _ADDRESS.match(address)
    return picture_of(match.group(1), address[match.end() :]) if match else safe("")


# Bytes that are needed to recognize a sound.
BEGINNING = 12

# Type and suffix. AAC before MP3: both begin with eleven set bits.
_SOUNDS = (
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav", "wav"),
    (re.compile(rb"\xff[\xf0\xf1\xf8\xf9]"), "audio/aac", "aac"),
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg", "mp3"),
    (re.compile(rb"OggS"), "audio/ogg", "ogg"),
    (re.compile(rb"fLaC"), "audio/flac", "flac"),
    (re.compile(rb"....ftypM4A ", re.DOTALL), "audio/mp4", "m4a"),
)


def sound_of(begin: bytes) -> tuple[str, str] | None:
    """Media type and suffix of a sound that browsers play, by its first bytes; ``None`` for other data."""
    found = (each for each in _SOUNDS if each[0].match(begin))
    return next(((media_type, suffix) for _, media_type, suffix in found), None)


def sound_in(data: str) -> tuple[str, str] | None:
    """The same for Base64."""
    try:
        return sound_of(base64.b64decode(data[: BEGINNING * 4 // 3], validate=True))
    except (binascii.Error, ValueError):
        return None


class Media(Card):
    """An item with media: pictures, and the names of files that the page cannot show."""

    kind: ClassVar[str] = "media"
    classes = "item card media"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq)
        # An item may have several media; those with bytes are numbered.
        self.media: dict[str, _Medium] = {}
        self._with_bytes = 0

    def update(self, event: MediaUpdate, seq: int) -> None:
        medium = self.media.setdefault(event.media_id, _Medium())
        if event.data and not medium.place:
            run = UUID(self.id[1:33])
            medium.place = f"/r/{run}/media/{event.choice}/{event.item}/{self._with_bytes}/"
            medium.name = media_name(event, self._with_bytes)
            self._with_bytes += 1
        medium.add(event)
        self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        """Ends all media with the answer, because not every dialect says that a medium is final. The
        transaction that writes the end keeps the bytes; from then on a sound can be played."""
        for medium in self.media.values():
            medium.is_kept = bool(medium.place)
            if medium.is_kept and medium.sound:
                self.touch(seq)
            if medium.state == _GROWING:
                medium.state = "" if status in _WHOLE else _BROKEN_OFF
                self.touch(seq)

    def content(self) -> str:
        shown = islice(self.media.values(), SHOWN_ENTRIES)
        rest = more_note(len(self.media) - SHOWN_ENTRIES)
        return "".join(medium.content() for medium in shown) + rest


# Statuses after which the media of an answer are complete.
_WHOLE = ("completed", "waiting", "paused")
# States of a medium that is not whole.
_GROWING, _BROKEN_OFF = gettext_noop("in progress"), gettext_noop("incomplete")
_FILE = gettext_noop("File")
# First part of a media type -> icon and label.
_MEDIA = {
    "image": ("image", gettext_noop("Image")),
    "audio": ("volume-2", gettext_noop("Audio")),
    "text": ("file", gettext_noop("Text")),
}


class _Medium:
    """One medium. `chat.files.answer_files` assembles its file."""

    def __init__(self) -> None:
        self.media_type = self.picture = self.url = self.state = ""
        # Address and name of the stored file, when the answer has ended.
        self.place = self.name = ""
        self.is_kept = False
        # Media type and suffix of a sound, by its bytes.
        self.sound: tuple[str, str] | None = None
        self.size_bytes = 0
        self.transcripts: list[str] = []

    def add(self, event: MediaUpdate) -> None:
        """Replaces partial data by final data. Partial sound is appended; a partial picture replaces the
        one before it."""
        is_final = event.state == "final"
        self.state = "" if is_final else _GROWING
        self.media_type = event.media_type
        self.url = event.url or self.url
        if event.data:
            goes_on = not is_final and event.media_type.startswith("audio/")
            if not goes_on or not self.size_bytes:
                self.sound = sound_in(event.data)
            self.size_bytes = (self.size_bytes if goes_on else 0) + _size_of_base64(event.data)
            is_shown = is_picture(event.media_type, event.data)
            self.picture = f"data:{event.media_type};base64,{event.data}" if is_shown else ""
        if event.transcript:
            if is_final:
                self.transcripts.clear()
            self.transcripts.append(event.transcript)

    def content(self) -> SafeString:
        icon, kind = _MEDIA.get(self.media_type.partition("/")[0], ("file", _FILE))
        name = gettext(kind)
        url = self.url if is_safe_link(self.url) else ""
        transcript = storable("".join(self.transcripts))
        if kind == _FILE and transcript:
            # The description of a file is its name.
            name, transcript = name_of(transcript), ""
        return fill(
            "media",
            icon=icon,
            name=name,
            picture=self.picture,
            form=_form_of(self.media_type),
            state=gettext(self.state) if self.state else "",
            size=figures.size(self.size_bytes) if self.size_bytes else "",
            url=url,
            host=name_of(host_of(url)),
            sound=self.place if self.is_kept and self.sound else "",
            file=self._file_name(),
            transcript=transcript,
            hint="" if self.picture else self._hint(url),
        )

    def _file_name(self) -> str:
        stem, _, suffix = self.name.rpartition(".")
        return f"{stem}.{self.sound[1]}" if self.sound and suffix == "bin" else self.name

    def _hint(self, url: str) -> str:
        """A note about what the page does not show."""
        if self.size_bytes and self.state == _GROWING:
            if self.sound:
                return gettext("You can play it when the answer is complete.")
            return gettext("You can download it when the answer is complete.")
        if self.sound and self.is_kept:
            return ""
        if self.size_bytes:
            return gettext("Preview isn’t available. Download it from Files below the answer.")
        if url or self.transcripts:
            return ""
        return gettext("Preview isn’t available for this file type.")


def _form_of(media_type: str) -> str:
    """``PNG`` of ``image/png``; nothing where the type says nothing, which a star does too."""
    family, _, form = media_type.partition("/")
    if form in ("*", "octet-stream"):
        return ""
    is_short = family in _MEDIA and form.isalnum() and len(form) <= 4
    return form.upper() if is_short else name_of(media_type)


def _size_of_base64(data: str) -> int:
    return (len(data) - data[-2:].count("=")) * 3 // 4
