"""The settings of servers in a real browser: added, tested, moved, switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.administration.in_browser import Administrator, administrator_at_browser
from tests.servers.conftest import CANARY
from tests.support.visitor import MARKS, WIDTHS

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def ada(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: Path
) -> Iterator[Administrator]:
    with administrator_at_browser(tmp_path_factory.mktemp("settings"), migrated_database) as ada:
        yield ada


def choose_dialect(ada: Administrator, dialect: str) -> None:
    with ada.page.expect_response("**/settings/servers/dialect/**"):
        ada.page.select_option("[name=dialect]", dialect)


def add_server(ada: Administrator, name: str, base_url: str) -> None:
    ada.open("/settings/servers/add/")
    ada.fill(name=name, key=CANARY)
    choose_dialect(ada, "openai_chat")
    ada.fill(base_url=base_url)
    ada.page.click("#settings .button-primary")
    ada.page.wait_for_selector("#test")


def test_server_is_added_listed_and_tested(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Cellar", f"{demo_server}/v1/")
    page = ada.page

    page.click("#models button")
    page.wait_for_selector(".models li")
    page.click("#test .test-form button")
    page.wait_for_selector(".step")
    page.wait_for_selector("#seen .seen li")
    # It comes back when the whole answer has been put in place.
    page.wait_for_selector("#test .test-form button:enabled")
    ada.collect_complaints()

    assert page.locator(".models li", has_text="tributary/demo-writer").count() == 1
    assert page.locator(".step-ok").count() == 6
    assert page.locator("#seen .seen-line:has-text('[DONE]')").is_visible()
    assert ada.complaints == []


def test_advice_is_applied_with_its_button(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Boathouse", f"{demo_server}/v1")
    page = ada.page
    page.click("#test .test-form button")

    page.click(".advice-line button")
    page.wait_for_selector(".advice-line .badge-good")
    ada.collect_complaints()

    assert page.input_value("[name=option_replay_reasoning]") == "tool_turns"
    assert ada.complaints == []


def test_choosing_a_dialect_keeps_what_was_typed(ada: Administrator) -> None:
    page = ada.open("/settings/servers/add/")
    ada.fill(name="Typed", key=CANARY)

    choose_dialect(ada, "openai_chat")
    page.click(".options summary")
    page.select_option("[name=option_inline_think]", "assume_open")
    choose_dialect(ada, "xerotier")
    page.wait_for_function(
        "document.querySelector('#dialect-part').textContent.includes('Xerotier')"
    )

    assert page.input_value("[name=name]") == "Typed"
    assert page.input_value("[name=key]") == CANARY
    assert page.input_value("[name=option_inline_think]") == "assume_open"
    assert [url for url in ada.requests if CANARY in url] == []


def test_key_is_in_no_address(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Attic", f"{demo_server}/v1")

    assert [url for url in ada.requests if CANARY in url] == []
    assert CANARY not in ada.open("/settings/servers/").content()


def test_switch_disables_a_server_in_place(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Garage", f"{demo_server}/v1")
    page = ada.open("/settings/servers/")
    row = page.locator(".server-row", has_text="Garage")

    row.locator(".switch").click()
    page.wait_for_selector(".server-row.is-off:has-text('Garage')")
    ada.collect_complaints()

    assert row.locator(".switch").get_attribute("aria-checked") == "false"
    assert ada.complaints == []


def test_hostile_server_runs_nothing(ada: Administrator) -> None:
    page = ada.open("/settings/servers/")

    page.click(".server-row >> nth=0 >> h2 a")
    page.wait_for_selector("#settings")
    ada.collect_complaints()

    assert ada.complaints == []
    assert ada.foreign_requests == []


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_window(ada: Administrator, width: int) -> None:
    ada.resize(width)
    page = ada.open("/settings/servers/")
    paths = [link.get_attribute("href") for link in page.locator(".server-row h2 a").all()]
    too_wide = []

    for path in ["/settings/servers/", "/settings/servers/add/", *paths]:
        ada.open(path)
        if ada.is_too_wide:
            too_wide.append(path)

    assert too_wide == []
