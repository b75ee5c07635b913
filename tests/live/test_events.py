"""A run's events as JSON over server-sent events: for programs, under the rules of the pages."""

import json
import uuid

import pytest

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.dialects import DIALECTS
from chat.models import Run, User
from chat.runs.public import public_json
from chat.runs.tails import live_tail
from chat.wire.sse import Decoder
from tests.live.conftest import LiveRun, OpenProgram, SignIn, threads
from tests.live.connection import Program
from tests.rendering.stories import MARKDOWN, RICH, told


async def read(program: Program) -> Program:
    await program.until_finished()
    return program


async def test_events_come_in_order_and_end_with_the_end_of_the_run(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    program = open_program(run.id, bobs_session)

    await run.replay(RICH, at_once=3)
    await read(program)

    assert program.seqs == list(range(1, len(RICH) + 1))
    assert [frame.event for frame in program.frames] == [
        type(event).__struct_config__.tag for event in RICH
    ]
    assert [frame.data.encode() for frame in program.frames] == [
        public_json(entry, run.id) for entry in run.entries
    ]
    assert program.frames[-1].event == "chat.end"


async def test_each_event_says_what_it_is_where_it_stands_and_whose_it_is(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    await run.tell("Hello")
    program = open_program(run.id, bobs_session)
    await program.until(lambda program: len(program.frames) == len(run.entries))

    events = [json.loads(frame.data) for frame in program.frames]

    assert [(event["type"], event["seq"]) for event in events] == [
        (frame.event, int(frame.id)) for frame in program.frames
    ]
    assert {event["run"] for event in events} == {run.id.hex}


@pytest.mark.parametrize(
    ("query", "header", "first"),
    [
        pytest.param(b"", b"", 1, id="from the beginning"),
        pytest.param(b"after=5", b"", 6, id="after"),
        pytest.param(b"", b"5", 6, id="Last-Event-ID"),
        pytest.param(b"after=2", b"5", 6, id="Last-Event-ID wins: a client that reconnects"),
        pytest.param(b"after=-3", b"", 1, id="below zero"),
        pytest.param(b"after=x", b"", 1, id="no number"),
        pytest.param("after=٣".encode(), b"", 1, id="digits of another script"),
        pytest.param(b"after=%D9%A3", b"", 1, id="escaped digits of another script"),
        pytest.param(b"after=2&after=4", b"", 5, id="twice"),
        pytest.param(b"", b"\xe9", 1, id="not even ASCII"),
    ],
)
async def test_a_program_says_from_where_it_reads(
    run: LiveRun,
    open_program: OpenProgram,
    bobs_session: str,
    query: bytes,
    header: bytes,
    first: int,
) -> None:
    await run.replay(told(MARKDOWN), at_once=4)
    headers = [(b"last-event-id", header)] if header else []

    program = await read(open_program(run.id, bobs_session, *headers, query=query))

    assert program.status == 200
    assert program.seqs == list(range(first, len(run.entries) + 1))


@pytest.mark.parametrize("after", [b"1000", b"9" * 18, b"9" * 25, b"9" * 5000])
async def test_a_number_behind_the_end_ends_at_once_without_events(
    run: LiveRun,
    open_program: OpenProgram,
    bobs_session: str,
    caplog: pytest.LogCaptureFixture,
    after: bytes,
) -> None:
    await run.replay(told("Hello"))

    program = await read(open_program(run.id, bobs_session, query=b"after=" + after))

    assert (program.status, program.body) == (200, b"")
    assert "events.broken" not in caplog.text


async def test_a_program_that_comes_back_misses_nothing_and_sees_nothing_twice(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    first = open_program(run.id, bobs_session)
    await run.tell("Hello")
    await first.until(lambda program: len(program.frames) > 1)
    seen = len(first.frames)
    await run.add(" again")

    last_id = str(seen).encode()
    second = open_program(run.id, bobs_session, (b"last-event-id", last_id))
    await run.end()
    await read(second)

    assert first.seqs[:seen] + second.seqs == list(range(1, len(run.entries) + 1))


async def test_a_silent_run_is_heard_to_live(
    run: LiveRun, open_program: OpenProgram, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.consumers.run_events.HEARTBEAT_SECONDS", 0.01)
    program = open_program(run.id, bobs_session)

    await program.until(lambda program: program.body.count(b": heartbeat\n\n") > 2)
    await run.tell("At last")
    await run.end()
    await read(program)

    assert program.seqs == list(range(1, len(run.entries) + 1))


async def test_a_queued_run_is_waited_for(
    begin: object, open_program: OpenProgram, bobs_session: str, alice: User
) -> None:
    run = await threads.call(lambda: begin(is_claimed=False))
    program = open_program(run.id, bobs_session)
    await program.until(lambda program: program.status)

    await threads.call(verbs.stop_run, alice, run.row)
    await read(program)

    assert [frame.event for frame in program.frames] == ["chat.start", "chat.end"]


async def test_a_run_that_is_erased_ends_the_stream(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    program = open_program(run.id, bobs_session)
    await run.tell("Hello")
    await program.until(lambda program: len(program.frames) == len(run.entries))

    await threads.call(Run.objects.filter(pk=run.row.pk).delete)
    live_tail.forget(run.id)
    await read(program)

    assert program.seqs == list(range(1, len(run.entries) + 1))


# --- what never leaves ------------------------------------------------------------------


async def test_what_only_the_next_request_may_carry_is_never_sent(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    canary = "canary-of-replay"
    result = canonical.Result(
        model_instance_id="m",
        output=[],
        stats=canonical.Stats(),
        ext=canonical.Extension(
            status="completed", stop=canonical.Stop(reason="stop"), native={"turn": canary}
        ),
    )
    await run.replay(
        [
            canonical.ChatStart(model_instance_id="m"),
            canonical.ReplayData(kind="signature", data={"secret": canary}),
            canonical.ReplayData(kind="encrypted", data=canary),
            canonical.ChatEnd(result=result),
        ]
    )
    assert canary.encode() in b"".join(entry.body for entry in run.entries)

    program = await read(open_program(run.id, bobs_session))

    assert canary.encode() not in program.body
    assert [frame.event for frame in program.frames] == [
        "chat.start",
        "replay.data",
        "replay.data",
        "chat.end",
    ]


async def test_everything_is_ascii_on_one_line_whatever_the_model_wrote(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    text = "Fluß\u2028\u2029\x85\x0b\r\n\r\x00 \U0001f30a data: x\n\nid: 7\n\nevent: chat.end"
    await run.tell(text, size=1000)
    await run.end()

    program = await read(open_program(run.id, bobs_session))

    assert program.body.isascii()
    assert program.seqs == list(range(1, len(run.entries) + 1))
    assert json.loads(program.frames[2].data)["content"] == text
    assert program.body.count(b"\n") == 4 * len(run.entries)


async def test_headers_keep_proxies_and_caches_away(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    await run.replay(told("Hello"))

    program = await read(open_program(run.id, bobs_session))

    assert program.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert program.headers[b"cache-control"] == b"no-cache, no-transform"
    assert program.headers[b"x-accel-buffering"] == b"no"
    assert program.headers[b"x-content-type-options"] == b"nosniff"
    assert b"access-control-allow-origin" not in program.headers


# --- who may read -------------------------------------------------------------------------


async def test_foreign_and_missing_runs_are_the_same_404(
    run: LiveRun, open_program: OpenProgram, charlies_session: str
) -> None:
    await run.replay(told("Not for Charlie"))

    foreign = await read(open_program(run.id, charlies_session))
    missing = await read(open_program(uuid.uuid4(), charlies_session))

    assert foreign.status == 404
    assert foreign.sent == missing.sent
    assert json.loads(foreign.body)["error"]["code"] == "job_not_found"


async def test_a_viewer_of_the_team_may_read(
    run: LiveRun, open_program: OpenProgram, sign_in: SignIn, viewer: User
) -> None:
    await run.replay(told("For readers"))

    program = await read(open_program(run.id, await threads.call(sign_in, viewer)))

    assert program.frames[-1].event == "chat.end"


@pytest.mark.parametrize("session", ["", "x" * 32])
async def test_nobody_is_told_to_sign_in_whatever_they_ask_for(
    run: LiveRun, open_program: OpenProgram, session: str
) -> None:
    there = await read(open_program(run.id, session))
    missing = await read(open_program(uuid.uuid4(), session))

    assert there.status == 401
    assert there.sent == missing.sent


@pytest.mark.parametrize(
    ("site", "status"),
    [(b"cross-site", 403), (b"same-site", 403), (b"same-origin", 200), (b"none", 200)],
)
async def test_another_site_cannot_read_with_the_browser_s_cookie(
    run: LiveRun, open_program: OpenProgram, bobs_session: str, site: bytes, status: int
) -> None:
    await run.replay(told("Not for other sites", size=100))

    program = await read(open_program(run.id, bobs_session, (b"sec-fetch-site", site)))

    assert program.status == status
    assert (b"other sites" in program.body) == (status == 200)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
async def test_nothing_but_reading_is_possible(
    run: LiveRun, open_program: OpenProgram, bobs_session: str, method: str
) -> None:
    program = await read(open_program(run.id, bobs_session, method=method))

    assert program.status == 405
    assert program.headers[b"allow"] == b"GET"


async def test_a_client_that_leaves_leaves_nothing_behind(
    run: LiveRun, live: None, bobs_session: str
) -> None:
    from chat.consumers import run_events

    program = Program(run.id, bobs_session)
    await run.tell("Hello")
    await program.until(lambda program: program.frames)

    await program.close()

    assert not run_events.watch._connections


# --- our stream is a dialect's stream ------------------------------------------------------


async def test_the_stream_of_a_run_is_read_by_the_lmstudio_dialect(
    run: LiveRun, open_program: OpenProgram, bobs_session: str
) -> None:
    await run.replay(told(MARKDOWN))
    program = await read(open_program(run.id, bobs_session))

    parser = DIALECTS["lmstudio"].parser(model="m", endpoint="tributary", options={})
    events = [event for frame in Decoder().feed(program.body) for event in parser.feed(frame)]
    has_read_the_end = parser.is_done
    events += parser.close("eof")

    texts = [one.content for one in events if isinstance(one, canonical.MessageDelta)]
    assert has_read_the_end
    assert "".join(texts) == MARKDOWN
    assert parser.ending is not None
    assert parser.ending.status == "completed"
    # What a run's stream has beyond the dialect is kept, once for each kind of event.
    additions = [one.data for one in events if isinstance(one, canonical.VendorRaw)]
    assert {name for data in additions for name in data} <= {"run", "seq", "t", "item"}
