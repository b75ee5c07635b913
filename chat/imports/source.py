"""Starts the reader of an export in its child process, with this installation's limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import closing
from typing import BinaryIO

import msgspec
from django.conf import settings
from django.utils.translation import get_language, gettext, to_locale

from chat.core.errors import ActionRefused
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, read_in_child
from chat.imports import limits
from chat.imports.frames import Broken, Message, Order, decode

logger = logging.getLogger(__name__)

_READER = "chat.imports.reader:read_export"
# Seconds of the processor for any file, and for each of its megabytes. A file of 300 MB of JSON
# takes about a minute; brackets without content take ten times as long.
CPU_SECONDS = 120
CPU_SECONDS_PER_MEGABYTE = 1
# The machine may be busy, and the child has the lowest priority.
WAIT_FACTOR = 5
# A conversation is in the child's memory this many times while it is read: its bytes, their text,
# the values made of it, and the files in it.
COPIES = 4


class ImportRefused(ActionRefused):
    """The whole file is refused."""

    status = 422


class ReaderKilled(ImportRefused):
    """The reader was killed because it used too much time or memory. The same bytes would do it
    again."""


def read_messages(
    file: BinaryIO,
    *,
    format_name: str = "",
    known: dict[str, dict[str, str]] | None = None,
    check: Callable[[], None] | None = None,
) -> Generator[Message, None, None]:
    """Yields the messages of the reader. ``known`` has the digests of earlier imports (`Order`),
    and ``check`` is called while the reader works. Raises ``ImportRefused``. Close the iterator to
    end the child."""
    megabytes = file.seek(0, 2) // limits.MEGABYTE
    cpu_seconds = CPU_SECONDS + CPU_SECONDS_PER_MEGABYTE * megabytes
    order = Order(
        format_name=format_name,
        known=known or {},
        limits=limits_here(),
        language=to_locale(get_language() or settings.LANGUAGE_CODE),
        catalogs=tuple(str(path) for path in settings.LOCALE_PATHS),
    )
    frames = read_in_child(
        _READER,
        file,
        msgspec.json.encode(order),
        limits=Limits(
            memory_bytes=settings.IMPORT_MEMORY_BYTES,
            cpu_seconds=cpu_seconds,
            wait_seconds=cpu_seconds * WAIT_FACTOR,
            frame_bytes=settings.IMPORT_MEMORY_BYTES // 2,
            output_bytes=limits.TOTAL_BYTES,
        ),
        check=check,
    )
    with closing(frames):
        try:
            yield from decode(frames, most_bytes=settings.IMPORT_MEMORY_BYTES)
        except Refused as refusal:
            raise ImportRefused(str(refusal)) from None
        except ChildKilled as killed:
            raise ReaderKilled(str(killed)) from None
        except Broken:
            logger.warning("child.broken reader=%s", _READER)
            words = gettext("Reading the file was stopped, because it makes the reader fail.")
            raise ReaderKilled(words) from None


def limits_here() -> limits.Limits:
    return limits.Limits(
        conversation_bytes=settings.IMPORT_MEMORY_BYTES // COPIES,
        picture_bytes=settings.PICTURE_BYTES,
        picture_pixels=settings.PICTURE_PIXELS,
        file_bytes=settings.MAX_UPLOAD_BYTES,
        run_bytes=settings.RUN_BYTES,
        mockup_files=settings.MOCKUP_FILES,
        mockup_file_bytes=settings.MOCKUP_FILE_BYTES,
    )
