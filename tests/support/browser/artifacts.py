"""Artifacts in answers: a document that a model wrote, shown in a frame of its own."""

from typing import Any
from uuid import UUID

from playwright.sync_api import Frame

from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.upstream.script import chunk, openai_chunks, openai_run, stream

Event = dict[str, Any]
POLICY = "content-security-policy"

# An artifact of two versions and a mockup of two files.
FILE_EVENTS: list[Event] = [
    {
        "type": "x_artifact.created",
        "artifact_id": "art-1",
        "identifier": "flow",
        "title": "River flow",
        "language": "python",
        "content_type": "text/x-python",
        "content": "def flow(depth: float) -> float:\n    return depth * 1.5\n",
    },
    {
        "type": "x_artifact.updated",
        "artifact_id": "art-1",
        "identifier": "flow",
        "title": "River flow",
        "language": "python",
        "content_type": "text/x-python",
        "content": "def flow(depth: float, width: float) -> float:\n    return depth * width\n",
    },
    {
        "type": "x_mockup.created",
        "bundleId": "b-1",
        "identifier": "landing",
        "title": "Landing page",
        "entry": "index.html",
        "files": [
            {"path": "index.html", "contentType": "text/html", "size": 54},
            {"path": "css/style.css", "contentType": "text/css", "size": 20},
        ],
    },
]


def artifact(content: str, *, op: str = "created", **fields: str) -> Event:
    return {
        "type": f"x_artifact.{op}",
        "artifact_id": "art-1",
        "identifier": "gauge",
        "title": "Gauge",
        "language": "html",
        "content_type": "text/html",
        "content": content,
        **fields,
    }


def open_room_with(site: BrowserSite, tab: OpenTab, *events: Event) -> Tab:
    """Alice's tab on a conversation whose answer has sent these events."""
    begun = chunk({"role": "assistant", "content": ""})
    with site.speaking("xerotier"):
        said = openai_run("Here it is.")[1:]
        site.fake.script(stream(openai_chunks([begun, *events, *said])))
        run = site.send("Make a gauge.")
        site.until_ended(run)
    return tab("Alice", site.room(run)).until_ended()


def address_of_artifact(site: BrowserSite, tab: Tab) -> str:
    """Of the artifact's own page, beside no conversation."""
    room = tab.page.url.split("/")[4].replace("-", "")
    found = site.value(
        "SELECT a.public_id FROM chat_artifact a JOIN chat_conversation c"
        f" ON c.id = a.conversation_id WHERE c.public_id = '{room}'"
    )
    return f"/a/{UUID(found)}/1/"


def preview_frame(tab: Tab) -> Frame:
    frame = tab.page.locator(".preview-frame").element_handle().content_frame()
    assert frame is not None
    return frame
