"""The settings of servers in a real browser: added, tested, moved, switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.administration.in_browser import Administrator, administrator_at_browser
from tests.servers.conftest import CANARY
from tests.support.upstream.fake import FakeUpstream
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


@pytest.fixture(scope="module")
def keyed_server() -> Iterator[str]:
    fake = FakeUpstream.start_in_thread(required_key=CANARY)
    yield fake.url
    fake.stop()


def choose_dialect(ada: Administrator, dialect: str) -> None:
    with ada.page.expect_response("**/settings/servers/dialect/**"):
        ada.page.select_option("[name=dialect]", dialect)


def add_server(ada: Administrator, name: str, base_url: str) -> None:
    """It passes its test, and its page is open."""
    ada.open("/settings/servers/add/")
    ada.page.click("a:has-text('Ollama')")
    ada.fill(name=name, key=CANARY, base_url=base_url)
    ada.page.click("#settings .button-primary")
    ada.page.wait_for_selector("#server")


def open_tab(ada: Administrator, name: str) -> None:
    ada.collect_complaints()
    ada.page.click(f"nav.tabs a:has-text('{name}')")
    ada.page.wait_for_selector(f"nav.tabs [aria-current]:has-text('{name}')")


def test_server_is_tested_and_added_and_tested_again(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Cellar", f"{demo_server}/v1/")
    page = ada.page

    page.click("#test button")
    page.wait_for_url("**/diagnostics/")
    ada.collect_complaints()

    assert page.locator(".step-ok").count() == 5
    assert page.locator(".step-warning").count() == 1
    assert page.locator("#seen tr:has-text('[DONE]')").is_visible()
    assert ada.complaints == []
    assert [url for url in ada.requests if CANARY in url] == []
    assert CANARY not in ada.open("/settings/servers/").content()


def test_failed_test_keeps_the_form_with_its_key(ada: Administrator, demo_server: str) -> None:
    page = ada.open("/settings/servers/add/?kind=ollama")
    ada.fill(name="Shed", key=CANARY, base_url="http://127.0.0.1:9/v1")

    page.click("#settings .button-primary")
    page.wait_for_selector("#id_base_url_error")
    assert page.input_value("[name=key]") == CANARY
    page.fill("[name=base_url]", f"{demo_server}/v1")
    page.click("#settings .button-primary")
    page.wait_for_selector("#server")
    ada.collect_complaints()

    assert page.locator("#server .switch").get_attribute("aria-checked") == "true"
    assert ada.complaints == []


def test_corrected_address_is_taken_with_its_button(ada: Administrator, keyed_server: str) -> None:
    page = ada.open("/settings/servers/add/?kind=ollama")
    ada.fill(name="Attic", key="wrong", base_url=f"{keyed_server}/v1/chat/completions")
    page.press("[name=base_url]", "Enter")
    button = page.locator("[name=use_address]")
    button.wait_for()
    assert button.inner_text() == f"Use {keyed_server}/v1"
    assert button.evaluate("button => button === document.activeElement")
    assert "answers at" in page.inner_text("#test-result")

    # Enter in a field tests what is typed, and doesn't press the button of the correction.
    with page.expect_response("**/settings/servers/add/**"):
        page.press("[name=base_url]", "Enter")
    page.wait_for_selector("#settings:not(.htmx-request)")
    assert page.input_value("[name=base_url]") == f"{keyed_server}/v1/chat/completions"
    button.click()
    page.wait_for_selector("#id_key_error")

    assert page.input_value("[name=base_url]") == f"{keyed_server}/v1"
    assert page.locator("#id_base_url_passed").count() == 1
    assert button.count() == 0
    key = page.locator("[name=key]")
    assert key.evaluate("field => field === document.activeElement")
    assert key.get_attribute("aria-describedby") == "id_key_helptext id_key_error"
    assert "rejected the API key" in page.inner_text("#test-result")
    key.fill(CANARY)
    key.press("Enter")
    page.wait_for_selector("#server")
    ada.collect_complaints()
    assert ada.complaints == []


def test_corrected_address_is_taken_without_scripts(ada: Administrator, demo_server: str) -> None:
    add = urljoin(ada.open("/").url, "/settings/servers/add/?kind=ollama")
    browser = ada.page.context.browser
    assert browser is not None
    with browser.new_context(java_script_enabled=False, storage_state=ada.state()) as plain:
        page = plain.new_page()
        page.goto(add)
        page.fill("[name=name]", "Pantry")
        page.fill("[name=base_url]", demo_server.removeprefix("http://"))
        page.press("[name=base_url]", "Enter")
        for base_url in (demo_server, f"{demo_server}/v1"):
            page.click(f"text='Use {base_url}'")

        page.wait_for_selector("#server")


def test_switch_disables_a_model_in_place(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Loft", f"{demo_server}/v1")
    open_tab(ada, "Models")
    row = ada.page.locator("tr", has_text="tributary/demo-writer")
    models = ada.page.locator("tbody tr").count()

    row.locator(".switch").click()
    ada.page.wait_for_selector("tr:has-text('tributary/demo-writer') [aria-checked=false]")
    open_tab(ada, "Overview")

    assert ada.page.locator(f"dd:has-text('{models - 1} of {models} enabled')").count() == 1
    assert ada.complaints == []


def test_models_are_searched_while_typing(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Harbor", f"{demo_server}/v1")
    open_tab(ada, "Settings")
    ada.page.fill("[name=typed_models]", "\n".join(f"river/{size}b" for size in range(20)))
    ada.page.click("#settings .button-primary")
    open_tab(ada, "Models")
    field = ada.page.locator("[name=q][type=search]")

    field.press_sequentially("river 17b", delay=20)
    ada.page.wait_for_selector("tbody tr:only-child:has-text('river/17b')")
    assert field.evaluate("field => field === document.activeElement")
    ada.page.click("tbody .switch")
    ada.page.wait_for_selector("tbody tr:only-child [aria-checked=false]")

    assert field.input_value() == "river 17b"
    assert ada.complaints == []


def test_advice_is_applied_with_its_button(ada: Administrator, demo_server: str) -> None:
    add_server(ada, "Boathouse", f"{demo_server}/v1")
    page = ada.page
    open_tab(ada, "Diagnostics")

    page.click(".advice-line button")
    page.wait_for_selector(".advice-line .badge-good")
    open_tab(ada, "Settings")

    assert page.input_value("[name=option_replay_reasoning]") == "tool_turns"
    assert ada.complaints == []


def test_choosing_a_dialect_keeps_what_was_typed(ada: Administrator) -> None:
    page = ada.open("/settings/servers/add/?kind=lm-studio")
    ada.fill(name="Typed", key=CANARY)

    choose_dialect(ada, "openai_chat")
    page.click("#dialect-part summary >> nth=0")
    page.select_option("[name=option_inline_think]", "assume_open")
    choose_dialect(ada, "xerotier")
    page.wait_for_function(
        "document.querySelector('#dialect-help').textContent.includes('Xerotier')"
    )

    assert page.input_value("[name=name]") == "Typed"
    assert page.input_value("[name=key]") == CANARY
    assert page.input_value("[name=option_inline_think]") == "assume_open"
    assert [url for url in ada.requests if CANARY in url] == []


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
    for tab in ("Models", "Settings", "Diagnostics"):
        open_tab(ada, tab)
    ada.collect_complaints()

    assert ada.complaints == []
    assert ada.foreign_requests == []


def test_pages_fit_the_window(ada: Administrator) -> None:
    page = ada.open("/settings/servers/")
    paths = [link.get_attribute("href") for link in page.locator(".server-row h2 a").all()]
    too_wide = []

    tabs = [
        f"{path}{tab}" for path in paths for tab in ("", "models/", "settings/", "diagnostics/")
    ]
    forms = ["/settings/servers/add/", "/settings/servers/add/?kind=other"]
    for path in ["/settings/servers/", *forms, *tabs]:
        ada.open(path)
        for width in WIDTHS:
            ada.resize(width)
            if ada.is_too_wide:
                too_wide.append((path, width))

    assert too_wide == []
