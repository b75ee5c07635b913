"""Downloads of a conversation, and the page that is printed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from tempfile import SpooledTemporaryFile
from typing import IO
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from chat import access
from chat.access import NOT_HERE
from chat.exports.forms import FORMS
from chat.exports.html_form import write_html
from chat.exports.names import stem_of
from chat.exports.reading import read_source
from chat.web.confirmation import confirmed_recently
from chat.web.decorators import login_required
from chat.web.files import POLICY

# Larger documents are in a temporary file until they are sent.
IN_MEMORY_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024


@confirmed_recently(gives_file=True)
@login_required
@require_GET
def download(request: HttpRequest, public_id: UUID, form: str) -> HttpResponseBase:
    if form not in FORMS:
        raise Http404(NOT_HERE)
    conversation = access.get_conversation(request.user, public_id)
    chosen = FORMS[form]
    response = _sent(chosen.write(read_source(request.user, conversation)), chosen.media_type)
    name = f"{stem_of(conversation)}.{chosen.suffix}"
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    return response


@login_required
@require_GET
def printed(request: HttpRequest, public_id: UUID) -> HttpResponseBase:
    conversation = access.get_conversation(request.user, public_id)
    source = read_source(request.user, conversation)
    return _sent(write_html(source, is_page=True), "text/html; charset=utf-8")


def _sent(parts: Iterator[bytes], media_type: str) -> StreamingHttpResponse:
    """The document, written completely before anything is sent: an unreadable log is an error
    instead of half a file, and no slow client holds the database."""
    file = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - closed with the response
    for part in parts:
        file.write(part)
    size = file.tell()
    file.seek(0)
    response = StreamingHttpResponse(_Chunks(file), content_type=media_type)
    response["Content-Length"] = str(size)
    return response


class _Chunks:
    """The content of a file for an asynchronous server: Django would turn another iterator into a
    list. Reading a chunk that was just written takes microseconds."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := self._file.read(CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        self._file.close()
