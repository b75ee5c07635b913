"""Every component is accessible, also to mild rules, in each of its states; `make screenshots` looks
at them on every display."""

from collections.abc import Callable
from itertools import cycle

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.displays import (
    DESKTOP_LIGHT,
    TWO_DISPLAYS,
    open_details,
    serious_findings_now,
)
from tests.support.browser.people import OpenTab


def open_menu(name: str) -> Callable[[Page], None]:
    def open_it(page: Page) -> None:
        page.locator(f"#menus summary[aria-label='{name}']").click()
        expect(page.locator("#menus [open] .menu-items")).to_be_visible()

    return open_it


def open_combobox(page: Page) -> None:
    page.locator(".combobox-button").click()
    expect(page.locator("#comboboxes").get_by_role("option").first).to_be_visible()


def open_dialog(page: Page) -> None:
    page.get_by_role("button", name="Open the dialog").click()
    expect(page.locator("#guide-dialog")).to_be_visible()


# Each state, and what of the page it changes; all else is as in the first one.
STATES: dict[str, tuple[Callable[[Page], None], str]] = {
    "everything unfolded": (open_details, ""),
    "menu": (open_menu("Actions"), "#menus"),
    "menu with a form": (open_menu("Rename"), "#menus"),
    "menu upward": (open_menu("Actions that open upward"), "#menus"),
    "combobox": (open_combobox, "#comboboxes"),
    "dialog": (open_dialog, "#guide-dialog"),
}


def test_style_guide_is_accessible(tab: OpenTab, subtests: pytest.Subtests) -> None:
    ada = tab("Ada", "/styleguide/")

    for (name, (open_state, within)), display in zip(STATES.items(), cycle(TWO_DISPLAYS)):
        with subtests.test(msg=name):
            display.show(ada.page)
            ada.reload()
            open_state(ada.page)

            assert serious_findings_now(ada.page, display, within=within, also_mild=True) == []


def test_mild_findings_are_found(tab: OpenTab) -> None:
    ada = tab("Ada", "/styleguide/")
    ada.page.evaluate("() => document.querySelector('#menus h2').outerHTML = '<h6>Menu</h6>'")

    found = serious_findings_now(ada.page, DESKTOP_LIGHT, also_mild=True)

    assert [each for each in found if "heading-order" in each]
