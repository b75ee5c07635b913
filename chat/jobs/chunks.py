"""The files of jobs: written as a stream, and read from any position, in pieces of 1 MiB."""

from __future__ import annotations

import io
from uuid import UUID

from django.db import transaction
from django.db.models import F

from chat.core.ranged_file import RangedFile
from chat.jobs import actions
from chat.jobs.kinds import JobStopped
from chat.models import Job, JobChunk

# On SQLite other writers wait while a piece is written, which takes some milliseconds.
CHUNK_BYTES = 1024 * 1024


class TooLarge(Exception):
    """The file would have more bytes than it may have."""


class ChunkWriter:
    """The file that a job makes, for `zipfile`, which only needs ``write`` and ``flush``. It begins
    empty. Raises ``TooLarge``, and ``JobStopped`` if another runner has the job."""

    def __init__(self, job: Job, lease: UUID, *, most_bytes: int) -> None:
        self._job = job
        self._lease = lease
        self._most_bytes = most_bytes
        self._pending = bytearray()
        self._number = 0
        with transaction.atomic():
            self._change_size(0)
            # An interrupted attempt may have left chunks.
            JobChunk.objects.filter(job=job).delete()

    def write(self, data: bytes) -> int:
        self._pending += data
        while len(self._pending) >= CHUNK_BYTES:
            self._store(bytes(self._pending[:CHUNK_BYTES]))
            del self._pending[:CHUNK_BYTES]
        return len(data)

    def flush(self) -> None:
        """Does nothing: ``write`` stores whole chunks, and ``close`` the rest."""

    def close(self) -> None:
        if self._pending:
            self._store(bytes(self._pending))
            self._pending.clear()

    def _store(self, body: bytes) -> None:
        if self._number * CHUNK_BYTES + len(body) > self._most_bytes:
            raise TooLarge
        with transaction.atomic():
            # First, because it locks the row: nobody else can claim the job meanwhile.
            self._change_size(F("size_bytes") + len(body))
            JobChunk.objects.create(job=self._job, number=self._number, body=body)
        self._number += 1

    def _change_size(self, size_bytes: object) -> None:
        if not actions.held_by(self._job, self._lease).update(size_bytes=size_bytes):
            raise JobStopped("lost")


def read_chunk(job_pk: int, number: int) -> bytes:
    """A piece of the file; empty if there is none (any more)."""
    rows = JobChunk.objects.filter(job_id=job_pk, number=number)
    return bytes(rows.values_list("body", flat=True).first() or b"")


class ChunkReader(RangedFile):
    """The file of a job. A piece is loaded when something of it is read."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.size_bytes)
        self._job = job
        self._number = -1
        self._body = b""

    def read_range(self, offset: int, length: int) -> bytes:
        number, start = divmod(offset, CHUNK_BYTES)
        if number != self._number:
            self._number, self._body = number, read_chunk(self._job.pk, number)
        return self._body[start : start + length]


def open_file(job: Job) -> io.BufferedReader:
    return io.BufferedReader(ChunkReader(job), CHUNK_BYTES)
