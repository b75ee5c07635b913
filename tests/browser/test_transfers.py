"""An export with its progress and its download; an import with upload, report and undo."""

import io
import json
import os
import zipfile
from pathlib import Path
from uuid import uuid4

from playwright.sync_api import Locator, expect

from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP_LIGHT, PHONE_DARK, serious_findings
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

# All conversations that other tests have left on the site are exported, however many.
EXPORT_MS = 120_000
PAGE = "/settings/data/"
# Three pieces.
NOISE_BYTES = 2 * 1024 * 1024 + 5
COUNT = 40


def exported() -> bytes:
    """As ChatGPT exports: new conversations, and one that cannot be read."""
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hello?"]}}
    mapping = {"a": {"id": "a", "message": {"id": "a", **said}, "parent": None}}
    found: list[object] = [
        {"id": uuid4().hex, "title": f"Imported {each}", "mapping": mapping, "current_node": "a"}
        for each in range(COUNT)
    ]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("conversations.json", json.dumps([*found, {"id": "x", "title": "Odd"}]))
        archive.writestr("picture.bin", os.urandom(NOISE_BYTES))
    return file.getvalue()


def first(tab: Tab, name: str) -> Locator:
    return tab.page.locator(f"#{name} .job").first


def set_job(site: BrowserSite, **values: object) -> None:
    """As a runner elsewhere works on the newest job, which no runner here takes."""
    changes = ", ".join(f"{name} = ?" for name in values)
    site.rows(
        f"UPDATE chat_job SET {changes}, heartbeat_at = '2999-01-01'"
        " WHERE id = (SELECT max(id) FROM chat_job)",
        *values.values(),
    )


def test_export_shows_its_progress_and_is_downloaded(
    site: BrowserSite, tab: OpenTab, tmp_path: Path
) -> None:
    site.fake.script(streams.telling("The river rises."))
    site.until_ended(site.send("Tell us."))
    alice = tab("Alice", PAGE)
    alice.page.get_by_label("Format").select_option("json")
    alice.page.get_by_role("button", name="Start export").click()
    job = first(alice, "exports")
    expect(job.get_by_role("link", name="Download")).to_be_visible(timeout=EXPORT_MS)

    set_job(site, status="running", done=1, total=4)
    alice.page.reload()
    expect(job).to_contain_text("1 of 4 conversations")
    expect(job.get_by_role("progressbar")).to_have_attribute("value", "25")
    assert serious_findings(alice.page, [DESKTOP_LIGHT]) == []
    cancel = job.get_by_role("button", name="Cancel")
    cancel.focus()
    set_job(site, done=3)
    expect(job).to_contain_text("3 of 4 conversations")
    expect(cancel).to_be_focused()
    cancel.click()
    expect(job).to_contain_text("Canceling")
    set_job(site, status="done")
    expect(alice.page.locator("#polite")).to_have_text("My conversations as JSON: Done")

    with alice.page.expect_download() as saved:
        job.get_by_role("link", name="Download").click()
    path = tmp_path / "exported.zip"
    saved.value.save_as(path)
    assert zipfile.ZipFile(path).testzip() is None
    assert saved.value.suggested_filename.endswith("-json.zip")
    job.get_by_role("button", name="Delete").click()
    expect(alice.page.locator("#exports .job")).to_have_count(0)


def test_upload_that_was_refused_is_sent_again_with_the_same_button(
    own_site: BrowserSite, people: People
) -> None:
    """The storage is full, then the server breaks, then the connection is lost."""
    own_site.start(fault="full_at_times")
    bob = people.tab(own_site, "Bob", PAGE)
    page = bob.page
    file = {"name": "chats.zip", "mimeType": "application/zip", "buffer": exported()}
    page.get_by_label("File").set_input_files(file)
    said, button = (
        page.locator(".upload-error"),
        page.get_by_role("button", name="Upload and check"),
    )

    own_site.fill_database()
    button.click()
    expect(said).to_contain_text("Storage is full")
    expect(page.locator(".upload-state")).to_be_hidden()
    own_site.empty_database()
    page.route("**/settings/data/upload/", lambda route: route.fulfill(status=500, body="<p>"))
    button.click()
    expect(said).to_have_text("The server couldn’t take the file. Try again in a moment.")
    page.unroute("**/settings/data/upload/")
    page.route("**/settings/data/upload/", lambda route: route.abort())
    button.click()
    expect(said).to_contain_text("Check your connection")
    page.unroute("**/settings/data/upload/")
    button.click()

    job = first(bob, "imports")
    expect(job.get_by_role("button", name=f"Import {COUNT} conversations")).to_be_visible()
    expect(said).to_be_empty()


def test_import_is_reported_before_and_undone_after(site: BrowserSite, tab: OpenTab) -> None:
    bob = tab("Bob", PAGE)
    file = {"name": "chats.zip", "mimeType": "application/zip", "buffer": exported()}
    bob.page.get_by_label("File").set_input_files(file)
    bob.page.get_by_role("button", name="Upload and check").click()

    job = first(bob, "imports")
    go = job.get_by_role("button", name=f"Import {COUNT} conversations")
    expect(go).to_be_visible()
    job.get_by_text("Couldn’t be read (1)").click()
    expect(job).to_contain_text("Odd")
    assert not site.value("SELECT count(*) FROM chat_conversation WHERE title LIKE 'Imported %'")
    assert serious_findings(bob.page, [PHONE_DARK]) == []

    go.click()
    expect(job).to_contain_text(f"{COUNT} conversations imported")
    job.get_by_role("button", name="Undo import").click()
    bob.page.locator("#confirm").get_by_role("button", name="Undo import").click()

    expect(job).to_contain_text(f"Undone: {COUNT} conversations moved to the trash")
    bob.open("/conversations/trash/")
    expect(bob.page.locator(".things")).to_contain_text("Imported 1")
