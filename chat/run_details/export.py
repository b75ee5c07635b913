"""A run as downloadable files in the format of recordings: what the server sent, and its events.

`manage.py decode` reads the first. Keys, encrypted reasoning and files in them are redacted; text
is as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chat import events as canonical
from chat.models import Run
from chat.run_details.log_pages import entries_behind
from chat.runs.public_events import public_event
from chat.runs.segments import read_raw
from chat.upstreams.redaction import redact_patterns
from chat.wire.sse import Decoder, EventTooLarge


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    name: str
    body: bytes


def export_raw(run: Run, *, with_settings: bool) -> Export | None:
    """The server's frames: ``.sse``, or ``.json`` for an answer in one piece.
    ``None`` if nothing is stored, and for somebody who may not see settings, which servers repeat in
    frames."""
    raw = read_raw(run) if with_settings else b""
    if not raw:
        return None
    is_body = raw.lstrip()[:1] == b"{"
    body = _redacted(raw) if is_body else b"".join(_redacted(frame) for frame in _frames(raw))
    return Export(name=f"{_stem(run)}.{'json' if is_body else 'sse'}", body=body)


def export_events(run: Run, *, with_settings: bool) -> Export | None:
    """The canonical events, one on each line. ``None`` if there are none."""
    decoded = (canonical.decode(entry.body) for entry in entries_behind(run.pk))
    lines = [
        _redacted(canonical.encode(public_event(event, run.public_id, with_settings=with_settings)))
        for event in decoded
    ]
    if not lines:
        return None
    return Export(name=f"{_stem(run)}.events.jsonl", body=b"\n".join([*lines, b""]))


def _stem(run: Run) -> str:
    return f"{run.dialect or 'run'}-{run.public_id.hex[:12]}"


def _frames(raw: bytes) -> Iterator[bytes]:
    """The bytes in pieces of one frame: a secret in one cannot begin in another."""
    decoder = Decoder(may_repeat=True)
    try:
        frames = decoder.feed(raw)
    except EventTooLarge as error:
        frames = error.frames
    yield from (frame.raw for frame in frames)
    yield decoder.unread()


def _redacted(text: bytes) -> bytes:
    return redact_patterns(text.decode("utf-8", "surrogateescape")).encode(
        "utf-8", "surrogateescape"
    )
