"""A server that is killed while it exports or imports, and started again."""

import pytest

from tests.support.processes.jobs import (
    path_of,
    start_export,
    start_import,
    titles,
    titles_in,
    titles_of,
    until_ended,
)
from tests.support.processes.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]
# Without it, the job of the killed server would be taken up after half a minute.
LEASE = {"LEASE_SECONDS": "2"}


def test_killed_import_goes_on_as_the_same(site: Site) -> None:
    site.start(change="during_import", **LEASE)
    start_import(site)
    site.until_stopped_at_place()
    assert site.value("SELECT count(*) FROM chat_conversation") == 2
    site.kill9()
    site.start(**LEASE)

    job = until_ended(site, "import")

    assert (job["attempts"], job["created"], job["skipped"]) == (2, 4, 0)
    assert titles(site) == titles_of()
    assert [row["created"] for row in site.rows("SELECT created FROM chat_import")] == [4]


def test_killed_export_is_begun_again(site: Site) -> None:
    site.start(**LEASE)
    start_import(site)
    until_ended(site, "import")
    site.terminate()
    site.start(change="during_export", **LEASE)
    start_export(site)
    site.until_stopped_at_place()
    site.kill9()
    site.start(**LEASE)

    job = until_ended(site, "export")

    assert (job["attempts"], job["exported"]) == (2, 4)
    with site.browser("Alice") as browser:
        whole = browser.get(path_of(job, "file"))
        rest = browser.get(
            path_of(job, "file"), headers={"Range": "bytes=100-", "If-Range": whole.headers["ETag"]}
        )
    assert (whole.status_code, rest.status_code) == (200, 206)
    assert whole.content[100:] == rest.content
    assert titles_in(whole.content) == titles_of()
