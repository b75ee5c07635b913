"""Joins the log of an ended run into one compressed row."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from chat import events as canonical
from chat.core.prepared import Prepared, fetch
from chat.models import Run, RunSegment
from chat.runs.segments import read_raw

# Longer logs are read row by row: as a whole, each would be in memory several times.
LARGE_BYTES = 8 * 1024 * 1024

# First and last seq, whether the body is compressed, and the body.
_Row = tuple[int, int, bool, bytes | memoryview]


def compact(run: Run) -> int:
    """Joins the segments of an ended run into one compressed row; returns how many bytes of log and
    raw frames there were, or 0 if the log cannot be read as a whole and was left as it is."""
    is_large = _is_large(run)
    rows = _rows_one_by_one(run) if is_large else _whole_log.all(run=run.pk)
    log = _joined(rows, last_seq=run.last_seq)
    if log is None:
        return 0
    raw = _compressed(_raw_one_by_one(run) if is_large else [read_raw(run)])
    with transaction.atomic():
        # Replaces the first row and deletes the others, so that followers never see a gap. The
        # first row is also the lock for concurrent compactions of the same run.
        fetch(_REPLACE, [run.last_seq, log.end(), run.pk])
        fetch("DELETE FROM chat_runsegment WHERE run_id = %s AND first_seq > 1", [run.pk])
        _keep_as_one(run, raw)
    return log.size_bytes + raw.size_bytes


def compact_raw(run: Run) -> None:
    """Moves the raw frames of an ended run whose log cannot be compacted, so that they can expire."""
    raw = _compressed(_raw_one_by_one(run))
    with transaction.atomic():
        fetch(_RAW_AWAY, [run.pk])
        _keep_as_one(run, raw)


def _keep_as_one(run: Run, raw: _Compressed) -> None:
    if raw.size_bytes:
        fetch("DELETE FROM chat_rawsegment WHERE run_id = %s", [run.pk])
        fetch(_RAW_AS_ONE, [run.pk, raw.end()])


def _joined(rows: Iterable[_Row], *, last_seq: int | None) -> _Compressed | None:
    """The list of all events, unless one is missing. Raises whatever a body that is none of ours makes
    of itself."""
    log, last = _Compressed(), 0
    for first, through, is_compressed, stored in rows:
        body = _plain(stored, is_compressed=is_compressed)
        if first != last + 1 or through != last + len(canonical.split_bodies(body)):
            return None
        log.add((b"," if last else b"[") + body[1:-1])
        last = through
    log.add(b"]")
    return log if last and last == last_seq else None


def _compressed(pieces: Iterable[bytes]) -> _Compressed:
    compressed = _Compressed()
    for piece in pieces:
        compressed.add(piece)
    return compressed


class _Compressed:
    """What `zlib.compress` makes of all pieces together."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._compressor = zlib.compressobj(level=6)
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self._pieces.append(self._compressor.compress(piece))

    def end(self) -> bytes:
        return b"".join([*self._pieces, self._compressor.flush()])


def _is_large(run: Run) -> bool:
    ((size_bytes,),) = fetch(_SIZE, [run.pk])
    return bool(size_bytes) and size_bytes > LARGE_BYTES


def _rows_one_by_one(run: Run) -> Iterator[_Row]:
    for first_seq, last_seq in fetch(_PLACES, [run.pk]):
        # Nothing if another runner has compacted the log meanwhile.
        for is_compressed, body in fetch(_BODY, [run.pk, first_seq]):
            yield first_seq, last_seq, is_compressed, body


def _raw_one_by_one(run: Run) -> Iterator[bytes]:
    for is_compressed, body in fetch(_KEPT_RAW, [run.pk]):
        yield _plain(body, is_compressed=is_compressed)
    for first_seq, _ in fetch(_PLACES, [run.pk]):
        for (raw,) in fetch(_FRAMES, [run.pk, first_seq]):
            yield bytes(raw)


def _plain(body: bytes | memoryview, *, is_compressed: bool) -> bytes:
    return zlib.decompress(body) if is_compressed else bytes(body)


_SIZE = """
    SELECT SUM(LENGTH(body) + COALESCE(LENGTH(raw), 0)) FROM chat_runsegment WHERE run_id = %s
"""
_PLACES = "SELECT first_seq, last_seq FROM chat_runsegment WHERE run_id = %s ORDER BY first_seq"
_BODY = "SELECT is_compressed, body FROM chat_runsegment WHERE run_id = %s AND first_seq = %s"
_FRAMES = """
    SELECT raw FROM chat_runsegment WHERE run_id = %s AND first_seq = %s AND raw IS NOT NULL
"""
_KEPT_RAW = "SELECT is_compressed, body FROM chat_rawsegment WHERE run_id = %s ORDER BY position"
_REPLACE = """
    UPDATE chat_runsegment SET last_seq = %s, is_compressed = TRUE, body = %s, raw = NULL
    WHERE run_id = %s AND first_seq = 1
"""
_RAW_AS_ONE = """
    INSERT INTO chat_rawsegment (run_id, position, is_compressed, body) VALUES (%s, 0, TRUE, %s)
"""
_RAW_AWAY = "UPDATE chat_runsegment SET raw = NULL WHERE run_id = %s AND raw IS NOT NULL"
_whole_log: Prepared[Any] = Prepared(
    lambda run: (
        RunSegment.objects.filter(run=run)
        .order_by("first_seq")
        .values_list("first_seq", "last_seq", "is_compressed", "body")
    )
)
