"""The browser of most tests: Chromium without a screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.machine import require

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A key scrolls at once, and not for as long as an animation takes.
    "--disable-smooth-scrolling",
)


@contextmanager
def launched(playwright: Playwright, *arguments: str) -> Iterator[Browser]:
    """Skips the test where there is no Chromium."""
    browser = playwright.chromium.launch(
        executable_path=require("chromium"),
        args=[*ARGUMENTS, *arguments],
        # Playwright switches it off; people have it on.
        ignore_default_args=["--disable-back-forward-cache"],
    )
    yield browser
    browser.close()
