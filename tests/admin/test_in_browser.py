"""Every page of the admin in a real browser: nothing hostile runs, and no policy is broken."""

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


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator[Visitor]:
    with visitor(tmp_path_factory.mktemp("admin"), migrated_database) as ada:
        yield ada


def test_no_page_runs_loads_or_breaks_anything(ada: Visitor) -> None:
    for path in ada.pages:
        ada.open(path)
        ada.page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        ada.look()

    assert ada.complaints == []
    assert ada.foreign_requests == []


WIDTHS = (360, 768, 1280)


def test_no_page_is_wider_than_the_window(ada: Visitor) -> None:
    too_wide = []
    for path in ada.pages:
        ada.page.set_viewport_size({"width": WIDTHS[0], "height": 800})
        page = ada.open(path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                too_wide.append((path, width))

    assert too_wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_admin_wears_our_colours(ada: Visitor, scheme: str) -> None:
    ada.page.emulate_media(color_scheme=scheme)
    page = ada.open("/admin/chat/conversation/")

    colour = "getComputedStyle(document.body).{}"
    surface = page.evaluate(colour.format("backgroundColor"))
    ours = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--surface').trim()"
    )

    assert surface == ours
    assert "Inter" in page.evaluate(colour.format("fontFamily"))


def test_a_member_is_added_on_the_page_of_a_team(ada: Visitor) -> None:
    page = ada.open("/admin/chat/team/1/change/")

    page.click("text=Add another Membership")
    page.select_option("[name=memberships-1-user]", label="Ada")
    page.click("[name=_continue]")
    page.wait_for_selector(".messagelist .success")
    ada.look()

    assert page.locator("tr.has_original").count() == 2
    assert ada.complaints == []
