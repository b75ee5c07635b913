"""A person at a real browser on a site in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.support.chromium import launched
from tests.support.processes.site import ROOT, Site, environment

MARKS = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.needs("chromium"),
]
# What the browser refused, and what would have run if it had not.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
    event => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.hit = text => window.violations.push(`ran ${text}`);
window.alert = text => window.violations.push(`alert ${text}`);
"""
# A phone, a tablet, a desk.
WIDTHS = (360, 768, 1280)
# By how many pixels the page is wider than the window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as runner, launched(runner) as browser:
        yield browser


@contextmanager
def new_site(folder: Path, migrated_database: Path) -> Iterator[Site]:
    """A site that nobody has set up, not started yet."""
    shutil.copy(migrated_database, folder / "tributary.sqlite3")
    site = Site(folder, None, None)  # type: ignore[arg-type]  # nothing is seeded
    try:
        yield site
    finally:
        site.close()


def run_python(site: Site, *arguments: str) -> str:
    """Runs a command on the site's data; what it printed."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(site.folder),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


class Visitor:
    """One tab of a browser profile. Keeps what the page requested and the browser complained about.

    ``options`` are those of Playwright's ``new_context``.
    """

    def __init__(self, browser: Browser, site: Site, *, session: str = "", **options: Any) -> None:
        url = f"http://localhost:{site.port}"
        self._context = browser.new_context(base_url=url, reduced_motion="reduce", **options)
        if session:
            cookie = {"name": "sessionid", "value": session, "url": url}
            self._context.add_cookies([cookie])  # type: ignore[list-item]
        self.page: Page = self._context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.add_init_script(WATCH)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._on_dialog)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, path: str) -> Page:
        response = self.page.goto(path)
        assert response is not None
        assert response.ok, f"{path}: {response.status}"
        self.collect_complaints()
        return self.page

    def collect_complaints(self) -> None:
        """Call it before the page is left: what the browser refused is kept in the page."""
        self.complaints += self.page.evaluate("window.violations.splice(0)")

    def unfold(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            self.page.fill(f"[name={name}]", value)

    def press(self, words: str) -> None:
        self.page.click(f"button:has-text('{words}') >> visible=true")
        self.page.wait_for_load_state()

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 800})

    @property
    def is_too_wide(self) -> bool:
        """True if the page can be scrolled sideways."""
        return bool(self.page.evaluate(OVERFLOW) > 0)

    def state(self) -> Any:
        """The profile's cookies, for another visitor's ``storage_state``."""
        return self._context.storage_state()

    @property
    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if urlsplit(url).hostname not in ("localhost", None)]
