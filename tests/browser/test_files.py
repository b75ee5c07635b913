"""Files attached to a message, and the page of a conversation's files."""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.sync_api import expect

from tests.support.answers import PAGE, png
from tests.support.browser import axe, streams
from tests.support.browser.artifacts import FILE_EVENTS
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.upstream.script import Gate, answer, chunk, openai_chunks, openai_run, stream

SPRING = {"name": "spring.png", "mimeType": "image/png", "buffer": png(64, 48)}
WAVE = {"name": "wave.png", "mimeType": "image/png", "buffer": png(48, 64)}

# What a browser hands to a page when somebody pastes or drops a file.
HAND_OVER = """([selector, type, bytes, name, kind]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(bytes)], name, {type: kind}));
  const options = {bubbles: true, cancelable: true};
  const event = type === "paste"
    ? new ClipboardEvent(type, {...options, clipboardData: transfer})
    : new DragEvent(type, {...options, dataTransfer: transfer});
  document.querySelector(selector).dispatchEvent(event);
}"""

ASK_FOR_CHANGES = "() => document.dispatchEvent(new CustomEvent('room:changed', {detail: {}}))"


def hand_over(tab: Tab, way: str, name: str, *, kind: str = "image/png") -> None:
    tab.page.evaluate(HAND_OVER, ["#text", way, list(png(32, 32)), name, kind])


def open_room(site: BrowserSite, tab: OpenTab, *said: str) -> Tab:
    site.fake.script(*[streams.telling(text) for text in ("First.", *said)])
    return tab("Alice", site.room(site.send("Tell us."))).until_ended()


@pytest.mark.smoke
def test_images_are_attached_removed_and_sent(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab, "Two pictures.")
    previews = alice.page.locator(".attaching img")

    alice.page.locator("#attach-input").set_input_files([SPRING])
    alice.page.locator("#attach-input").set_input_files([WAVE])
    expect(previews).to_have_count(2)
    alice.button("Remove spring.png").click()
    expect(alice.button("Remove wave.png")).to_be_focused()
    hand_over(alice, "paste", "pasted.png")
    expect(previews).to_have_count(2)
    hand_over(alice, "drop", "dropped.png")
    expect(previews).to_have_count(3)
    alice.write("What are these?").shows("Two pictures.").until_ended()

    expect(previews).to_have_count(0)
    shown = alice.turns.nth(2).locator(".attached img")
    expect(shown).to_have_count(3)
    names = [shown.nth(place).get_attribute("alt") for place in range(3)]
    assert names == ["wave.png", "pasted.png", "dropped.png"]
    alice.until(lambda: shown.nth(0).evaluate("image => image.naturalWidth") == 48, "the picture")
    expect(alice.page.locator("#room-head").get_by_label("Files: 3")).to_be_visible()
    assert alice.reload().turns.nth(2).locator(".attached img").count() == 3


def test_attached_files_survive_a_reload_until_they_are_sent(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = open_room(site, tab, "Two pictures.")
    previews = alice.page.locator(".attaching img")
    alice.page.locator("#attach-input").set_input_files([SPRING, WAVE])
    alice.page.locator("#attach-input").set_input_files([{**WAVE, "name": "removed.png"}])
    alice.button("Remove removed.png").click()
    expect(previews).to_have_count(2)
    alice.composer.fill("What are these?")

    alice.reload()

    expect(previews).to_have_count(2)
    expect(alice.composer).to_have_value("What are these?")
    alice.composer.press("Enter")
    alice.shows("Two pictures.").until_ended()
    expect(alice.turns.nth(2).locator(".attached img")).to_have_count(2)
    expect(previews).to_have_count(0)
    alice.reload().until_live()
    expect(previews).to_have_count(0)


def test_refused_attachments_are_named(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab)
    note = alice.page.locator("#attach-note")

    alice.page.locator("#attach-input").set_input_files([SPRING])
    expect(alice.page.locator(".attaching img")).to_have_count(1)
    alice.page.locator("#attach-input").set_input_files([SPRING] * 8)
    expect(note).to_contain_text("up to 8 images")
    expect(alice.page.locator(".attaching img")).to_have_count(1)
    # By its name and type it is an image. The server finds out, and nothing is sent without it.
    alice.page.locator("#attach-input").set_input_files(
        [{"name": "pretty.png", "mimeType": "image/png", "buffer": PAGE}]
    )
    refused = alice.page.locator(".attachment-refused")
    expect(refused).to_contain_text("“pretty.png” isn’t a PNG")
    alice.write("What is this?")

    expect(note).to_contain_text("Remove the files that couldn’t be attached")
    expect(alice.composer).to_have_value("What is this?")
    expect(alice.turns).to_have_count(2)
    alice.button("Remove pretty.png").click()
    expect(refused).to_have_count(0)
    expect(note).to_be_empty()


def test_what_is_added_while_a_message_waits_is_kept(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab, "One picture.")
    previews = alice.page.locator(".attaching img")
    alice.page.locator("#attach-input").set_input_files([SPRING])
    expect(previews).to_have_count(1)

    # It waits until the page has fetched what has changed.
    alice.hold("**/changes/")
    alice.page.evaluate(ASK_FOR_CHANGES)
    alice.until(lambda: alice.is_holding, "the page asks for changes")
    alice.write("What is this?")
    alice.page.locator("#attach-input").set_input_files([WAVE])
    expect(previews).to_have_count(2)
    alice.composer.press_sequentially(" And this?")
    alice.release()

    alice.shows("One picture.").until_ended().until_idle()
    expect(alice.turns.nth(2).locator(".attached img")).to_have_count(1)
    expect(previews).to_have_count(1)
    expect(alice.button("Remove wave.png")).to_be_visible()
    expect(alice.composer).to_have_value("What is this? And this?")


def test_server_without_vision_is_named_before_sending(site: BrowserSite, tab: OpenTab) -> None:
    with site.speaking("openai_completions"):
        alice = tab("Alice", "/")
    unsent = alice.page.locator("#attach-no-images")

    expect(unsent).to_be_hidden()
    alice.page.locator("#attach-input").set_input_files([SPRING])
    expect(unsent).to_be_visible()
    alice.button("Remove spring.png").click()
    expect(unsent).to_be_hidden()
    expect(alice.page.locator("#attach-input")).to_be_focused()


# --- documents -----------------------------------------------------------------------------------

LONG = "The level at the mill rose by two centimetres. " * 120
NOTES = {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"# Levels\n\nThe mill: 42 cm."}
PASTE_TEXT = """text => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const event = new ClipboardEvent("paste", {bubbles: true, cancelable: true, clipboardData});
  document.getElementById("text").dispatchEvent(event);
}"""

# Notes how many files the page is told of, each time.
NOTE_FILES = """() => {
  window.counts = [];
  document.addEventListener("htmx:ws:before:message:incoming", event => {
    const { channel, files } = JSON.parse(event.detail.message.data);
    if (channel === "draft" && files) counts.push(files.length);
  }, true);
}"""


def test_document_is_read_looked_into_and_sent(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab, "It rises.")
    chip = alice.page.locator(".attaching .attachment")

    alice.page.locator("#attach-input").set_input_files([NOTES])
    expect(chip).to_contain_text("about 7 tokens")
    chip.get_by_role("link").click()
    dialog = alice.page.locator("#attached-file")
    expect(dialog).to_contain_text("[File: notes.md]")
    expect(dialog).to_contain_text("The mill: 42 cm.")
    assert axe.findings(alice.page, within="#attached-file") == []
    alice.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    alice.reload()
    expect(chip).to_contain_text("about 7 tokens")
    alice.write("What is the level?").shows("It rises.").until_ended()

    expect(chip).to_have_count(0)
    sent = alice.turns.nth(2).locator(".attached .attachment")
    expect(sent).to_contain_text("notes.md")
    sent.get_by_role("link").click()
    expect(alice.page.locator("#panel")).to_contain_text("The mill: 42 cm.")


def test_files_appear_in_other_tabs_and_a_deleted_one_says_so(
    site: BrowserSite, tab: OpenTab, people: People
) -> None:
    alice = open_room(site, tab, "It rises.").until_live()
    path = urlsplit(alice.page.url).path
    other = people.adopt(alice.page.context.new_page(), site, path).until_live()
    bob = tab("Bob", path).until_live()
    chips, others = (each.page.locator(".attaching .attachment") for each in (alice, other))

    alice.page.locator("#attach-input").set_input_files([NOTES])
    expect(others).to_contain_text("about 7 tokens")
    # The file is removed before the tab that uploads it has an answer.
    address = alice.page.locator("#attaching").get_attribute("data-address")
    alice.hold_answer(f"**{address}")
    alice.page.evaluate(NOTE_FILES)
    alice.page.locator("#attach-input").set_input_files([SPRING])
    expect(others).to_have_count(2)
    other.button("Remove spring.png").click()
    alice.until(
        lambda: alice.page.evaluate("() => counts.join().endsWith('2,1')"), "told of both changes"
    )
    alice.release()
    expect(chips).to_have_count(1)
    expect(chips).to_contain_text("notes.md")
    expect(bob.page.locator(".attaching .attachment")).to_have_count(0)
    other.write("What is the level?").shows("It rises.").until_ended()
    expect(chips).to_have_count(0)

    sent = alice.turns.nth(2).locator(".attached .attachment")
    sent.get_by_role("link").click()
    panel = alice.page.locator("#panel")
    panel.get_by_role("button", name="Delete").click()
    alice.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(alice.page.get_by_text("File deleted. The model still gets its text.")).to_be_visible()
    expect(alice.page.get_by_text("The mill: 42 cm.")).to_be_visible()
    # Everybody who has the conversation open sees it without a reload.
    expect(bob.turns.nth(2).locator(".attached .attachment")).to_contain_text("File deleted.")


def test_upload_shows_its_progress_and_is_canceled_or_tried_again(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = open_room(site, tab)
    chip = alice.page.locator(".attaching .attachment")
    alice.hold("**/unsent/*/")

    alice.page.locator("#attach-input").set_input_files([SPRING])
    expect(chip).to_contain_text("Uploading…")
    alice.write("What is this?")
    expect(alice.page.locator("#attach-note")).to_contain_text("Wait until the upload has finished")
    alice.button("Cancel the upload of spring.png").click()
    expect(chip).to_have_count(0)
    alice.page.unroute("**/unsent/*/")
    alice.page.route("**/unsent/*/", lambda route: route.abort())
    alice.page.locator("#attach-input").set_input_files([WAVE])
    expect(chip).to_contain_text("The upload was interrupted.")
    alice.page.unroute("**/unsent/*/")
    chip.get_by_role("button", name="Try again").click()
    expect(alice.button("Remove wave.png")).to_be_visible()
    expect(alice.turns).to_have_count(2)


def test_long_text_that_is_pasted_becomes_a_file(site: BrowserSite, tab: OpenTab) -> None:
    alice = open_room(site, tab)
    chip = alice.page.locator(".attaching .attachment")
    alice.composer.fill("Before. After.")
    alice.composer.evaluate("field => field.setSelectionRange(8, 8)")

    alice.page.evaluate(PASTE_TEXT, LONG)
    expect(chip).to_contain_text("Pasted text.txt")
    expect(alice.composer).to_have_value("Before. After.")
    # The offer stays when the file has been read, for which its chip is replaced again.
    expect(chip).to_contain_text("tokens")
    alice.page.get_by_role("button", name="Undo").click()

    expect(chip).to_have_count(0)
    expect(alice.composer).to_have_value(f"Before. {LONG}After.")
    expect(alice.page.locator("#attach-pasted")).to_be_hidden()
    expect(alice.composer).to_be_focused()


@pytest.fixture
def small_site(site: BrowserSite) -> Iterator[BrowserSite]:
    """A site whose model can use tools and reads a thousand tokens."""
    [before] = site.rows("SELECT model_list FROM chat_upstream")
    models = json.loads(before["model_list"])
    for model in models:
        model["detail"] = {"context_length": 1000}
    site.rows("UPDATE chat_upstream SET model_list = ?", json.dumps(models))
    site.fake.script(stream(openai_chunks(openai_run("I read it."))))
    with site.speaking("openai_chat"):
        yield site
    site.rows("UPDATE chat_upstream SET model_list = ?", before["model_list"])


def test_too_long_a_document_is_left_to_the_model(small_site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    note = alice.page.locator("#attach-too-long")
    alice.page.evaluate(PASTE_TEXT, LONG)
    expect(note).to_contain_text("this model can read only 1K.")
    assert axe.findings(alice.page, within="#composer") == []

    note.get_by_role("button", name="Let the model read it").click()
    expect(note).to_be_hidden()
    expect(alice.page.locator(".attaching .attachment")).to_contain_text("read with tools")
    alice.write("How did it rise?").shows("I read it.").until_ended()

    expect(alice.turns.nth(0).locator(".attachment")).to_contain_text("read with tools")
    assert small_site.value("SELECT use FROM chat_attachment ORDER BY id DESC LIMIT 1") == "tools"


# --- files of answers ----------------------------------------------------------------------------


@pytest.fixture
def file_site(site: BrowserSite) -> Iterator[BrowserSite]:
    """A site whose server answers with an artifact of two versions and a mockup of two files."""
    begun = chunk({"role": "assistant", "content": ""})
    page = answer(PAGE, method="GET", path="/v1/mockups/b-1/index.html")
    said = openai_run("Here they are.")[1:]
    site.fake.script(
        stream(openai_chunks([begun, *FILE_EVENTS, *said])),
        msgspec.structs.replace(page, steps=(Gate(name="page"), *page.steps)),
        answer("h1 { color: teal }", method="GET", path="/v1/mockups/b-1/css/style.css"),
    )
    with site.speaking("xerotier"):
        yield site


def test_files_of_an_answer_are_read_and_downloaded(file_site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", file_site.room(file_site.send("Make a page."))).until_ended()

    alice.turns.last.hover()
    alice.page.locator("#to-files").click()
    expect(alice.page.locator("#panel-title")).to_have_text("Files")
    mockup = alice.page.locator(".bundle").first
    expect(mockup).to_contain_text("Downloading…")
    file_site.fake.release("page")
    # Without a reload: the page looks again while something is being fetched.
    expect(mockup).to_contain_text("2 of 2 files")
    mockup.get_by_role("link", name="index.html", exact=True).click()
    expect(alice.page.locator(".source-code")).to_contain_text("alert(document.domain)")
    alice.page.locator("#panel").get_by_role("link", name="Files", exact=True).click()
    alice.page.get_by_role("link", name="River flow", exact=True).click()
    expect(alice.page.locator(".source-code")).to_contain_text("depth * width")
    alice.page.get_by_label("Versions").get_by_role("link", name="1").click()
    expect(alice.page.locator(".source-code")).to_contain_text("depth * 1.5")
    assert "/c/" in alice.page.url
    with alice.page.expect_download() as download:
        alice.page.get_by_role("link", name="Download").click()

    assert download.value.suggested_filename == "River-flow-v1.py"
