import asyncio
import threading
import uuid
from collections.abc import Callable

import pytest

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.demo.fake import FakeUpstream
from chat.demo.script import (
    Gate,
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
from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, Prompt, UpstreamRequest
from chat.models import Attempt, Run, RunSegment, User
from chat.result import fold, plain_text
from chat.runs.segments import read_events, read_raw
from tests.runs.conftest import MakeRun, StartRunner, threads

TEXT = lmstudio_events(lmstudio_run("Hello ", "from ", "the river.", reasoning=["Let me ", "see."]))


async def until(holds: Callable[[], bool], *, seconds: float = 10) -> None:
    """Waits until the database says so."""
    async with asyncio.timeout(seconds):
        while not await threads.call(holds):
            await asyncio.sleep(0.01)


async def until_ended(run: Run) -> Run:
    await until(lambda: Run.objects.filter(pk=run.pk, finished_at__isnull=False).exists())
    return await threads.call(Run.objects.get, pk=run.pk)


async def test_a_run_streams_into_its_log_and_its_result(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    events = await threads.call(read_events, ended)
    assert ended.status == "completed"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], canonical.ChatEnd)
    assert canonical.encode(fold(events)).decode() == ended.result
    assert plain_text(canonical.decode_result(ended.result)) == "Hello from the river."
    assert ended.last_seq == len(events)
    assert fake.posts == 1


async def test_openai_upstream_streams_too(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(stream(openai_chunks(openai_run("Two ", "words."))))
    run = await threads.call(make_run, base_url=f"{fake.url}/v1", dialect="openai_chat")

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert plain_text(canonical.decode_result(ended.result)) == "Two words."
    assert (ended.input_tokens, ended.output_tokens) == (12, 34)


async def test_a_conversation_goes_on_below_an_answer_that_lost_its_runs(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    fake.script(stream(TEXT))

    def go_on() -> Run:
        run = make_run(base_url=fake.url)
        answer, choice = run.message, verbs.ModelChoice(upstream=run.upstream, model="test/model")
        run.delete()
        key = uuid.uuid4()
        return verbs.send_message(
            alice,
            answer.conversation,
            parent=answer,
            text="And then?",
            choice=choice,
            idempotency_key=key,
        )

    run = await threads.call(go_on)
    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"


async def test_a_request_is_made_beside_the_event_loop(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    makers: list[threading.Thread] = []
    dialect = type(DIALECTS["lmstudio"])
    make = dialect.request

    def noted(self: Dialect, prompt: Prompt) -> UpstreamRequest:
        makers.append(threading.current_thread())
        return make(self, prompt)

    monkeypatch.setattr(dialect, "request", noted)
    fake.script(stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert len(makers) == 1
    assert threading.current_thread() not in makers


async def test_raw_frames_are_the_bytes_the_upstream_sent(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(stream(b": heartbeat\n\n", TEXT, split_bytes=7))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert await threads.call(read_raw, ended) == b": heartbeat\n\n" + TEXT


async def test_stop_in_mid_stream_keeps_the_text_and_closes_the_upstream(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    fake.script(stream(TEXT[: TEXT.index(b"river") - 60], Gate(name="more"), TEXT))
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await until(lambda: RunSegment.objects.filter(run=run).exists())

    await threads.call(verbs.stop_run, alice, run)
    ended = await until_ended(run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert ended.status == "stopped"
    assert ended.stop_requested_by_id == alice.pk
    assert (await threads.call(read_events, ended))[-1].result.ext.stop.reason == "stopped"


async def test_stop_before_the_first_byte_closes_the_upstream(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    fake.script(never())
    run = await threads.call(make_run, base_url=fake.url)
    await start_runner()
    await fake.until(lambda fake: fake.posts == 1)

    await threads.call(verbs.stop_run, alice, run)
    ended = await until_ended(run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert ended.status == "stopped"
    assert [type(event).__name__ for event in await threads.call(read_events, ended)] == [
        "ChatStart",
        "ChatEnd",
    ]


async def test_a_stop_closes_the_upstream_while_nothing_can_be_written(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    fake.script(stream(TEXT[: TEXT.index(b"river") - 60], Gate(name="more"), TEXT))
    run = await threads.call(make_run, base_url=fake.url)
    runner = await start_runner()
    await until(lambda: RunSegment.objects.filter(run=run).exists())
    may_write = threading.Event()
    ends = [runner._threads] * 2 + [runner._writer._threads]
    writing = [asyncio.ensure_future(each.call(may_write.wait, 30)) for each in ends]

    await threads.call(verbs.stop_run, alice, run)
    await fake.until(lambda fake: fake.disconnects == 1)

    assert not (await threads.call(Run.objects.get, pk=run.pk)).finished_at
    may_write.set()
    await asyncio.gather(*writing)
    assert (await until_ended(run)).status == "stopped"


async def test_a_run_that_is_claimed_while_it_is_being_stopped_is_stopped(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.script(never())
    run = await threads.call(make_run, base_url=fake.url)

    def claimed_behind_us(**_: object) -> int:
        Run.objects.filter(pk=run.pk).update(status="running")
        return 0

    monkeypatch.setattr("chat.actions.conversations._ask_running", claimed_behind_us)

    assert await threads.call(verbs.stop_run, alice, run)

    asked = await threads.call(Run.objects.get, pk=run.pk)
    assert (asked.status, asked.stop_requested_by_id) == ("running", alice.pk)


async def test_stop_before_claim_never_posts(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    run = await threads.call(make_run, base_url=fake.url)

    await threads.call(verbs.stop_run, alice, run)
    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "stopped"
    assert len(await threads.call(read_events, ended)) == 2
    assert fake.posts == 0


async def test_a_refused_attempt_is_tried_again_and_recorded(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.execution.BACKOFF_SECONDS", (0.0, 0.0))
    fake.script(busy(times=2, status=503, retry_after="0"), stream(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    attempts = await threads.call(lambda: list(Attempt.objects.filter(run=run).order_by("number")))
    assert ended.status == "completed"
    assert [attempt.outcome for attempt in attempts] == ["refused", "refused", "eof"]
    assert fake.posts == 3


async def test_three_refusals_are_the_end(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.runs.execution.BACKOFF_SECONDS", (0.0, 0.0))
    fake.script(busy(times=5, retry_after="0"))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert (ended.status, ended.error_kind) == ("failed", "rate_limit")
    assert fake.posts == 3


@pytest.mark.parametrize(
    ("script", "status", "kind"),
    [
        pytest.param(cut(TEXT[:400]), "cut", "cut", id="no terminator"),
        pytest.param(answer("<html>Hi</html>", content_type="text/html"), "failed", "protocol", id="HTML"),
        pytest.param(answer("", content_type="text/event-stream"), "failed", "protocol", id="empty"),
        pytest.param(answer({"error": {"message": "no", "code": "invalid_api_key"}}, status=401), "failed", "auth", id="401"),
        pytest.param(answer({"error": {"message": "no"}}, status=500), "failed", "server", id="500"),
    ],
)  # fmt: skip
async def test_a_bad_answer_ends_the_run_with_a_reason_and_one_post(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    script: object,
    status: str,
    kind: str,
) -> None:
    fake.script(script)
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert (ended.status, ended.error_kind) == (status, kind)
    assert ended.error_message
    assert fake.posts == 1


async def test_a_refused_connection_is_told_in_words(
    make_run: MakeRun, start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.runs.execution.BACKOFF_SECONDS", (0.0, 0.0))
    run = await threads.call(make_run, base_url="http://127.0.0.1:9")

    await start_runner()
    ended = await until_ended(run)

    assert (ended.status, ended.error_kind) == ("failed", "network")
    assert "refused" in ended.error_message
    assert await threads.call(Attempt.objects.filter(run=run).count) == 3


async def test_the_socket_that_stays_open_after_the_end_is_closed_by_us(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(held_open(TEXT))
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"


async def test_a_drained_runner_interrupts_and_keeps_the_text(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(stream(TEXT[: TEXT.index(b"river") - 60], Gate(name="never")))
    run = await threads.call(make_run, base_url=fake.url)
    runner = await start_runner()
    await until(lambda: RunSegment.objects.filter(run=run).exists())

    await runner.drain(0)
    ended = await until_ended(run)

    assert ended.status == "interrupted"
    assert "Hello" in plain_text(canonical.decode_result(ended.result))


async def test_a_secret_echoed_by_the_upstream_is_stored_nowhere(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, upstream: object
) -> None:
    canary = "sk-canary-6b1f0e2d9c"
    fake.script(stream(TEXT.replace(b"river", canary.encode()), split_bytes=5))

    def with_key() -> Run:
        upstream.set_key(canary)
        upstream.save()
        return make_run(base_url=fake.url)

    run = await threads.call(with_key)
    await start_runner()
    ended = await until_ended(run)

    log = b"".join(canonical.encode(event) for event in await threads.call(read_events, ended))
    raw = await threads.call(read_raw, ended)
    assert canary.encode() not in log + raw + ended.result.encode()
    assert b"[redacted]" in raw


async def test_twenty_runs_at_once_share_their_commits_and_all_complete(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    fake.script(*[stream(TEXT, split_bytes=40) for _ in range(20)])
    runs = [
        await threads.call(make_run, base_url=fake.url, concurrency_limit=20) for _ in range(20)
    ]

    await start_runner()
    ended = [await until_ended(run) for run in runs]

    assert {run.status for run in ended} == {"completed"}
    assert {plain_text(canonical.decode_result(run.result)) for run in ended} == {
        "Hello from the river."
    }


async def test_a_run_that_breaks_our_own_code_ends_and_is_not_begun_again(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(run_pk: int) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("chat.runs.execution.prepare", broken)
    run = await threads.call(make_run, base_url=fake.url)

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "interrupted"
    assert fake.posts == 0


async def test_a_lost_response_id_is_replaced_by_the_turns_as_text(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, alice: User
) -> None:
    lost = {"error": {"type": "invalid_request", "message": "unknown previous_response_id"}}
    fake.script(stream(TEXT), answer(lost, status=400), stream(TEXT))
    first = await threads.call(make_run, "Who are you?", base_url=fake.url)
    await start_runner()
    await until_ended(first)

    def ask_again() -> Run:
        run = Run.objects.select_related("conversation", "message", "upstream").get(pk=first.pk)
        return verbs.send_message(
            alice,
            run.conversation,
            parent=run.message,
            text="And now?",
            choice=verbs.ModelChoice(upstream=run.upstream, model=run.model),
            idempotency_key=uuid.uuid4(),
        )

    ended = await until_ended(await threads.call(ask_again))

    bodies = [record.body for record in fake.requests]
    assert ended.status == "completed"
    assert bodies[1]["previous_response_id"].startswith("resp_")
    assert "previous_response_id" not in bodies[2]
    assert "Who are you?" in str(bodies[2]["input"])
    assert ended.notes


async def test_a_server_that_refuses_stream_options_is_asked_without_them(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner
) -> None:
    refusal = {"error": {"message": "Unrecognized request argument: stream_options"}}
    fake.script(answer(refusal, status=400), stream(openai_chunks(openai_run("Yes."))))
    run = await threads.call(make_run, base_url=f"{fake.url}/v1", dialect="openai_chat")

    await start_runner()
    ended = await until_ended(run)

    assert ended.status == "completed"
    assert ["stream_options" in record.body for record in fake.requests] == [True, False]
