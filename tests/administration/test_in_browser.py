"""Every page of the administration in a real browser: hostile text does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.administration.in_browser import Administrator, administrator_at_browser
from tests.support.visitor import MARKS, WIDTHS

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def ada(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: Path
) -> Iterator[Administrator]:
    with administrator_at_browser(tmp_path_factory.mktemp("admin"), migrated_database) as ada:
        yield ada


# Lists whose table can be scrolled sideways.
WIDE_LISTS = """() => [...document.querySelectorAll(".table-frame:has(#result_list)")]
  .filter(frame => frame.scrollWidth > frame.clientWidth).length"""


def test_pages_fit_the_window_and_run_nothing_hostile(ada: Administrator) -> None:
    too_wide, wide_lists = [], []
    for path in ada.pages:
        ada.resize(WIDTHS[0])
        ada.open(path)
        if ada.page.evaluate(WIDE_LISTS):
            wide_lists.append(path)
        for width in WIDTHS:
            ada.resize(width)
            if ada.is_too_wide:
                too_wide.append((path, width))
        ada.unfold()
        ada.collect_complaints()

    assert ada.complaints == []
    assert ada.foreign_requests == []
    assert too_wide == []
    assert wide_lists == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_the_colours_of_the_application(ada: Administrator, scheme: str) -> None:
    ada.page.emulate_media(color_scheme=scheme)
    page = ada.open("/admin/chat/conversation/")

    colour = "getComputedStyle(document.documentElement).{}"
    surface = page.evaluate(colour.format("backgroundColor"))
    # A color is computed where it is used.
    ours = page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          probe.style.backgroundColor = "var(--surface)";
          return getComputedStyle(probe).backgroundColor;
        }"""
    )

    assert surface == ours
    assert "Inter" in page.evaluate(colour.format("fontFamily"))


def test_member_is_added_to_a_team(ada: Administrator) -> None:
    page = ada.open("/admin/chat/team/1/change/")

    page.click("text=Add another Member")
    page.select_option("[name=memberships-1-user]", label="Ada")
    page.click("[name=_save]")
    page.wait_for_selector(".notice-good")
    ada.collect_complaints()
    page = ada.open("/admin/chat/team/1/change/")

    assert page.locator("tr.has_original").count() == 2
    assert ada.complaints == []
