"""Every component is accessible, in light and in dark colors, on a phone and on a desktop."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.displays import DESKTOP, Display, open_details, serious_findings_now
from tests.support.browser.people import OpenTab

NARROW = {"width": 360, "height": 740}
DISPLAYS = [
    Display(f"{size['width']} px {colors}", size, colors)  # type: ignore[arg-type]
    for size in (NARROW, DESKTOP)
    for colors in ("light", "dark")
]


def open_menu(name: str) -> Callable[[Page], None]:
    def open_it(page: Page) -> None:
        page.locator(f"#menus summary[aria-label='{name}']").click()
        expect(page.locator("#menus [open] .menu-items")).to_be_visible()

    return open_it


def open_combobox(page: Page) -> None:
    page.locator(".combobox-button").click()
    expect(page.get_by_role("option").first).to_be_visible()


def open_dialog(page: Page) -> None:
    page.get_by_role("button", name="Open the dialog").click()
    expect(page.locator("#guide-dialog")).to_be_visible()


STATES: dict[str, Callable[[Page], None]] = {
    "everything unfolded": open_details,
    "menu": open_menu("Actions"),
    "menu with a form": open_menu("Rename"),
    "menu upward": open_menu("Actions that open upward"),
    "combobox": open_combobox,
    "dialog": open_dialog,
}


@pytest.mark.parametrize("display", DISPLAYS, ids=str)
def test_style_guide_is_accessible(
    tab: OpenTab, subtests: pytest.Subtests, display: Display
) -> None:
    ada = tab("Ada", "/styleguide/")
    display.show(ada.page)

    for name, open_state in STATES.items():
        with subtests.test(msg=name):
            ada.reload()
            open_state(ada.page)

            assert serious_findings_now(ada.page, display, also_mild=True) == []


def test_mild_findings_are_found(tab: OpenTab) -> None:
    ada = tab("Ada", "/styleguide/")
    ada.page.evaluate("() => document.querySelector('#menus h2').outerHTML = '<h6>Menu</h6>'")

    found = serious_findings_now(ada.page, DISPLAYS[-1], also_mild=True)

    assert [each for each in found if "heading-order" in each]
