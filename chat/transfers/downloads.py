"""The download of an export, as a whole or from any position (RFC 9110, section 14)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header

from chat.core.threads import DatabaseThreads
from chat.jobs.chunks import CHUNK_BYTES, read_chunk
from chat.models import Job
from chat.web.files import POLICY

# Slow downloads wait between their pieces, so that a few threads are enough for many.
_threads = DatabaseThreads("downloads", size=2)
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


class FileVanished(Exception):
    """The export was deleted during its download: the connection must not end as if all had come."""


def download(request: HttpRequest, job: Job) -> HttpResponseBase:
    """The file or the requested part of it. A request for several ranges, or for one that isn't
    understood, gets the whole file, as the standard allows."""
    size = job.size_bytes
    part = _part(request, job)
    if part is not None and part[0] >= part[1]:
        response: HttpResponseBase = HttpResponse(status=416)
        response["Content-Range"] = f"bytes */{size}"
        return _described(response, job)
    first, end = part or (0, size)
    if request.method == "HEAD":
        response = HttpResponse(content_type="application/zip")
    else:
        response = StreamingHttpResponse(
            _Pieces(job.pk, first, end), content_type="application/zip"
        )
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
    response["Content-Length"] = str(end - first)
    disposition = content_disposition_header(True, job.file_name)
    response["Content-Disposition"] = disposition or "attachment"
    return _described(response, job)


def etag_of(job: Job) -> str:
    """A strong one: the file of a job that is done never changes."""
    return f'"{job.public_id.hex}"'


def _described(response: HttpResponseBase, job: Job) -> HttpResponseBase:
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = etag_of(job)
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _part(request: HttpRequest, job: Job) -> tuple[int, int] | None:
    """The first byte and the one after the last; ``None`` for the whole file. Empty if the file has
    nothing of the range."""
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    # Another file, or a date: the rest of what the browser has would not fit.
    is_other = request.headers.get("If-Range", etag_of(job)) != etag_of(job)
    if match is None or is_other:
        return None
    size = job.size_bytes
    if match[3]:
        return max(0, size - int(match[3])), size
    first = int(match[1])
    last = int(match[2]) if match[2] else size - 1
    if match[2] and last < first:
        # An invalid header is ignored.
        return None
    return first, min(last + 1, size)


class _Pieces:
    """An asynchronous iterator, because of any other Django makes a list first."""

    def __init__(self, job_pk: int, first: int, end: int) -> None:
        self._job_pk = job_pk
        self._first = first
        self._end = end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        position = self._first
        while position < self._end:
            number, offset = divmod(position, CHUNK_BYTES)
            body = await _threads.call(read_chunk, self._job_pk, number)
            part = body[offset : offset + self._end - position]
            if not part:
                raise FileVanished
            yield part
            position += len(part)
