"""The administration with every text of every record hostile, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.in_browser import Visitor, visitor

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.needs("chromium"),
]

# What only content could have brought.
STRANGE = """() => [...document.querySelectorAll("*")].filter(element =>
  (element.localName === "script" && !(element.src && new URL(element.src).origin === location.origin) && element.type !== "application/json")
  || /^(style|iframe|object|embed|base|math|marquee|hx-partial)$/.test(element.localName)
  || (element.localName === "meta" && element.httpEquiv)
  || [...element.attributes].some(({name, value}) => /^(on|hx-|data-hx-|srcdoc)/i.test(name)
       || (/^(href|src|action|formaction|xlink:href)$/.test(name) && /^\\s*(javascript|data:text|vbscript|\\/\\/)/i.test(value)))
).map(element => element.outerHTML.slice(0, 200))"""


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator[Visitor]:
    folder = tmp_path_factory.mktemp("fields")
    with visitor(folder, migrated_database, seed="tests.admin.every_field") as ada:
        yield ada


def test_no_text_of_any_record_runs_loads_or_becomes_a_part_of_the_page(ada: Visitor) -> None:
    strange = {}
    for path in ada.pages:
        response = ada.page.goto(path)
        assert response.status == 200, path
        ada.page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        ada.look()
        if found := ada.page.evaluate(STRANGE):
            strange[path] = found

    assert strange == {}
    assert ada.complaints == []
    assert ada.foreign_requests == []
    assert not [url for url in ada.requests if url.endswith("/reached")]


def test_the_look_notices_what_it_is_made_for(ada: Visitor) -> None:
    ada.open("/admin/")
    ada.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b onclick=hit()>x</b>')")
    found = ada.page.evaluate(STRANGE)
    ada.look()

    assert len(found) == 1
    assert len(ada.complaints) == 1
    ada.complaints.clear()
