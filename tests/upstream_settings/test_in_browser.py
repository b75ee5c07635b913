"""The servers' settings in a real browser: added, listed, tested, moved, switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.in_browser import Visitor, visitor
from tests.upstream_settings.conftest import CANARY

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
    with visitor(tmp_path_factory.mktemp("settings"), migrated_database) as ada:
        yield ada


def add_server(ada: Visitor, name: str, base_url: str) -> None:
    page = ada.open("/settings/servers/add/")
    page.fill("[name=name]", name)
    page.fill("[name=key]", CANARY)
    with page.expect_response("**/settings/servers/dialect/**"):
        page.select_option("[name=dialect]", "openai_chat")
    page.fill("[name=base_url]", base_url)
    page.click("text=Add the server")
    page.wait_for_selector("#test")


def test_a_server_is_added_listed_and_tested(ada: Visitor, demo_server: str) -> None:
    add_server(ada, "Cellar", f"{demo_server}/v1/")
    page = ada.page

    page.click("#models button")
    page.wait_for_selector(".models li")
    page.click("#test .test-form button")
    page.wait_for_selector(".step")
    page.wait_for_selector("#seen .seen li")
    # It comes back when the whole answer has been put in place.
    page.wait_for_selector("#test .test-form button:enabled")
    ada.look()

    assert page.locator(".models li", has_text="tributary/demo-writer").count() == 1
    assert page.locator(".step-ok").count() == 6
    assert page.locator("#seen .seen-line:has-text('[DONE]')").is_visible()
    assert ada.complaints == []


def test_advice_of_the_test_is_applied_with_its_button(ada: Visitor, demo_server: str) -> None:
    add_server(ada, "Boathouse", f"{demo_server}/v1")
    page = ada.page
    page.click("#test .test-form button")

    page.click(".advice-line button")
    page.wait_for_selector(".advice-line .badge-good")
    ada.look()

    assert page.input_value("[name=option_replay_reasoning]") == "tool_turns"
    assert ada.complaints == []


def test_picking_a_dialect_shows_its_options_and_keeps_what_was_typed(ada: Visitor) -> None:
    page = ada.open("/settings/servers/add/")
    page.fill("[name=name]", "Typed")
    page.fill("[name=key]", CANARY)

    with page.expect_response("**/settings/servers/dialect/**"):
        page.select_option("[name=dialect]", "openai_chat")
    page.click(".options summary")
    page.select_option("[name=option_inline_think]", "assume_open")
    with page.expect_response("**/settings/servers/dialect/**"):
        page.select_option("[name=dialect]", "xerotier")
    page.wait_for_function(
        "document.querySelector('#dialect-part').textContent.includes('Xerotier')"
    )

    assert page.input_value("[name=name]") == "Typed"
    assert page.input_value("[name=key]") == CANARY
    assert page.input_value("[name=option_inline_think]") == "assume_open"
    assert [url for url in ada.requests if CANARY in url] == []


def test_the_key_is_in_no_address(ada: Visitor, demo_server: str) -> None:
    add_server(ada, "Attic", f"{demo_server}/v1")

    assert [url for url in ada.requests if CANARY in url] == []
    assert CANARY not in ada.open("/settings/servers/").content()


def test_the_switch_turns_a_row_off_without_leaving_the_page(
    ada: Visitor, demo_server: str
) -> None:
    add_server(ada, "Garage", f"{demo_server}/v1")
    page = ada.open("/settings/servers/")
    row = page.locator(".server-row", has_text="Garage")

    row.locator(".switch").click()
    page.wait_for_selector(".server-row.is-off:has-text('Garage')")
    ada.look()

    assert row.locator(".switch").get_attribute("aria-checked") == "false"
    assert ada.complaints == []


def test_hostile_servers_run_nothing(ada: Visitor) -> None:
    page = ada.open("/settings/servers/")

    page.click(".server-row >> nth=0 >> h2 a")
    page.wait_for_selector("#settings")
    ada.look()

    assert ada.complaints == []
    assert ada.foreign_requests == []


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_page_is_wider_than_the_window(ada: Visitor, width: int) -> None:
    ada.page.set_viewport_size({"width": width, "height": 800})
    page = ada.open("/settings/servers/")
    paths = [link.get_attribute("href") for link in page.locator(".server-row h2 a").all()]

    too_wide = [
        path
        for path in ["/settings/servers/", "/settings/servers/add/", *paths]
        if ada.open(path).evaluate("document.documentElement.scrollWidth") > width
    ]

    assert too_wide == []
