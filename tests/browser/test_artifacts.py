"""What an answer made, beside the conversation: shown, run, compared, downloaded."""

import pytest
from playwright.sync_api import expect

from tests.support.answers import png
from tests.support.browser.artifacts import address_of_artifact, artifact, open_room_with
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.upstream.script import Gate, answer, chunk, openai_chunks, openai_run, stream

FIRST = "<!doctype html>\n<h1>Gauge</h1>\n<p id=level>1.94 m</p>\n"
SECOND = (
    "<!doctype html>\n<h1>Gauge</h1>\n<p id=level>2.12 m</p>\n"
    "<script>document.getElementById('level').textContent = '3.00 m'</script>\n"
)
UPDATE = artifact(SECOND, op="updated")


@pytest.mark.smoke
def test_versions_are_run_and_compared_in_the_panel(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room_with(site, tab, artifact(FIRST), UPDATE)
    panel = alice.page.locator("#panel")
    level = alice.page.frame_locator(".preview-frame").locator("#level")

    alice.answer.get_by_role("link", name="Open Gauge").click()
    expect(panel.get_by_text("Version 2 of 2")).to_be_visible()
    expect(level).to_have_text("2.12 m")
    panel.get_by_role("button", name="Run").click()
    expect(level).to_have_text("3.00 m")
    panel.get_by_role("link", name="Stop").click()
    expect(level).to_have_text("2.12 m")
    panel.get_by_role("link", name="Changes").click()
    expect(panel.locator(".changes-sum")).to_have_text(
        "Lines from version 1 to version 2: +2 added, −1 removed"
    )
    expect(panel.locator(".line-added .line-text").first).to_have_text("<p id=level>2.12 m</p>")
    panel.get_by_role("link", name="Code").click()
    expect(panel.locator(".source-code")).to_contain_text("textContent")
    panel.get_by_role("link", name="Version 1", exact=True).click()
    expect(panel.locator(".source-code")).to_contain_text("1.94 m")
    expect(panel.locator(".source-code")).not_to_contain_text("textContent")
    panel.get_by_role("link", name="Versions").click()
    expect(panel.locator(".version-list li")).to_have_count(2)

    assert alice.page.url.count("/c/") == 1
    expect(alice.answer).to_contain_text("Here it is.")


def test_artifact_tabs_work_by_keyboard(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room_with(site, tab, artifact(FIRST), UPDATE)
    panel, press = alice.page.locator("#panel"), alice.page.keyboard.press

    alice.answer.get_by_role("link", name="Open Gauge").focus()
    press("Enter")
    expect(alice.page.locator("#panel-title")).to_be_focused()
    expect(panel.locator(".preview-frame")).to_be_visible()
    panel.locator(".tabs a").first.focus()
    # The focus stays on the tab that was pressed; the Tab key leads to the next one.
    for view, part in (
        ("Code", ".source-code"),
        ("Changes", ".changes-sum"),
        ("Versions", ".version-list"),
    ):
        press("Tab")
        press("Enter")
        expect(panel.locator(".tabs a:focus")).to_have_text(view)
        expect(panel.locator(".tabs [aria-current]")).to_have_text(view)
        expect(panel.locator(part)).to_be_visible()
    press("Escape")

    expect(panel).to_be_hidden()
    expect(alice.answer.get_by_role("link", name="Open Gauge")).to_be_focused()


def test_artifact_card_is_the_same_live_and_reloaded(site: BrowserSite, tab: OpenTab) -> None:
    begun = chunk({"role": "assistant", "content": ""})
    shown = openai_chunks([begun, artifact(FIRST), UPDATE], is_done=False)
    rest = openai_chunks(openai_run("Done.")[1:])
    with site.speaking("xerotier"):
        site.fake.script(stream(shown, Gate(name="rest"), rest))
        alice = tab("Alice", "/")
        alice.write("Make a gauge.")
        alice.page.wait_for_url("**/c/*/")
        card = alice.answer.locator(".artifact")
        expect(card).to_contain_text("Lines added: +2 Lines removed: −1")
        card.locator("summary").click()
        expect(card.get_by_role("link")).to_have_count(0)
        site.fake.release("rest")
        alice.shows("Done.").until_ended()

    expect(card.get_by_role("link", name="Open Gauge")).to_be_visible()
    expect(card.locator("details")).to_have_attribute("open", "")
    card.locator("summary").click()
    live = alice.normalized()
    assert live == alice.reload().until_ended().normalized()


# --- a mockup --------------------------------------------------------------------------------------

BOARD = """<!doctype html><title>Board</title><link rel="stylesheet" href="css/board.css">
<h1>Board</h1><img src="img/dot.png" alt=""><p id="said">still</p>
<script type="module" src="js/board.js"></script><a href="other.html">Other</a>"""
MODULE = "import { word } from './word.js'; document.getElementById('said').textContent = word;"
BUNDLE = {
    "index.html": BOARD.encode(),
    "css/board.css": b"h1 { color: rgb(0, 128, 128) }",
    "js/board.js": MODULE.encode(),
    "js/word.js": b"export const word = 'moved';",
    "img/dot.png": png(8, 8),
    "other.html": b"<h1>The other page</h1>",
}


def test_mockup_shows_its_files_and_runs(site: BrowserSite, tab: OpenTab) -> None:
    created = {
        "type": "x_mockup.created",
        "bundleId": "b-9",
        "title": "Board",
        "entry": "index.html",
        "files": [{"path": path, "size": len(body)} for path, body in BUNDLE.items()],
    }
    begun = chunk({"role": "assistant", "content": ""})
    said = openai_run("Here it is.")[1:]
    files = [
        answer(body, method="GET", path=f"/v1/mockups/b-9/{path}") for path, body in BUNDLE.items()
    ]
    with site.speaking("xerotier"):
        site.fake.script(stream(openai_chunks([begun, created, *said])), *files)
        run = site.send("Make a board.")
        site.until_ended(run)
        alice = tab("Alice", site.room(run)).until_ended()
        alice.answer.get_by_role("link", name="Open Board").click()
        frame = alice.page.frame_locator(".preview-frame")
        expect(frame.get_by_role("heading")).to_have_css("color", "rgb(0, 128, 128)")

    expect(frame.locator("#said")).to_have_text("still")
    dot = frame.locator("img")
    alice.until(lambda: dot.evaluate("image => image.naturalWidth") == 8, "the picture")
    alice.page.locator("#panel").get_by_role("button", name="Run").click()
    expect(frame.locator("#said")).to_have_text("moved")
    frame.get_by_role("link", name="Other").click()
    expect(frame.get_by_role("heading")).to_have_text("The other page")
    alice.forget_errors()
    alice.page.locator("#panel").get_by_role("link", name="Files").last.click()
    expect(alice.page.locator(".tree li")).to_have_count(len(BUNDLE))
    with alice.page.expect_download() as download:
        alice.page.get_by_role("link", name="Download as ZIP").click()
    assert download.value.suggested_filename == "Board-v1.zip"


DRAWN = "graph TD\n  Spring --> Mouth\n"
NOTES = (
    f"# Tides\n\nThe tide $h = a \\sin t$[^1].\n\n```mermaid\n{DRAWN}```\n\n[^1]: Twice a day.\n"
)


@pytest.mark.parametrize(
    ("content", "language"), [(DRAWN, "mermaid"), (NOTES, "markdown")], ids=["mermaid", "markdown"]
)
def test_artifact_diagrams_and_formulas_are_drawn(
    site: BrowserSite, tab: OpenTab, content: str, language: str
) -> None:
    alice = open_room_with(site, tab, artifact(content, language=language, content_type=""))
    alice.answer.get_by_role("link", name="Open Gauge").click()
    panel = alice.page.locator("#panel")

    def assert_drawn() -> None:
        drawing = alice.page.frame_locator(".preview-text iframe.drawing")
        expect(drawing.get_by_text("Spring")).to_be_visible()
        if language == "markdown":
            expect(alice.page.locator(".preview-text .math > .katex")).to_have_count(1)
            expect(alice.page.locator(".preview-text .notes > li")).to_contain_text("Twice a day.")

    expect(panel).to_be_visible()
    assert_drawn()
    assert alice.page.locator(".preview-text iframe").get_attribute("sandbox") == "allow-scripts"
    alice.page.locator(".preview-text").get_by_role("button", name="Source").click()
    expect(alice.page.locator(".preview-text .diagram pre")).to_contain_text("Spring --> Mouth")
    alice.open(address_of_artifact(site, alice))
    assert_drawn()
