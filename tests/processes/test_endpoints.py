"""The live endpoints of a real server, over real sockets. One site for all tests of this file."""

import uuid
from collections.abc import Iterator
from uuid import UUID

import httpx
import pytest

from tests.support.processes.runs import (
    ANSWER,
    assert_ended,
    assert_kept,
)
from tests.support.processes.site import Site
from tests.support.processes.viewers import watching
from tests.support.upstream.script import lmstudio_events, lmstudio_run, stream

pytestmark = pytest.mark.process
QUESTION = "Where does the river run?"


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    if not shared_site.is_alive:
        shared_site.start()
    yield shared_site
    shared_site.settle()


@pytest.fixture
def ended(site: Site) -> UUID:
    """A completed run."""
    site.fake.script(stream(ANSWER))
    run = site.send(QUESTION)
    site.until_ended(run)
    return run


def events_of(run: UUID) -> str:
    return f"/api/v1/runs/{run}/events"


def get_events(
    site: Site, run: UUID, *, by: str = "Bob", headers: dict[str, str] | None = None
) -> httpx.Response:
    with site.browser(by) as browser:
        return browser.get(events_of(run), headers=headers)


@pytest.mark.slow
def test_long_answer_arrives_whole(site: Site) -> None:
    words = [f"word{number} and **more** of it.\n\n" for number in range(3000)]
    site.fake.script(stream(lmstudio_events(lmstudio_run(*words)), split_bytes=777))
    run = site.send("Tell me everything")

    with watching(site, run) as (program, tab):
        program.until_ended()
        tab.until_over(run)

    entries = assert_ended(site, run, "completed")
    assert len(program.frames) == len(entries)
    assert_kept(program, tab, run, entries)
    assert b"".join(frame.raw for frame in program.frames) in program.raw


def test_streams_and_refusals_share_a_connection(site: Site, ended: UUID) -> None:
    with site.browser("Bob") as browser:
        whole = browser.get(events_of(ended))
        missing = browser.get(events_of(uuid.uuid4()))
        rest = browser.get(events_of(ended), headers={"Last-Event-ID": "3"})
    foreign = get_events(site, ended, by="Charlie")

    assert whole.text.endswith(rest.text)
    assert 0 < len(rest.text) < len(whole.text)
    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert foreign.status_code == 404
