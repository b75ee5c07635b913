"""Joins the log of an ended run into one compressed row."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from chat import events as canonical
from chat.core.prepared import Prepared, fetch
from chat.models import Run, RunSegment
from chat.runs import queries
from chat.runs.segments import read_raw

# Logs longer than this are read row by row; a whole one would be in memory several times.
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
        fetch(queries.REPLACE_FIRST_SEGMENT, [run.last_seq, log.compressed(), run.pk])
        fetch(queries.DELETE_OTHER_SEGMENTS, [run.pk])
        _keep_as_one(run, raw)
    return log.size_bytes + raw.size_bytes


def compact_raw(run: Run) -> None:
    """Moves the raw frames of an ended run whose log cannot be compacted, so that they can expire."""
    raw = _compressed(_raw_one_by_one(run))
    with transaction.atomic():
        fetch(queries.DROP_FRAMES_OF_SEGMENTS, [run.pk])
        _keep_as_one(run, raw)


def _keep_as_one(run: Run, raw: _Compressed) -> None:
    if raw.size_bytes:
        fetch(queries.DELETE_KEPT_FRAMES, [run.pk])
        fetch(queries.KEEP_FRAMES_AS_ONE, [run.pk, raw.compressed()])


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
    """The bytes that `zlib.compress` makes of all pieces together."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._compressor = zlib.compressobj(level=6)
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self._pieces.append(self._compressor.compress(piece))

    def compressed(self) -> bytes:
        return b"".join([*self._pieces, self._compressor.flush()])


def _is_large(run: Run) -> bool:
    ((size_bytes,),) = fetch(queries.LOG_SIZE, [run.pk])
    return bool(size_bytes) and size_bytes > LARGE_BYTES


def _rows_one_by_one(run: Run) -> Iterator[_Row]:
    for first_seq, last_seq in fetch(queries.SEGMENT_PLACES, [run.pk]):
        # No row is found if another runner has compacted the log meanwhile.
        for is_compressed, body in fetch(queries.SEGMENT_BODY, [run.pk, first_seq]):
            yield first_seq, last_seq, is_compressed, body


def _raw_one_by_one(run: Run) -> Iterator[bytes]:
    for is_compressed, body in fetch(queries.KEPT_FRAMES, [run.pk]):
        yield _plain(body, is_compressed=is_compressed)
    for first_seq, _ in fetch(queries.SEGMENT_PLACES, [run.pk]):
        for (raw,) in fetch(queries.SEGMENT_FRAMES, [run.pk, first_seq]):
            yield bytes(raw)


def _plain(body: bytes | memoryview, *, is_compressed: bool) -> bytes:
    return zlib.decompress(body) if is_compressed else bytes(body)


_whole_log: Prepared[Any] = Prepared(
    lambda run: (
        RunSegment.objects.filter(run=run)
        .order_by("first_seq")
        .values_list("first_seq", "last_seq", "is_compressed", "body")
    )
)
