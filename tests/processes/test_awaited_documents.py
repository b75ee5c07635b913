"""The server is killed while a document is read that an answer waits for, and started again."""

import hashlib
import uuid
from uuid import UUID

import pytest

from tests.support.processes.runs import ANSWER, ANSWER_TEXT, assert_ended, text_of
from tests.support.processes.site import Site, soon
from tests.support.upstream.script import stream

pytestmark = [pytest.mark.process, pytest.mark.slow]
# Without it, the job of the killed server would be taken up after half a minute.
LEASE = {"LEASE_SECONDS": "2"}
TEXT = b"The river rises in May."


def attach(site: Site, run: UUID) -> None:
    """A text file, as if it was sent with the message that the run answers."""
    digest = hashlib.sha256(TEXT).hexdigest()
    site.rows(
        "INSERT INTO chat_filecontent (sha256, size_bytes, body, object_name) VALUES (?, ?, ?, '')",
        *(digest, len(TEXT), TEXT),
    )
    site.rows(
        "INSERT INTO chat_storedfile"
        " (public_id, conversation_id, name, media_type, size_bytes, content_id, created_at)"
        " SELECT ?, conversation_id, 'notes.txt', 'text/plain', ?, ?, queued_at"
        " FROM chat_run WHERE public_id = ?",
        *(uuid.uuid4().hex, len(TEXT), digest, run.hex),
    )
    site.rows(
        "INSERT INTO chat_attachment (message_id, file_id, position)"
        " SELECT m.parent_id, f.id, 0 FROM chat_storedfile f"
        " JOIN chat_run r ON r.conversation_id = f.conversation_id"
        " JOIN chat_message m ON m.id = r.message_id WHERE r.public_id = ?",
        run.hex,
    )


def test_answer_waits_through_a_kill_until_its_document_is_read(site: Site) -> None:
    site.fake.script(stream(ANSWER))
    site.rows("UPDATE chat_upstream SET is_draining = 1")
    site.start(change="during_reading", **LEASE)
    run = site.send("What does it say?")
    attach(site, run)
    site.rows("UPDATE chat_upstream SET is_draining = 0")

    site.until_stopped_at_place()

    with site.browser("Bob") as browser:
        address = f"/c/{site.conversation_of(run)}/"
        soon(lambda: "Reading notes.txt" in browser.get(address).text)
    assert site.run(run)["status"] == "queued"
    assert site.fake.posts == 0
    site.kill9()
    site.start(**LEASE)
    assert_ended(site, run, "completed")
    assert text_of(site, run) == ANSWER_TEXT
    assert site.fake.posts == 1
    assert TEXT.decode() in str(site.fake.requests[-1].body)
