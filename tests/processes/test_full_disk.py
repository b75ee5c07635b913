"""A server whose disk is full while it exports and imports: what people read, and what is left."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.jobs import (
    ENDED,
    exported,
    job_of,
    jobs_of,
    path_of,
    post_upload,
    start_export,
    start_import,
    titles,
    titles_in,
    titles_of,
    until_ended,
    upload,
)
from tests.support.processes.site import Site, World, site_from, soon
from tests.support.small_disk import MEGABYTE, SmallDisk, small_disk

pytestmark = [pytest.mark.process, pytest.mark.slow]
FULL = "Storage is full. Ask an administrator to free up space, then try again."
LEASE = {"LEASE_SECONDS": "10"}
# It can't be compressed.
TEXT_BYTES = 2 * MEGABYTE


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=120) as disk:
        yield disk


@pytest.fixture
def site(seeded: tuple[Path, World], disk: SmallDisk, tmp_path: Path) -> Iterator[Site]:
    folder, world = seeded
    with site_from(folder, disk.folder / "data", world, kind=Site) as site:
        # Its log has room.
        site._log_path = tmp_path / "server.log"
        site.start(**LEASE)
        yield site


def large() -> bytes:
    return exported(text=secrets.token_hex(TEXT_BYTES // 2))


def page(site: Site) -> str:
    with site.browser("Alice") as browser:
        answer = browser.get("/settings/data/")
    assert answer.status_code == 200
    return answer.text


def chunks(site: Site) -> int:
    return int(site.value("SELECT count(*) FROM chat_jobchunk"))


def assert_integrity(site: Site) -> None:
    assert site.value("PRAGMA integrity_check") == "ok"
    assert site.rows("PRAGMA foreign_key_check") == []


def test_import_goes_on_when_there_is_room_again(site: Site, disk: SmallDisk) -> None:
    body = large()
    job = upload(site, body)
    disk.fill(left_bytes=2 * MEGABYTE)
    assert site.post("Alice", path_of(job, "confirm")).status_code == 302
    soon(lambda: "job.no_room" in site.log)
    # What is there can be read.
    assert "Import" in page(site)
    made = titles(site)
    assert len(made) < 4
    assert set(made) < set(titles_of())
    disk.free()

    soon(lambda: job_of(site, "import")["status"] in ENDED)
    job = job_of(site, "import")
    if job["status"] == "failed":
        # The disk had room for that much.
        assert job["error"] == FULL
        start_import(site, body)
        soon(lambda: job_of(site, "import")["status"] == "done")
    assert titles(site) == titles_of()
    assert site.value("SELECT sum(created) FROM chat_import") == 4
    soon(lambda: chunks(site) == 0)
    assert_integrity(site)


def test_export_ends_in_words_and_leaves_nothing(site: Site, disk: SmallDisk) -> None:
    start_import(site, large())
    until_ended(site, "import")
    soon(lambda: chunks(site) == 0)
    # Otherwise what was deleted would make room for it.
    site.terminate()
    site.rows("VACUUM")
    disk.fill(left_bytes=MEGABYTE)
    site.start(**LEASE)
    start_export(site)

    job = until_ended(site, "export", "failed")
    assert job["error"] == FULL
    assert FULL in page(site)
    soon(lambda: chunks(site) == 0)
    disk.free()

    start_export(site)
    soon(lambda: job_of(site, "export")["status"] == "done")
    with site.browser("Alice") as browser:
        archive = browser.get(path_of(job_of(site, "export"), "file")).content
    assert titles_in(archive) == titles_of()
    assert_integrity(site)


def test_upload_is_refused_in_words(site: Site, disk: SmallDisk) -> None:
    disk.fill(left_bytes=MEGABYTE)

    answer = post_upload(site, large())

    assert answer.status_code == 507
    assert FULL in answer.text
    disk.free()
    soon(lambda: chunks(site) == 0)
    assert [one["status"] for one in jobs_of(site, "check")] == ["canceled"]
    start_import(site)
    until_ended(site, "import")
    assert titles(site) == titles_of()
