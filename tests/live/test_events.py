"""The event stream of a run: JSON over server-sent events, for API clients."""

import json
import uuid

import pytest

from chat import events as canonical
from chat.conversations.actions import conversation
from chat.dialects import DIALECTS
from chat.models import Run, User
from chat.public_api import log_stream
from chat.runs.configured_buffer import event_buffer
from chat.wire.sse import Decoder
from tests.live.conftest import LiveRun, OpenProgram, threads
from tests.rendering.stories import MARKDOWN, RICH, told
from tests.support.pages import sent


async def test_events_come_in_order_until_chat_end(run: LiveRun, open_program: OpenProgram) -> None:
    program = open_program(run.id)

    await run.replay(RICH, at_once=3)
    await program.until_finished()

    numbered = [frame for frame in program.frames if frame.id]
    assert [int(frame.id) for frame in numbered] == list(range(1, len(RICH) + 1))
    assert [frame.event for frame in program.frames] == [
        json.loads(frame.data)["type"] for frame in program.frames
    ]
    assert [frame.data for frame in program.frames] == sent(run.id, run.entries)
    assert program.frames[-1].event == "chat.end"


async def test_events_have_type_seq_and_run(run: LiveRun, open_program: OpenProgram) -> None:
    await run.tell("Hello")
    program = open_program(run.id)
    await program.until(lambda program: len(program.frames) == len(run.entries))

    events = [json.loads(frame.data) for frame in program.frames]

    assert [(event["type"], event["seq"]) for event in events] == [
        (frame.event, int(frame.id)) for frame in program.frames
    ]
    assert {event["run"] for event in events} == {run.id.hex}


async def test_client_chooses_where_to_start(
    run: LiveRun, open_program: OpenProgram, subtests: pytest.Subtests
) -> None:
    await run.replay(told(MARKDOWN), at_once=4)

    for name, query, header, first in (
        ("from the beginning", b"", b"", 1),
        ("after", b"after=5", b"", 6),
        ("Last-Event-ID", b"", b"5", 6),
        ("Last-Event-ID wins: a client that reconnects", b"after=2", b"5", 6),
        ("below zero", b"after=-3", b"", 1),
        ("no number", b"after=x", b"", 1),
        ("digits of another script", "after=٣".encode(), b"", 1),
        ("escaped digits of another script", b"after=%D9%A3", b"", 1),
        ("twice", b"after=2&after=4", b"", 5),
        ("not even ASCII", b"", b"\xe9", 1),
    ):
        with subtests.test(msg=name):
            headers = [(b"last-event-id", header)] if header else []

            program = open_program(run.id, headers=headers, query=query)
            await program.until_finished()

            assert program.status == 200
            assert program.seqs == list(range(first, len(run.entries) + 1))


async def test_start_behind_the_end_has_no_events(
    run: LiveRun,
    open_program: OpenProgram,
    caplog: pytest.LogCaptureFixture,
    subtests: pytest.Subtests,
) -> None:
    await run.replay(told("Hello"))

    for after in (b"1000", b"9" * 18, b"9" * 25, b"9" * 5000):
        with subtests.test(msg=repr(after[:30])):
            program = open_program(run.id, query=b"after=" + after)
            await program.until_finished()

            assert (program.status, program.body) == (200, b"")
            assert "events.broken" not in caplog.text


async def test_reconnected_client_misses_and_repeats_nothing(
    run: LiveRun, open_program: OpenProgram
) -> None:
    first = open_program(run.id)
    await run.tell("Hello")
    await first.until(lambda program: len(program.frames) > 1)
    seen = len(first.frames)
    await run.add(" again")

    second = open_program(run.id, headers=[(b"last-event-id", str(seen).encode())])
    await run.end()
    await second.until_finished()

    assert first.seqs[:seen] + second.seqs == list(range(1, len(run.entries) + 1))


async def test_silent_run_sends_heartbeats(
    run: LiveRun, open_program: OpenProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.public_api.log_stream.HEARTBEAT_SECONDS", 0.01)
    program = open_program(run.id)

    await program.until(lambda program: program.body.count(b": heartbeat\n\n") > 2)
    await run.tell("At last")
    await run.end()
    await program.until_finished()

    assert program.seqs == list(range(1, len(run.entries) + 1))


async def test_queued_run_is_followed_to_its_end(
    queued_run: LiveRun, open_program: OpenProgram, alice: User
) -> None:
    program = await open_program(queued_run.id).until_answered()

    await threads.call(conversation.stop_run, alice, queued_run.row)
    await program.until_finished()

    assert [frame.event for frame in program.frames] == ["chat.start", "chat.end"]


async def test_erased_run_ends_the_stream(run: LiveRun, open_program: OpenProgram) -> None:
    program = open_program(run.id)
    await run.tell("Hello")
    await program.until(lambda program: len(program.frames) == len(run.entries))

    await threads.call(Run.objects.filter(pk=run.row.pk).delete)
    event_buffer.forget(run.id)
    await program.until_finished()

    assert program.seqs == list(range(1, len(run.entries) + 1))


# --- what never leaves ------------------------------------------------------------------


async def test_replay_data_is_never_sent(run: LiveRun, open_program: OpenProgram) -> None:
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

    program = await open_program(run.id).until_finished()

    assert canary.encode() not in program.body
    assert [frame.event for frame in program.frames] == [
        "chat.start",
        "replay.data",
        "replay.data",
        "chat.end",
    ]


async def test_any_text_is_sent_as_one_ascii_line(run: LiveRun, open_program: OpenProgram) -> None:
    text = "Fluß\u2028\u2029\x85\x0b\r\n\r\x00 \U0001f30a data: x\n\nid: 7\n\nevent: chat.end"
    await run.tell(text, size=1000)
    await run.end()

    program = await open_program(run.id).until_finished()

    assert program.body.isascii()
    assert program.seqs == list(range(1, len(run.entries) + 1))
    assert json.loads(program.frames[2].data)["content"] == text
    assert program.body.count(b"\n") == 4 * len(run.entries)


async def test_headers_prevent_buffering_and_caching(
    run: LiveRun, open_program: OpenProgram
) -> None:
    await run.replay(told("Hello"))

    program = await open_program(run.id).until_finished()

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

    foreign = await open_program(run.id, session=charlies_session).until_finished()
    missing = await open_program(uuid.uuid4(), session=charlies_session).until_finished()

    assert foreign.status == 404
    assert foreign.sent == missing.sent
    assert foreign.error_code == "job_not_found"


@pytest.mark.parametrize("session", ["", "x" * 32], ids=["none", "unknown"])
async def test_stranger_gets_401_for_any_run(
    run: LiveRun, open_program: OpenProgram, session: str
) -> None:
    existing = await open_program(run.id, session=session).until_finished()
    missing = await open_program(uuid.uuid4(), session=session).until_finished()

    assert existing.status == 401
    assert existing.sent == missing.sent


@pytest.mark.parametrize(
    ("site", "status"),
    [(b"cross-site", 403), (b"same-site", 403), (b"same-origin", 200), (b"none", 200)],
)
async def test_other_sites_cannot_use_the_cookie(
    run: LiveRun, open_program: OpenProgram, site: bytes, status: int
) -> None:
    await run.replay(told("Not for other sites", size=100))

    program = open_program(run.id, headers=[(b"sec-fetch-site", site)])
    await program.until_finished()

    assert program.status == status
    assert (b"other sites" in program.body) == (status == 200)


async def test_only_get_is_allowed(
    run: LiveRun, open_program: OpenProgram, subtests: pytest.Subtests
) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        with subtests.test(msg=method):
            program = await open_program(run.id, method=method).until_finished()

            assert program.status == 405
            assert program.headers[b"allow"] == b"GET"


async def test_disconnected_client_leaves_nothing_behind(
    run: LiveRun, open_program: OpenProgram
) -> None:
    program = open_program(run.id)
    await run.tell("Hello")
    await program.until(lambda program: program.frames)

    await program.close()

    assert not log_stream.access_monitor._connections


# --- our stream is a dialect's stream ------------------------------------------------------


async def test_lmstudio_dialect_reads_the_stream(run: LiveRun, open_program: OpenProgram) -> None:
    await run.replay(told(MARKDOWN))
    program = await open_program(run.id).until_finished()

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
