"""An administrator at a real browser, on a site in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.chromium import launched
from tests.support.processes.site import ROOT, Site, environment

# What the browser refused, and what would have run if it had not.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
    event => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.hit = text => window.violations.push(`ran ${text}`);
window.alert = text => window.violations.push(`alert ${text}`);
"""


@dataclass
class Visitor:
    """One tab; remembers what was asked for and what the browser complained about."""

    page: Any
    pages: list[str]
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Any:
        self.page.goto(path)
        self.look()
        return self.page

    def look(self) -> None:
        self.complaints.extend(self.page.evaluate("window.violations.splice(0)"))

    @property
    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if urlsplit(url).hostname not in ("localhost", None)]


@contextmanager
def visitor(
    folder: Path, migrated_database: Path, *, seed: str = "tests.admin.browser_seed"
) -> Iterator[Visitor]:
    from playwright.sync_api import sync_playwright

    shutil.copy(migrated_database, folder / "tributary.sqlite3")
    made = subprocess.run(
        [sys.executable, "-m", seed],
        cwd=ROOT,
        env=environment(folder),
        check=True,
        stdout=subprocess.PIPE,
    )
    seeded = json.loads(made.stdout)
    site = Site(folder, None, None)  # type: ignore[arg-type]  # seeded here
    site.start()
    try:
        with sync_playwright() as runner, launched(runner) as browser:
            context = browser.new_context(
                base_url=f"http://localhost:{site.port}", reduced_motion="reduce"
            )
            context.add_cookies(
                [
                    {
                        "name": "sessionid",
                        "value": seeded["session"],
                        "domain": "localhost",
                        "path": "/",
                    }
                ]
            )
            yield _watched(context.new_page(), seeded["pages"])
    finally:
        site.close()


def _watched(page: Any, pages: list[str]) -> Visitor:
    found = Visitor(page, pages)
    page.add_init_script(WATCH)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("dialog", lambda dialog: found.complaints.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: found.requests.append(request.url))
    return found
