"""A server that is killed while it exports or imports, and started again."""

import io
import json
import zipfile
from typing import Any
from uuid import UUID

import pytest

from tests.support.processes.site import Site, soon

pytestmark = [pytest.mark.process, pytest.mark.slow]
# Without it, the job of the killed server would be taken up after half a minute.
LEASE = {"LEASE_SECONDS": "2"}
TITLES = {f"Question {number}" for number in range(4)}


def exported() -> bytes:
    """As ChatGPT exports them."""
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hello?"]}}
    mapping = {"a": {"id": "a", "message": {"id": "a", **said}, "parent": None}}
    return json.dumps(
        [
            {"id": title, "title": title, "mapping": mapping, "current_node": "a"}
            for title in sorted(TITLES)
        ]
    ).encode()


def job_of(site: Site, kind: str) -> dict[str, Any]:
    [job] = site.rows("SELECT * FROM chat_job WHERE kind = ?", kind)
    return job


def until_done(site: Site, kind: str) -> dict[str, Any]:
    """The job and its result."""
    soon(
        lambda: site.value("SELECT count(*) FROM chat_job WHERE status = 'done' AND kind = ?", kind)
    )
    job = job_of(site, kind)
    return {**job, **json.loads(job["result"])}


def path_of(job: dict[str, Any], verb: str) -> str:
    return f"/settings/data/{UUID(job['public_id'])}/{verb}/"


def upload(site: Site) -> dict[str, Any]:
    """Returns the job with the report."""
    with site.browser("Alice") as browser:
        answer = browser.post(
            "/settings/data/import/",
            data={"team": site.world.team},
            files={"file": ("conversations.json", exported())},
        )
    assert answer.status_code == 302, answer.text
    return until_done(site, "check")


def start_import(site: Site) -> None:
    assert site.post("Alice", path_of(upload(site), "confirm")).status_code == 302


def test_killed_import_goes_on_as_the_same(site: Site) -> None:
    site.start(change="during_import", **LEASE)
    start_import(site)
    site.until_stopped_at_place()
    assert site.value("SELECT count(*) FROM chat_conversation") == 2
    site.kill9()
    site.start(**LEASE)

    job = until_done(site, "import")

    assert (job["attempts"], job["created"], job["skipped"]) == (2, 4, 0)
    assert {row["title"] for row in site.rows("SELECT title FROM chat_conversation")} == TITLES
    assert [row["created"] for row in site.rows("SELECT created FROM chat_import")] == [4]


def test_killed_export_is_begun_again(site: Site) -> None:
    site.start(**LEASE)
    start_import(site)
    until_done(site, "import")
    site.terminate()
    site.start(change="during_export", **LEASE)
    site.post("Alice", "/settings/data/export/", what="own", form="json")
    site.until_stopped_at_place()
    site.kill9()
    site.start(**LEASE)

    job = until_done(site, "export")

    assert (job["attempts"], job["exported"]) == (2, 4)
    with site.browser("Alice") as browser:
        whole = browser.get(path_of(job, "file"))
        rest = browser.get(
            path_of(job, "file"), headers={"Range": "bytes=100-", "If-Range": whole.headers["ETag"]}
        )
    assert (whole.status_code, rest.status_code) == (200, 206)
    assert whole.content[100:] == rest.content
    archive = zipfile.ZipFile(io.BytesIO(whole.content))
    assert archive.testzip() is None
    assert {
        json.loads(archive.read(name))["conversation"]["title"] for name in archive.namelist()
    } == TITLES
