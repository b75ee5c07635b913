"""The server is killed while several models answer one message."""

import uuid

import pytest
from lxml import html

from tests.support.processes.runs import SEEN, SEEN_END, UNSEEN
from tests.support.processes.site import Site, soon
from tests.support.upstream.script import Gate, stream

pytestmark = pytest.mark.process
MODELS = ("test/model", "test/second", "test/third")


def begin(site: Site) -> list[uuid.UUID]:
    """A message to three models; the runs in the order of the columns."""
    server = site.world.upstream
    with site.browser("Alice") as browser:
        answer = browser.post(
            "/c/",
            data={
                "text": "Where does the river run?",
                "choice": f"{server}:{MODELS[0]}",
                "compare": [f"{server}:{model}" for model in MODELS[1:]],
                "key": str(uuid.uuid4()),
                "team": site.world.team,
                "visibility": "team",
            },
        )
    assert answer.status_code == 302, answer.text
    return [uuid.UUID(row["public_id"]) for row in site.rows("SELECT * FROM chat_run ORDER BY id")]


def column_texts(site: Site, run: uuid.UUID, *, by: str) -> dict[str, str]:
    """The columns of the page by their runs, as text."""
    with site.browser(by) as browser:
        page = html.fromstring(browser.get(f"/c/{site.conversation_of(run)}/").text)
    columns = page.xpath("//section[contains(@class, 'column')]")
    return {
        column.xpath(".//@data-run")[0]: " ".join(column.text_content().split())
        for column in columns
    }


def test_kill_in_the_middle_interrupts_each_and_one_can_be_chosen(site: Site) -> None:
    site.fake.script(
        stream(SEEN, UNSEEN), *(stream(SEEN, Gate(name="rest"), UNSEEN) for _ in range(2))
    )
    site.start()
    runs = begin(site)
    site.fake.wait_until(lambda fake: fake.waiting == ["rest", "rest"])
    soon(lambda: site.value("SELECT count(*) FROM chat_run WHERE status = 'completed'") == 1)
    soon(lambda: all(SEEN_END in text for text in column_texts(site, runs[0], by="Bob").values()))

    site.kill9()
    site.start()

    states = sorted(site.until_ended(run)["status"] for run in runs)
    assert states == ["completed", "interrupted", "interrupted"]
    # Nobody was asked twice.
    assert site.fake.posts == 3
    for person in ("Alice", "Bob"):
        columns = column_texts(site, runs[0], by=person)
        assert list(columns) == [run.hex for run in runs]
        assert all(SEEN_END in text for text in columns.values())
        assert sum("Interrupted" in text for text in columns.values()) == 2

    chosen = next(run for run in runs if site.run(run)["status"] == "interrupted")
    answer = site.post("Bob", f"/m/{site.message_of(chosen)}/choose/")

    assert answer.status_code == 302, answer.text
    assert column_texts(site, runs[0], by="Alice") == {}
    site.fake.script(stream(SEEN, UNSEEN))
    again = site.retry(chosen)
    assert site.until_ended(again)["status"] == "completed"
