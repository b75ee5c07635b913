"""The browser of the tests: Chromium without a screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

# The shell first: the same engine without the windows that nobody sees, in two thirds of the time.
NAMES = (
    "chromium-headless-shell",
    "/usr/bin/chromium",
    "chromium",
    "google-chrome",
)
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
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
ABSENT = (
    "NO CHROMIUM: install chromium-headless-shell, chromium or google-chrome; nothing of the pages"
    " was tried"
)


@contextmanager
def launched(playwright: Playwright, *arguments: str) -> Iterator[Browser]:
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM,
        args=[*ARGUMENTS, *arguments],
        # Playwright switches it off; people have it on.
        ignore_default_args=["--disable-back-forward-cache"],
    )
    yield browser
    browser.close()
