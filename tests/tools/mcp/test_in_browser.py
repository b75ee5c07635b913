"""A tool server in a real browser: added, read by the runner while the page watches, its tools turned on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.administration.in_browser import Administrator, administrator_at_browser
from tests.support.upstream.fake import FakeUpstream
from tests.support.visitor import MARKS

pytestmark = MARKS


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def demo() -> Iterator[FakeUpstream]:
    fake = FakeUpstream.start_in_thread(speed=0)
    yield fake
    fake.stop()


@pytest.fixture(scope="module")
def ada(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: Path
) -> Iterator[Administrator]:
    with administrator_at_browser(tmp_path_factory.mktemp("tools"), migrated_database) as ada:
        yield ada


def test_server_is_read_while_its_page_watches(ada: Administrator, demo: FakeUpstream) -> None:
    page = ada.open("/people/tool-servers/")
    page.click(".page-head a:has-text('Add server'), .empty a:has-text('Add server')")
    ada.fill(name="River", address=f"{demo.url}/mcp", headers="X-Key: sk-canary-0123456789")
    page.click("form .button-primary")

    # Nobody reloads the page.
    page.wait_for_selector(".step-ok:has-text('The server has 6 tools.')")
    gate = page.locator(".remote-tool:has-text('set_gate') select")
    with page.expect_navigation():
        gate.select_option("ask")
    page.click(".run-read-only button")
    page.wait_for_selector("#notices:has-text('3 tools run automatically now.')")
    ada.collect_complaints()

    rules = page.locator(".remote-tool select").evaluate_all("all => all.map(one => one.value)")
    assert sorted(rules) == ["ask", "auto", "auto", "auto", "off", "off"]
    assert page.locator(".run-read-only").count() == 0
    assert "sk-canary" not in page.content()
    assert ada.complaints == []


def test_example_is_put_into_the_schema(ada: Administrator) -> None:
    page = ada.open("/people/tools/")
    page.click(".page-head a:has-text('Add tool'), .empty a:has-text('Add tool')")
    page.click(".tool-example summary")
    page.click("button:has-text('Insert example')")

    # The form checks it as if it were typed.
    page.wait_for_selector("#tool-check:has-text('city')")
    assert '"city"' in page.locator("#id_schema").input_value()
