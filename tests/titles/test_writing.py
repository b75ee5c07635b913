"""A runner sends the requests for titles: behind the answers, once, and reads whatever comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from chat.models import Conversation, Run, RunStatus, TitleRequest, TitleStatus
from chat.titles import requests as title_requests
from chat.titles import writer as title_writer
from tests.runs.helpers import TEXT, threads, until, until_ended
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    Gate,
    Script,
    answer,
    cut,
    endless_line,
    lmstudio_events,
    lmstudio_run,
    never,
    openai_chunks,
    openai_run,
    stream,
)
from tests.titles.conftest import Choose, request_of

pytestmark = pytest.mark.databases(slow=True)

ANSWER = stream(TEXT)
SPOKEN = stream(
    lmstudio_events(lmstudio_run("A river ", "that speaks", reasoning=["Let me think."]))
)

Titled = Callable[..., Awaitable[TitleRequest]]


@pytest.fixture
def titled(choose: Choose, begin: Execute) -> Titled:
    """Has an answer written and then a title with these scripts; returns the request as it ended."""

    async def titled(*scripts: Script, **fields: object) -> TitleRequest:
        await threads.call(choose)
        run = await begin(*scripts, **fields)
        await until_ended(run)
        ended = TitleRequest.objects.filter(run=run, finished_at__isnull=False)
        await until(ended.exists)
        return await threads.call(request_of, run)

    return titled


def title_after(request: TitleRequest) -> str:
    return Conversation.objects.values_list("title", flat=True).get(runs=request.run_id)


@pytest.mark.databases
async def test_model_writes_the_title(titled: Titled, fake: FakeUpstream) -> None:
    request = await titled(ANSWER, SPOKEN)

    assert (request.status, request.title) == (TitleStatus.DONE, "A river that speaks")
    assert await threads.call(title_after, request) == "A river that speaks"
    assert (request.input_tokens, request.output_tokens) == (12, 34)
    assert request.model == "title/model"
    sent = fake.requests[-1].body
    assert sent["model"] == "title/model"
    assert "Hello" in str(sent["input"])
    assert "from the river" in str(sent["input"])
    assert sent["max_output_tokens"] == 1000
    # It is no run.
    assert await threads.call(Run.objects.count) == 1


async def test_figures_that_come_late_are_counted(titled: Titled) -> None:
    chunks = openai_chunks(openai_run("A river"))

    request = await titled(stream(chunks), stream(chunks), dialect="openai_chat")

    assert (request.title, request.input_tokens, request.output_tokens) == ("A river", 12, 34)


async def test_refused_limit_is_left_out(titled: Titled, fake: FakeUpstream) -> None:
    refusal = {"error": {"message": "Use 'max_completion_tokens' instead of 'max_tokens'."}}
    chunks = openai_chunks(openai_run("A river"))

    request = await titled(
        stream(chunks), answer(refusal, status=400), stream(chunks), dialect="openai_chat"
    )

    assert request.status == TitleStatus.DONE
    assert fake.requests[-1].body["max_completion_tokens"] == 1000


HOSTILE = {
    "refused": (answer({"error": {"message": "No."}}, status=500), "server"),
    "page": (answer("<h1>Hello</h1>"), "protocol"),
    "cut": (cut(TEXT[: len(TEXT) // 2]), "cut"),
    "endless": (endless_line(), "too_large"),
    "silent": (never(), "timeout"),
    "large": (stream(lmstudio_events(lmstudio_run(*(["x" * 60_000] * 20)))), "too_large"),
    "no title": (stream(lmstudio_events(lmstudio_run("…"))), ""),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_failing_server_leaves_the_title(
    titled: Titled, fake: FakeUpstream, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    script, error = HOSTILE[kind]
    if kind == "silent":
        monkeypatch.setattr(title_writer, "REQUEST_SECONDS", 0.2)

    request = await titled(ANSWER, script)

    assert (request.status, request.error_kind) == (TitleStatus.FAILED, error)
    assert await threads.call(title_after, request) == "Hello"
    # It is not sent again.
    assert fake.posts == 2


async def test_hostile_title_is_one_line(titled: Titled) -> None:
    written = "\u202e<img src=x onerror=alert(1)>\x00\nand more\n" * 1000

    request = await titled(ANSWER, stream(lmstudio_events(lmstudio_run(written))))

    assert await threads.call(title_after, request) == "<img src=x onerror=alert(1)>␀"


async def test_stopping_runner_gives_up_what_it_has_sent(
    choose: Choose, fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner
) -> None:
    await threads.call(choose)
    run = await queue_run(ANSWER, stream(TEXT[:100], Gate(name="title"), TEXT[100:]))
    runner = await start_runner()
    await until_ended(run)
    await fake.until(lambda fake: fake.posts == 2)

    await runner.drain(0)

    request = await threads.call(request_of, run)
    assert (request.status, request.reason) == (TitleStatus.SKIPPED, "lost")


async def test_killed_runner_has_sent_it_once(
    choose: Choose,
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await threads.call(choose)
    run = await queue_run(ANSWER, SPOKEN)
    await start_runner()
    await until_ended(run)
    claimed = TitleRequest.objects.filter(status=TitleStatus.DONE)
    await until(claimed.exists)
    # As a process leaves it that is killed after the claim, before or after the request.
    left = {"status": TitleStatus.RUNNING, "finished_at": None, "title": ""}
    await threads.call(TitleRequest.objects.update, **left)
    monkeypatch.setattr(title_requests, "LEASE", title_requests.LEASE * 0)

    await start_runner()

    await until(TitleRequest.objects.filter(status=TitleStatus.SKIPPED, reason="lost").exists)
    assert fake.posts == 2


async def test_answers_come_first(
    choose: Choose,
    fake: FakeUpstream,
    queue_run: Execute,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(title_writer, "AGAIN_SECONDS", 0.02)
    await threads.call(choose)
    first = await queue_run(ANSWER, concurrency_limit=1)
    second = await queue_run(stream(TEXT[:100], Gate(name="second"), TEXT[100:]), SPOKEN, SPOKEN)
    await start_runner()
    await until_ended(first)
    await fake.until(lambda fake: fake.posts == 2)

    assert (await threads.call(request_of, first)).status == TitleStatus.QUEUED

    fake.release("second")
    await until(lambda: TitleRequest.objects.filter(status=TitleStatus.DONE).count() == 2)
    assert (await until_ended(second)).status == RunStatus.COMPLETED
    assert fake.posts == 4
