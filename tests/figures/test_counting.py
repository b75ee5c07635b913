"""A run and those who look at it, as the figures and the log tell of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from chat import metrics
from chat.actions.conversations import stop_run
from chat.demo.fake import FakeUpstream
from chat.demo.script import (
    Gate,
    answer,
    lmstudio_events,
    lmstudio_run,
    openai_chunks,
    openai_run,
    stream,
)
from chat.live import viewer as viewer_module
from chat.models import Run, User
from tests.figures.reading import Change, value
from tests.live.conftest import LiveRun, begin, bobs_session, run, sign_in, writer  # noqa: F401
from tests.live.connection import Program, Tab
from tests.runs.conftest import MakeRun, StartRunner, fake, make_run, start_runner, threads  # noqa: F401
from tests.runs.test_execution import until_ended

CANARY = "canary-9b1f77d2c4"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    """What the log says of events that begin like this."""
    caplog.set_level(logging.DEBUG)
    return lambda start: [
        record.getMessage() for record in caplog.records if record.getMessage().startswith(start)
    ]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


# --- runs -----------------------------------------------------------------------------------


async def test_a_run_is_counted_once_and_leaves_its_lines(
    fake: FakeUpstream,  # noqa: F811
    make_run: MakeRun,  # noqa: F811
    start_runner: StartRunner,  # noqa: F811
    lines: Callable[[str], list[str]],
) -> None:
    words = ["One ", "two ", "three."]
    fake.script(stream(lmstudio_events(lmstudio_run(*words))))
    made = await threads.call(make_run, CANARY, base_url=fake.url)
    change = Change()

    await start_runner()
    ended = await until_ended(made)
    await until(lambda: change.of("tributary_runs_ended_total", status="completed"))

    assert change.of("tributary_runs_ended_total", status="completed") == 1
    assert change.of("tributary_runs_claimed_total") == 1
    assert change.of("tributary_queue_seconds_count") == 1
    assert change.of("tributary_run_seconds_count") == 1
    assert change.of("tributary_first_event_seconds_count", upstream="Demo") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="eof") == 1
    assert change.of("tributary_upstream_deltas_total") == len(words)
    assert change.of("tributary_upstream_events_total") >= len(words)
    assert change.of("tributary_upstream_bytes_total") > 0
    assert change.of("tributary_log_events_total") == ended.last_seq
    assert change.of("tributary_commit_seconds_count") == change.of("tributary_commit_runs_count")
    told = lines("run.")
    assert [line.partition(" ")[0] for line in told] == [
        "run.claimed",
        "run.sent",
        "run.first_event",
        "run.ended",
    ]
    assert all(f"run={made.public_id}" in line for line in told)
    assert CANARY not in " ".join(told)


async def test_a_refusal_is_counted_by_its_kind(
    fake: FakeUpstream,  # noqa: F811
    make_run: MakeRun,  # noqa: F811
    start_runner: StartRunner,  # noqa: F811
    lines: Callable[[str], list[str]],
) -> None:
    error = {"error": {"message": f"Bad key {CANARY}", "code": CANARY, "type": CANARY}}
    fake.script(answer(error, status=401))
    made = await threads.call(make_run, base_url=fake.url)
    change = Change()

    await start_runner()
    await until_ended(made)
    await until(lambda: change.of("tributary_runs_ended_total", status="failed"))

    assert change.of("tributary_upstream_errors_total", upstream="Demo", kind="auth") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="refused") == 1
    assert change.of("tributary_first_event_seconds_count", upstream="Demo") == 0
    assert CANARY not in " ".join(lines(""))


async def test_a_stop_is_timed_from_the_press(
    fake: FakeUpstream,  # noqa: F811
    make_run: MakeRun,  # noqa: F811
    start_runner: StartRunner,  # noqa: F811
    alice: User,
) -> None:
    begun = lmstudio_events(lmstudio_run("One "))[:200]
    fake.script(stream(begun, Gate(name="never")))
    made = await threads.call(make_run, base_url=fake.url)
    change = Change()
    await start_runner()
    await until(lambda: fake.waiting == ["never"])

    await threads.call(stop_run, alice, await threads.call(Run.objects.get, pk=made.pk))
    await until_ended(made)
    await until(lambda: change.of("tributary_stop_seconds_count"))

    assert change.of("tributary_stops_total") == 1
    assert change.of("tributary_stop_seconds_count") == 1
    assert change.of("tributary_upstream_attempts_total", upstream="Demo", outcome="stopped") == 1
    assert change.of("tributary_runs_ended_total", status="stopped") == 1


async def test_no_label_comes_from_an_upstream(
    fake: FakeUpstream,  # noqa: F811
    make_run: MakeRun,  # noqa: F811
    start_runner: StartRunner,  # noqa: F811
) -> None:
    strange = b'event: %b\ndata: {"type": "%b", "model": "%b"}\n\n' % ((CANARY.encode(),) * 3)
    fake.script(stream(strange, openai_chunks(openai_run("One."))))
    made = await threads.call(make_run, base_url=f"{fake.url}/v1", dialect="openai_chat")
    change = Change()

    await start_runner()
    await until_ended(made)
    await until(lambda: change.of("tributary_unknown_events_total", dialect="openai_chat"))

    assert CANARY not in metrics.exposition().decode()


# --- those who look ---------------------------------------------------------------------------


async def test_a_tab_is_counted_while_it_is_there(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
    lines: Callable[[str], list[str]],
) -> None:
    change = Change()
    tab = Tab(bobs_session)
    tab.follow(run.id)
    await run.tell("The river runs.")
    await tab.until_seq(run.id, len(run.entries))

    assert value("tributary_viewers", transport="websocket") == 1
    assert value("tributary_hubs") >= 1
    assert change.of("tributary_frames_rendered_total") >= 1
    texts = [event["text"] for event in tab.sent if event["type"] == "websocket.send"]
    assert change.of("tributary_frames_sent_total", transport="websocket") == len(texts)
    assert change.of("tributary_sent_bytes_total", transport="websocket") == sum(map(len, texts))

    tab.say(type="resync", run=run.id.hex)
    await tab.until(lambda tab: any(frame["replaces"] for frame in tab.frames(run.id)))
    await tab.close()

    assert change.of("tributary_replacements_total", reason="asked") == 1
    assert value("tributary_viewers", transport="websocket") == 0
    told = lines("viewer.")
    assert [line.split(" ")[0] for line in told] == [
        "viewer.opened",
        "viewer.replaced",
        "viewer.closed",
    ]
    assert len({line.split(" ")[1] for line in told}) == 1


async def test_a_program_is_counted_apart(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
) -> None:
    change = Change()
    program = Program(run.id, bobs_session)
    await run.tell("The river runs.")
    await program.until(lambda program: len(program.frames) == len(run.entries))

    assert value("tributary_viewers", transport="events") == 1
    assert change.of("tributary_sent_bytes_total", transport="events") >= len(program.body)
    await program.close()
    assert value("tributary_viewers", transport="events") == 0


async def test_a_tab_that_acknowledges_nothing_is_behind(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(viewer_module, "UNACKNOWLEDGED_BYTES", 10)
    tab = Tab(bobs_session, is_deaf=True)
    tab.follow(run.id)
    await run.tell("The river runs.")
    await tab.until(lambda tab: tab.frames(run.id))

    assert value("tributary_viewers_behind") == 1

    await tab.close()
    assert value("tributary_viewers_behind") == 0


async def test_a_follower_tells_where_it_found_events(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
) -> None:
    await run.tell("The river runs.")
    change = Change()
    program = Program(run.id, bobs_session)
    await program.until(lambda program: len(program.frames) == len(run.entries))
    await program.close()

    assert change.of("tributary_tail_reads_total", found="tail") >= 1
