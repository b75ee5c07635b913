"""The server is killed around an answer that waits for a person's result, and started again."""

import json
from uuid import UUID

import pytest

from chat import events as canonical
from chat.result import plain_text
from chat.result.merge import merge
from tests.runs.waiting import WEATHER, calling, saying
from tests.support.processes.runs import (
    assert_ended,
    assert_kept,
    assert_resumes,
    kinds,
    text_of,
)
from tests.support.processes.site import Site
from tests.support.processes.viewers import watching
from tests.support.upstream.script import Gate, chunk, openai_chunks, openai_run, stream

pytestmark = [pytest.mark.process, pytest.mark.slow]

FIRST_HALF = openai_chunks(
    [chunk({"role": "assistant"}), chunk({"content": "It rains "}), chunk({"content": "hard"})],
    is_done=False,
)
SECOND_HALF = openai_chunks(openai_run(" in Oslo."))


@pytest.fixture(autouse=True)
def _chat_completions(site: Site) -> None:
    site.rows(
        "UPDATE chat_upstream SET dialect = 'openai_chat', base_url = ?", f"{site.fake.url}/v1"
    )


def question_of(site: Site, run: UUID) -> UUID:
    return UUID(
        site.value(
            "SELECT q.public_id FROM chat_question q JOIN chat_run r ON r.id = q.run_id"
            " WHERE r.public_id = ? AND q.status = 'open'",
            run.hex,
        )
    )


def answer(site: Site, run: UUID, output: str, *, by: str = "Bob") -> UUID:
    """Submits the result that the run waits for; returns the run that continues."""
    answered = site.post(by, f"/q/{question_of(site, run)}/answer/", output=output)
    assert answered.status_code == 302, answered.text
    (row,) = site.rows(
        "SELECT later.public_id FROM chat_run later JOIN chat_run r"
        " ON later.message_id = r.message_id AND later.position = r.position + 1"
        " WHERE r.public_id = ?",
        run.hex,
    )
    return UUID(row["public_id"])


def merged(site: Site, *runs: UUID) -> canonical.Result:
    return merge([canonical.decode_result(site.run(run)["result"]) for run in runs])


def test_question_can_be_answered_after_a_restart(site: Site) -> None:
    site.fake.script(calling(WEATHER, text="Let me look."), saying("It rains."))
    site.start()
    run = site.send("How is the weather?")
    assert_ended(site, run, "waiting")

    site.restart()
    follow_up = answer(site, run, "Rain, 9 °C")

    entries = assert_ended(site, follow_up, "completed")
    assert kinds(entries)[:2] == ["ChatStart", "ToolCallSuccess"]
    assert plain_text(merged(site, run, follow_up)) == "Let me look.\n\nIt rains."
    assert site.fake.posts == 2
    told = site.fake.requests[1].body["messages"][-1]
    assert (told["role"], told["content"]) == ("tool", "Rain, 9 °C")


def test_kill_while_continuing_keeps_result_and_text(site: Site) -> None:
    site.fake.script(calling(WEATHER), stream(FIRST_HALF, Gate(name="rest"), SECOND_HALF))
    site.start()
    run = site.send("How is the weather?")
    assert_ended(site, run, "waiting")
    follow_up = answer(site, run, "Rain")

    with watching(site, follow_up) as (program, tab):
        program.until(lambda program: any("hard" in frame.data for frame in program.frames))
        tab.until_shown(follow_up, "rains hard")
        site.kill9()
        program.until_ended()
        tab.until_ended()
    site.start()

    entries = assert_ended(site, follow_up, "interrupted")
    assert kinds(entries)[:2] == ["ChatStart", "ToolCallSuccess"]
    assert text_of(site, follow_up) == "It rains hard"
    assert_kept(program, tab, follow_up, entries)
    assert_resumes(site, follow_up, program, tab)
    assert merged(site, run, follow_up).output[0].output == "Rain"
    assert site.fake.posts == 2


def test_kill_before_the_second_request_asks_once(site: Site) -> None:
    site.fake.script(calling(WEATHER), saying("It rains."))
    site.start(change="before_going_on")
    run = site.send("How is the weather?")
    assert_ended(site, run, "waiting")

    follow_up = answer(site, run, "Rain")
    with watching(site, follow_up) as (program, tab):
        program.until_event("tool_call.success")
        tab.until_shown(follow_up, "Rain")
        site.until_stopped_at_place()
        site.kill9()
        program.until_ended()
        tab.until_ended()
    assert site.fake.posts == 1
    site.start()

    entries = assert_ended(site, follow_up, "completed")
    assert kinds(entries).count("ToolCallSuccess") == 1
    assert_kept(program, tab, follow_up, entries)
    assert_resumes(site, follow_up, program, tab)
    assert site.fake.posts == 2


@pytest.mark.parametrize(
    ("place", "status", "questions"),
    [("inside_last_commit", "interrupted", 0), ("after_last_commit", "waiting", 1)],
)
def test_question_is_committed_with_the_end_of_its_run(
    site: Site, place: str, status: str, questions: int
) -> None:
    site.fake.script(calling(WEATHER))
    site.start(change=place)
    run = site.send("How is the weather?")
    site.until_stopped_at_place()
    site.restart()

    assert_ended(site, run, status)
    assert site.value("SELECT count(*) FROM chat_question") == questions
    assert json.loads(site.run(run)["result"])["ext"]["status"] == status
