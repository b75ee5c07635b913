"""Exports and imports of people over HTTP, and what became of them in the records."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any
from uuid import UUID

import httpx

from tests.support.processes.site import Site, soon


def titles_of(name: str = "Question") -> list[str]:
    return [f"{name} {number}" for number in range(4)]


def exported(name: str = "Question", *, text: str = "Hello?") -> bytes:
    """Four conversations as ChatGPT exports them, named like this."""
    content = {"content_type": "text", "parts": [text]}
    said = {"author": {"role": "user"}, "content": content}
    mapping = {"a": {"id": "a", "message": {"id": "a", **said}, "parent": None}}
    return json.dumps(
        [
            {"id": title, "title": title, "mapping": mapping, "current_node": "a"}
            for title in titles_of(name)
        ]
    ).encode()


def jobs_of(site: Site, kind: str) -> list[dict[str, Any]]:
    return site.rows("SELECT * FROM chat_job WHERE kind = ? ORDER BY id", kind)


def job_of(site: Site, kind: str) -> dict[str, Any]:
    """The latest."""
    return jobs_of(site, kind)[-1]


def until_ended(site: Site, kind: str, status: str = "done") -> dict[str, Any]:
    """The latest job and its result."""
    (job,) = until_last_ended(site, kind, 1, status)
    return job


def until_last_ended(
    site: Site, kind: str, count: int, status: str = "done"
) -> list[dict[str, Any]]:
    """The latest jobs and their results."""
    soon(lambda: all(job["status"] in ENDED for job in jobs_of(site, kind)[-count:]))
    jobs = jobs_of(site, kind)[-count:]
    assert [job["error"] for job in jobs if job["status"] != status] == []
    return [{**job, **_result_of(job)} for job in jobs]


def _result_of(job: dict[str, Any]) -> dict[str, Any]:
    result = job["result"]
    return dict(json.loads(result) if isinstance(result, str) else result)


ENDED = ("done", "failed", "canceled")


def path_of(job: dict[str, Any], verb: str) -> str:
    return f"/settings/data/{UUID(job['public_id'])}/{verb}/"


def post_upload(site: Site, body: bytes) -> httpx.Response:
    with site.browser("Alice") as browser:
        return browser.post(
            "/settings/data/import/",
            data={"team": site.world.team},
            files={"file": ("conversations.json", body)},
        )


def upload(site: Site, body: bytes | None = None) -> dict[str, Any]:
    """Returns the job with the report."""
    answer = post_upload(site, exported() if body is None else body)
    assert answer.status_code == 302, answer.text
    return until_ended(site, "check")


def start_import(site: Site, body: bytes | None = None) -> None:
    job = upload(site, body)
    assert site.post("Alice", path_of(job, "confirm")).status_code == 302


def start_export(site: Site) -> None:
    answer = site.post("Alice", "/settings/data/export/", what="own", form="json")
    assert answer.status_code == 302, answer.text


def titles(site: Site) -> list[str]:
    """Those of imported conversations, each as often as it is there."""
    rows = site.rows(
        "SELECT title FROM chat_conversation c JOIN chat_importedsource s ON s.conversation_id = c.id"
        " WHERE c.deleted_at IS NULL"
    )
    return sorted(row["title"] for row in rows)


def titles_in(archive: bytes) -> list[str]:
    """Those of its conversations, each as often as it is there."""
    file = zipfile.ZipFile(io.BytesIO(archive))
    assert file.testzip() is None
    documents = [json.loads(file.read(name)) for name in file.namelist()]
    return sorted(each["conversation"]["title"] for each in documents)
