"""Reads HTML in a child process with limits, as a hostile page can make any parser slow."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import msgspec

from chat.tools.web import readable
from chat.tools.web.readable import ReadablePage

# With the start of the process, and on a busy machine.
WAIT_SECONDS = 20.0


class Unreadable(Exception):
    """The page took more time or memory than it may."""


async def read_html(html: str, url: str) -> ReadablePage:
    """The readable text of the page at ``url``. Raises ``Unreadable``. The process ends with a cancellation, too."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", readable.__file__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            given = msgspec.json.encode({"html": html, "url": url})
            written, _ = await process.communicate(given)
    except TimeoutError:
        raise Unreadable from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        found = msgspec.json.decode(written, type=dict[str, str])
    except msgspec.DecodeError:
        raise Unreadable from None
    return ReadablePage(title=found["title"], text=found["text"])
