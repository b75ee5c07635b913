"""An administrator at a real browser, on a site full of hostile text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.visitor import Visitor, chromium, new_site, run_python


class Administrator(Visitor):
    # Those that show the hostile text.
    pages: list[str]


@contextmanager
def administrator_at_browser(
    folder: Path, migrated_database: Path, *, seed: str = "hostile"
) -> Iterator[Administrator]:
    """``seed`` is a kind of `tests.administration.browser_seed`."""
    with new_site(folder, migrated_database) as site:
        seeded = json.loads(run_python(site, "-m", "tests.administration.browser_seed", seed))
        site.start()
        with chromium() as browser:
            ada = Administrator(browser, site, session=seeded["session"])
            ada.pages = seeded["pages"]
            yield ada
