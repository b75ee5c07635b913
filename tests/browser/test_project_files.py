"""A conversation that begins in a project, with a file that the project shares."""

import hashlib
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.answers import png
from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite

INSTRUCTIONS = "Answer in German."


@pytest.fixture
def project(site: BrowserSite) -> Iterator[uuid.UUID]:
    """A project for everyone on the team with two files."""
    public_id = uuid.uuid4()
    [row] = site.rows(
        "INSERT INTO chat_project"
        " (public_id, team_id, name, color, description, instructions, access, model, parameters, created_at)"
        " SELECT ?, id, 'Rivers', 'blue', '', ?, 'team', '', '{}', CURRENT_TIMESTAMP FROM chat_team"
        " RETURNING id",
        public_id.hex,
        INSTRUCTIONS,
    )
    for name, size in (("map.png", (64, 48)), ("spring.png", (48, 64))):
        body = png(*size)
        digest = hashlib.sha256(body).hexdigest()
        site.rows(
            "INSERT OR IGNORE INTO chat_filecontent (sha256, size_bytes, body) VALUES (?, ?, ?)",
            digest,
            len(body),
            body,
        )
        site.rows(
            "INSERT INTO chat_storedfile"
            " (public_id, project_id, name, media_type, size_bytes, content_id, created_at)"
            " VALUES (?, ?, ?, 'image/png', ?, ?, CURRENT_TIMESTAMP)",
            uuid.uuid4().hex,
            row["id"],
            name,
            len(body),
            digest,
        )
    yield public_id
    site.rows("UPDATE chat_conversation SET project_id = NULL, visibility = 'private'")
    site.rows("UPDATE chat_storedfile SET project_id = NULL")
    site.rows("DELETE FROM chat_runinstructions")
    site.rows("DELETE FROM chat_project")


def test_shared_file_is_attached_and_sent(
    site: BrowserSite, tab: OpenTab, project: uuid.UUID
) -> None:
    site.fake.script(streams.telling("A river."), streams.telling("Still a river."))
    alice = tab("Alice", f"/?project={project}")
    previews = alice.page.locator(".attaching img")
    menu = alice.page.locator(".project-files > summary")

    menu.click()
    offered = alice.page.locator(".project-files")
    offered.get_by_role("button", name="map.png").click()
    offered.get_by_role("button", name="spring.png").click()
    expect(previews).to_have_count(2)
    alice.page.keyboard.press("Escape")
    alice.button("Remove spring.png").click()
    expect(previews).to_have_count(1)
    alice.reload()
    expect(alice.button("Remove map.png")).to_be_visible()
    alice.write("What is this?").shows("A river.").until_ended()

    shown = alice.turns.nth(0).locator(".attached img")
    expect(shown).to_have_count(1)
    alice.until(lambda: shown.evaluate("image => image.naturalWidth") == 64, "the picture")
    menu.click()
    offered.get_by_role("button", name="map.png").click()
    expect(previews).to_have_count(1)
    alice.page.keyboard.press("Escape")
    alice.write("And now?").shows("Still a river.").until_ended()
    expect(alice.turns.nth(2).locator(".attached img")).to_have_count(1)
    expect(previews).to_have_count(0)
    alice.page.locator("#parameters-open").click()
    expect(alice.page.locator("#parameters")).to_contain_text("Project instructions apply: Rivers")
    assert INSTRUCTIONS in str(site.fake.requests[-1].body)
