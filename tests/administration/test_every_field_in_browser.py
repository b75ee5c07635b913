"""The administration in a real browser while every text of every record is hostile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.administration.in_browser import Administrator, administrator_at_browser
from tests.support.visitor import MARKS

pytestmark = MARKS

# Elements and attributes that only a record's text could have brought.
INJECTED = """() => { const OWN = new Set(["body hx-headers:inherited", "article hx-ignore"]); return [...document.querySelectorAll("*")].filter(element => !element.matches("#palette [role=combobox]")).filter(element =>
  (element.localName === "script" && !(element.src && new URL(element.src).origin === location.origin) && element.type !== "application/json")
  || /^(style|iframe|object|embed|base|math|marquee|hx-partial)$/.test(element.localName)
  || (element.localName === "meta" && element.httpEquiv)
  || [...element.attributes].some(({name, value}) => (/^(on|hx-|data-hx-|srcdoc)/i.test(name) && !OWN.has(`${element.localName} ${name}`))
       || (/^(href|src|action|formaction|xlink:href)$/.test(name) && /^\\s*(javascript|data:text|vbscript|\\/\\/)/i.test(value)))
).map(element => element.outerHTML.slice(0, 200)); }"""


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def ada(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: Path
) -> Iterator[Administrator]:
    folder = tmp_path_factory.mktemp("fields")
    with administrator_at_browser(folder, migrated_database, seed="every_field") as ada:
        yield ada


def test_text_of_records_never_becomes_markup(ada: Administrator) -> None:
    injected = {}
    for path in ada.pages:
        ada.open(path)
        ada.unfold()
        ada.collect_complaints()
        if found := ada.page.evaluate(INJECTED):
            injected[path] = found

    assert injected == {}
    assert ada.complaints == []
    assert ada.foreign_requests == []
    assert not [url for url in ada.requests if url.endswith("/reached")]


def test_injected_markup_is_detected(ada: Administrator) -> None:
    ada.open("/admin/")
    ada.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b onclick=hit()>x</b>')")

    found = ada.page.evaluate(INJECTED)
    ada.collect_complaints()

    assert len(found) == 1
    assert len(ada.complaints) == 1
    ada.complaints.clear()
