"""A tool that Tributary runs: approved with other arguments on a phone, refused, seen by a colleague."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from playwright.sync_api import Locator, expect

from tests.runs.waiting import WEATHER, calling, saying
from tests.support.browser.displays import PHONE
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
# Longer than any answer of these tests takes.
PATIENCE_SECONDS = 30


class WeatherServer(ThreadingHTTPServer):
    """A service that keeps what it was asked, and answers when the test lets it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WeatherHandler)
        self.asked: list[tuple[str, object]] = []
        self.may_answer = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _WeatherHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, WeatherServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self.server.may_answer.wait(PATIENCE_SECONDS)
        answer = b'{"sky": "clear"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing in the output of the tests."""


@pytest.fixture
def weather() -> Iterator[WeatherServer]:
    with WeatherServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.may_answer.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def tool(site: BrowserSite, weather: WeatherServer) -> Iterator[UUID]:
    """The tool that the fake model calls, added through the form."""
    site.close_questions()
    with site.speaking("openai_chat"):
        added = site.post(
            "Ada",
            f"/people/tools/add/{UUID(site.world.team)}/",
            kind="http",
            name="weather",
            description="The weather of a city",
            method="POST",
            address=f"{weather.url}/cities/{{city}}",
            headers="X-Key: s3cret",
            schema=json.dumps(SCHEMA),
            rule="ask",
        )
        assert added.status_code == 302, added.text
        yield UUID(site.value("SELECT public_id FROM chat_tool WHERE name = 'weather'"))
        site.rows("DELETE FROM chat_conversation_tools")
        site.rows("DELETE FROM chat_toolrequest")
        site.rows("UPDATE chat_toolcall SET tool_id = NULL")
        site.rows("DELETE FROM chat_tool WHERE name = 'weather'")


ABOVE = (
    "card => card.getBoundingClientRect().top - card.closest('.runs').getBoundingClientRect().top"
)


def card(tab: Tab) -> Locator:
    return tab.page.locator(".ask")


def asked(site: BrowserSite, tool: UUID) -> UUID:
    """A run that waits for an approval."""
    site.fake.script(calling(WEATHER), saying("Take a hat."))
    run = site.send("Do I need a hat in Oslo?", tools=[tool])
    assert site.until_ended(run)["status"] == "waiting"
    return run


def test_call_is_approved_with_other_arguments_on_a_phone(
    site: BrowserSite, tab: OpenTab, tool: UUID, weather: WeatherServer
) -> None:
    run = asked(site, tool)
    bob, vera = tab("Bob", site.room(run)), tab("Vera", site.room(run))
    alice = tab("Alice", "/inbox/", viewport=PHONE)
    for each in (bob, vera):
        expect(card(each)).to_contain_text("Waiting for approval")
    expect(vera.page.locator(".ask-form")).to_have_count(0)

    alice.page.locator(".inbox-line > summary").click()
    alice.page.get_by_text("Edit arguments").click()
    alice.page.get_by_label("Arguments (JSON)").fill('{"city": "Bergen", "days": 2}')
    alice.button("Approve").click()

    expect(card(alice)).to_contain_text("weather")
    for each in (bob, vera):
        expect(card(each)).to_contain_text("Running…")
        expect(each.page.locator("#strip")).to_contain_text("Running weather")
        expect(each.page.locator("#conversations .mark-waiting")).to_have_count(0)
    weather.may_answer.set()
    for each in (bob, vera):
        each.shows("Take a hat.").until_ended()
        expect(card(each)).to_contain_text("Approved by Alice")
        expect(each.page.locator("#strip .phase")).to_have_count(0)
        card(each).locator("summary").click()
        expect(card(each)).to_contain_text("Oslo")
        expect(card(each)).to_contain_text("Bergen")
    assert weather.asked == [("/cities/Bergen", {"days": 2})]
    assert "s3cret" not in bob.page.content()
    live = card(bob).inner_text()
    bob.reload()
    card(bob).locator("summary").click()
    assert card(bob).inner_text() == live


@pytest.mark.smoke
def test_call_is_refused_and_the_answer_goes_on_for_both(
    site: BrowserSite, tab: OpenTab, tool: UUID, weather: WeatherServer
) -> None:
    run = asked(site, tool)
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    # Nothing of the answer is seen above its card, so there is no distance either.
    assert card(bob).evaluate(ABOVE) == 0

    card(bob).locator(".ask-refuse > summary").click()
    card(bob).get_by_label("Reason").fill("It never rains")
    card(bob).locator(".ask-refuse").get_by_role("button", name="Refuse").click()

    for each in (alice, bob):
        expect(card(each)).to_contain_text("Refused by Bob")
        each.shows("Take a hat.").until_ended()
    assert weather.asked == []


def test_running_call_is_stopped(
    site: BrowserSite, tab: OpenTab, tool: UUID, weather: WeatherServer
) -> None:
    run = asked(site, tool)
    alice, bob = tab("Alice", site.room(run)), tab("Bob", site.room(run))
    alice.button("Approve").click()
    expect(card(bob)).to_contain_text("Running…")

    bob.button("Stop").click()

    for each in (alice, bob):
        expect(card(each)).to_contain_text("Stopped by Bob")
        expect(each.button("Continue")).to_be_visible()
        expect(each.page.locator("#strip .phase")).to_have_count(0)


def test_form_tells_what_is_wrong_while_one_types(site: BrowserSite, tab: OpenTab) -> None:
    ada = tab("Ada", f"/people/tools/add/{UUID(site.world.team)}/")
    check = ada.page.locator("#tool-check")
    expect(ada.page.get_by_label("Address", exact=True)).to_be_hidden()

    ada.page.get_by_role("radio", name="HTTP request").check()
    ada.page.get_by_label("Address", exact=True).fill("https://api.example/{town}")

    expect(check).to_contain_text("no such argument")
    ada.page.locator("[name=schema]").fill(
        '{"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}'
    )
    expect(check).to_contain_text("in the address")
    expect(check.locator(".field-error")).to_have_count(0)

    ada.page.get_by_label("Name", exact=True).fill("river level")
    ada.button("Add tool").click()
    expect(ada.page.get_by_text("Use 1 to 64 letters")).to_be_visible()
