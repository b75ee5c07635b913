"""Reads HTML in a child process with limits, as a hostile page can make any parser slow."""

from __future__ import annotations

import asyncio
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import msgspec

from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, read_in_child
from chat.documents.readers.html import ReadablePage

_READER = "chat.documents.readers.html:read_frames"
_MEGABYTE = 1024 * 1024
# A page of five megabytes of short paragraphs takes most of this time and memory; others take a tenth.
LIMITS = Limits(
    memory_bytes=256 * _MEGABYTE,
    cpu_seconds=3,
    wait_seconds=8,
    frame_bytes=64 * _MEGABYTE,
    output_bytes=64 * _MEGABYTE,
)
# Own threads, so that hostile pages wait for each other and not the rest of the process for them. Their number bounds
# what all children take.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="read-page")


class Unreadable(Exception):
    """The page took more time or memory than it may."""


class _Canceled(Exception):
    """Nobody waits for the page any more."""


async def read_html(html: str, url: str) -> ReadablePage:
    """The readable text of the page at ``url``. Raises ``Unreadable``. With a cancellation the child ends, too."""
    is_canceled = threading.Event()
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(_threads, _read, html, url, is_canceled)
    except (ChildKilled, Refused):
        raise Unreadable from None
    finally:
        is_canceled.set()


def _read(html: str, url: str, is_canceled: threading.Event) -> ReadablePage:
    def check() -> None:
        if is_canceled.is_set():
            raise _Canceled

    frames = read_in_child(
        _READER, io.BytesIO(html.encode()), url.encode(), limits=LIMITS, check=check
    )
    with closing(frames):
        found = msgspec.json.decode(next(frames), type=dict[str, str])
    return ReadablePage(title=found["title"], text=found["text"])
