"""One run from its request to its result."""

from __future__ import annotations

import asyncio
import base64
import gc
import threading
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chat import events as canonical
from chat.conversations.actions import conversation
from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, Prompt, UpstreamRequest, UserTurn
from chat.models import Attachment, Attempt, Run, Upstream, User
from chat.result import fold
from chat.runs import execution
from chat.runs.segments import read_events, read_raw
from chat.wire.sse import Decoder
from tests.runs.helpers import (
    HALF_AN_ANSWER,
    TEXT,
    has_logged,
    row_of,
    send_below,
    text_of,
    threads,
    until,
    until_ended,
)
from tests.support.answers import png
from tests.support.files import store_file
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import (
    answer,
    busy,
    cut,
    held_open,
    lmstudio_events,
    lmstudio_run,
    never,
    openai_chunks,
    openai_run,
    stream,
)

# How the run ends, and with which kind of error.
BAD_ANSWERS = {
    "no terminator": (cut(TEXT[:400]), "cut", "cut"),
    "HTML": (answer("<html>Hi</html>", content_type="text/html"), "failed", "protocol"),
    "empty": (answer("", content_type="text/event-stream"), "failed", "protocol"),
    "401": (
        answer({"error": {"message": "no", "code": "invalid_api_key"}}, status=401),
        "failed",
        "auth",
    ),
    "500": (answer({"error": {"message": "no"}}, status=500), "failed", "server"),
}


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.runs.execution.BACKOFF_SECONDS", (0.0, 0.0))


async def test_run_streams_into_its_log_and_result(fake: FakeUpstream, execute: Execute) -> None:
    ended = await execute(stream(TEXT))

    events = await threads.call(read_events, ended)
    assert ended.status == "completed"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], canonical.ChatEnd)
    assert canonical.encode(fold(events)).decode() == ended.result
    assert text_of(ended) == "Hello from the river."
    assert ended.last_seq == len(events)
    assert fake.posts == 1


async def test_openai_upstream_streams_too(execute: Execute) -> None:
    script = stream(openai_chunks(openai_run("Two ", "words.")))

    ended = await execute(script, dialect="openai_chat")

    assert ended.status == "completed"
    assert text_of(ended) == "Two words."
    assert (ended.input_tokens, ended.output_tokens) == (12, 34)


async def test_final_object_may_be_larger_than_other_events(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.reader.Decoder", partial(Decoder, 10_000))
    pieces = ["water"] * 4_000

    ended = await execute(stream(lmstudio_events(lmstudio_run(*pieces))))

    assert ended.status == "completed"
    assert text_of(ended) == "".join(pieces)


async def test_answer_without_runs_can_be_replied_to(
    queue_run: Execute, start_runner: StartRunner
) -> None:
    lost = await queue_run(stream(TEXT))
    await threads.call(Run.objects.filter(pk=lost.pk).delete)
    run = await threads.call(send_below, lost, "And then?")

    await start_runner()

    assert (await until_ended(run)).status == "completed"


async def test_request_is_built_off_the_event_loop(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders: list[threading.Thread] = []
    dialect = type(DIALECTS["lmstudio"])
    build = dialect.request

    def noted(self: Dialect, prompt: Prompt) -> UpstreamRequest:
        builders.append(threading.current_thread())
        return build(self, prompt)

    monkeypatch.setattr(dialect, "request", noted)
    ended = await execute(stream(TEXT))

    assert ended.status == "completed"
    assert len(builders) == 1
    assert threading.current_thread() not in builders


async def test_attachment_is_sent_from_either_place(
    fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner, file_place: str
) -> None:
    run = await queue_run(stream(TEXT))

    def attach_picture() -> None:
        message = Run.objects.select_related("message__parent").get(pk=run.pk).message.parent
        file = store_file(png(), media_type="image/png", conversation=run.conversation)
        Attachment.objects.create(message=message, file=file)

    await threads.call(attach_picture)
    await start_runner()

    assert (await until_ended(run)).status == "completed"
    assert base64.b64encode(png()).decode() in str(fake.requests[-1].body)


async def test_conversation_is_not_held_while_the_answer_comes(begin: Execute) -> None:
    run = await begin(HALF_AN_ANSWER, text="How high is the river?")
    await until(lambda: has_logged(run, b"from"))

    gc.collect()
    held = [one for one in gc.get_objects() if isinstance(one, UserTurn | UpstreamRequest)]
    assert not [one for one in held if "How high is the river?" in repr(one)]


async def test_raw_frames_are_the_bytes_that_were_sent(execute: Execute) -> None:
    ended = await execute(stream(b": heartbeat\n\n", TEXT, split_bytes=7))

    assert await threads.call(read_raw, ended) == b": heartbeat\n\n" + TEXT


# --- stop ---------------------------------------------------------------------------------


async def test_stop_in_mid_stream_keeps_the_text(
    fake: FakeUpstream, begin: Execute, alice: User
) -> None:
    run = await begin(HALF_AN_ANSWER)
    await until(lambda: has_logged(run, b"from"))

    await threads.call(conversation.stop_run, alice, run)
    ended = await until_ended(run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert ended.status == "stopped"
    assert ended.stop_requested_by_id == alice.pk
    assert text_of(ended) == "Hello from"
    stop = (await threads.call(read_events, ended))[-1].result.ext.stop
    assert (stop.reason, stop.by) == ("stopped", "Alice")


async def test_stop_before_the_first_byte_closes_the_upstream(
    fake: FakeUpstream, begin: Execute, alice: User
) -> None:
    run = await begin(never())
    await fake.until(lambda fake: fake.posts == 1)

    await threads.call(conversation.stop_run, alice, run)
    ended = await until_ended(run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert ended.status == "stopped"
    assert [type(event).__name__ for event in await threads.call(read_events, ended)] == [
        "ChatStart",
        "ChatEnd",
    ]


async def test_stop_closes_the_upstream_during_blocked_writes(
    fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner, alice: User
) -> None:
    run = await queue_run(HALF_AN_ANSWER)
    runner = await start_runner()
    await until(lambda: has_logged(run, b"from"))
    may_write = threading.Event()
    pools = [runner._threads] * 2 + [runner._writer._threads]
    writing = [asyncio.ensure_future(pool.call(may_write.wait, 60)) for pool in pools]
    await until(lambda: runner._claiming is not None and not runner._claiming.done())
    # Neither does a look before the request wait for the claim.
    await runner._see_stops()

    await threads.call(conversation.stop_run, alice, run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert not (await row_of(run)).finished_at
    may_write.set()
    await asyncio.gather(*writing)
    assert (await until_ended(run)).status == "stopped"


async def test_run_claimed_while_it_is_being_stopped_is_stopped(
    queue_run: Execute, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await queue_run(never())

    def claimed_meanwhile(*_: object) -> int:
        Run.objects.filter(pk=run.pk).update(status="running")
        return 0

    monkeypatch.setattr("chat.conversations.actions.conversation._ask_running", claimed_meanwhile)

    assert await threads.call(conversation.stop_run, alice, run)

    asked = await row_of(run)
    assert (asked.status, asked.stop_requested_by_id) == ("running", alice.pk)


async def test_stop_between_claim_and_request_never_posts(
    fake: FakeUpstream, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = execution.prepare

    def stopped_before(run_pk: int, claimed: Run, **options: bool) -> Any:
        Run.objects.filter(pk=run_pk).update(stop_requested_at=timezone.now())
        return prepare(run_pk, claimed, **options)

    monkeypatch.setattr(execution, "prepare", stopped_before)
    ended = await execute(stream(TEXT))

    assert ended.status == "stopped"
    assert fake.posts == 0


async def test_stop_before_claim_never_posts(
    fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner, alice: User
) -> None:
    run = await queue_run()

    await threads.call(conversation.stop_run, alice, run)
    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "stopped"
    assert len(await threads.call(read_events, ended)) == 2
    assert fake.posts == 0


# --- refusals and bad answers -------------------------------------------------------------


@pytest.mark.usefixtures("no_pauses")
async def test_refused_attempt_is_retried_and_recorded(
    fake: FakeUpstream, execute: Execute
) -> None:
    ended = await execute(busy(times=2, status=503, retry_after="0"), stream(TEXT))

    attempts = await threads.call(
        lambda: list(Attempt.objects.filter(run=ended).order_by("number"))
    )
    assert ended.status == "completed"
    assert [attempt.outcome for attempt in attempts] == ["refused", "refused", "eof"]
    assert fake.posts == 3


@pytest.mark.usefixtures("no_pauses")
async def test_three_refusals_fail_the_run(fake: FakeUpstream, execute: Execute) -> None:
    ended = await execute(busy(times=5, retry_after="0"))

    assert (ended.status, ended.error_kind) == ("failed", "rate_limit")
    assert fake.posts == 3


async def test_bad_answer_fails_after_one_post(
    fake: FakeUpstream, execute: Execute, subtests: pytest.Subtests
) -> None:
    for label, (script, status, kind) in BAD_ANSWERS.items():
        with subtests.test(msg=label):
            fake.clear()

            ended = await execute(script)

            assert (ended.status, ended.error_kind) == (status, kind)
            assert ended.error_message
            assert fake.posts == 1


@pytest.mark.usefixtures("no_pauses")
async def test_refused_connection_is_explained(execute: Execute) -> None:
    ended = await execute(base_url="http://127.0.0.1:9")

    assert (ended.status, ended.error_kind) == ("failed", "network")
    assert "refused" in ended.error_message
    assert await threads.call(Attempt.objects.filter(run=ended).count) == 3


async def test_connection_left_open_after_the_end_is_closed(execute: Execute) -> None:
    assert (await execute(held_open(TEXT))).status == "completed"


async def test_lost_response_id_is_replaced_by_text(fake: FakeUpstream, execute: Execute) -> None:
    unknown = {"error": {"type": "invalid_request", "message": "unknown previous_response_id"}}
    scripts = stream(TEXT), answer(unknown, status=400), stream(TEXT)
    first = await execute(*scripts, text="Who are you?")

    ended = await until_ended(await threads.call(send_below, first, "And now?"))

    bodies = [record.body for record in fake.requests]
    assert ended.status == "completed"
    assert bodies[1]["previous_response_id"].startswith("resp_")
    assert "previous_response_id" not in bodies[2]
    assert "Who are you?" in str(bodies[2]["input"])
    assert ended.notes


async def test_refused_stream_options_are_left_out(fake: FakeUpstream, execute: Execute) -> None:
    refusal = {"error": {"message": "Unrecognized request argument: stream_options"}}
    scripts = answer(refusal, status=400), stream(openai_chunks(openai_run("Yes.")))

    ended = await execute(*scripts, dialect="openai_chat")

    assert ended.status == "completed"
    assert ["stream_options" in record.body for record in fake.requests] == [True, False]


# --- the runner ---------------------------------------------------------------------------


async def test_drained_runner_interrupts_and_keeps_the_text(
    queue_run: Execute, start_runner: StartRunner
) -> None:
    run = await queue_run(HALF_AN_ANSWER)
    runner = await start_runner()
    await until(lambda: has_logged(run, b"from"))

    await runner.drain(0)
    ended = await until_ended(run)

    assert ended.status == "interrupted"
    assert text_of(ended) == "Hello from"


async def test_secret_echoed_by_the_upstream_is_never_stored(
    execute: Execute, upstream: Upstream
) -> None:
    canary = "sk-canary-6b1f0e2d9c"
    upstream.set_key(canary)
    await threads.call(upstream.save)

    ended = await execute(stream(TEXT.replace(b"river", canary.encode()), split_bytes=5))

    log = b"".join(canonical.encode(event) for event in await threads.call(read_events, ended))
    raw = await threads.call(read_raw, ended)
    assert canary.encode() not in log + raw + ended.result.encode()
    assert b"[redacted]" in raw


async def test_twenty_runs_at_once_all_complete(
    queue_run: Execute, start_runner: StartRunner
) -> None:
    script = stream(TEXT, split_bytes=40)
    runs = [await queue_run(script, concurrency_limit=20) for _ in range(20)]

    await start_runner()
    ended = [await until_ended(run) for run in runs]

    assert {run.status for run in ended} == {"completed"}
    assert {text_of(run) for run in ended} == {"Hello from the river."}


async def test_run_that_breaks_our_code_ends_unsent(
    fake: FakeUpstream, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run_pk: int, claimed: Run) -> Any:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("chat.runs.execution.prepare", broken)
    ended = await execute()

    assert ended.status == "interrupted"
    assert fake.posts == 0
