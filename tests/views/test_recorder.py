"""A run as a recording: its events in pages, one beside its frames, its moments, its export."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat import dialects, events
from chat.events import Event
from chat.management.commands.decode import decode
from chat.models import RawSegment, Run, RunSegment, RunStatus, User
from chat.result import Fold, close_open, fold, plain_text
from chat.runs import recording, segments, tracing
from chat.runs.finals import final_response
from tests.views.conftest import Room, spoken

FIXTURES = Path(__file__).parents[1] / "fixtures"
RIVER = b"""event: chat.start
data: {"type":"chat.start","model_instance_id":"demo/model"}

event: message.start
data: {"type":"message.start"}

event: message.delta
data: {"type":"message.delta","content":"By the "}

event: message.delta
data: {"type":"message.delta","content":"spring."}

event: message.end
data: {"type":"message.end"}

event: chat.end
data: {"type":"chat.end","result":{"model_instance_id":"demo/model","output":[{"type":"message","content":"By the spring."}],"stats":{"input_tokens":3,"total_output_tokens":4}}}

"""


def log_of(raw: bytes, dialect: str = "lmstudio") -> list[Event]:
    parser = dialects.get(dialect).parser(model="demo/model", endpoint="", options={})
    return list(decode(parser, iter([raw]), Fold()))


def merged(log: Sequence[Event]) -> list[Event]:
    """As a run's log has it where deltas waited for the database."""
    kept: list[Event] = []
    for event in log:
        last = kept[-1] if kept else None
        if isinstance(event, events.MessageDelta) and isinstance(last, events.MessageDelta):
            last.content += event.content
        else:
            kept.append(event)
    for seq, event in enumerate(kept, start=1):
        event.seq, event.t = seq, 100 * seq
    return kept


def record(run: Run, log: Sequence[Event], raw: bytes = b"", dialect: str = "lmstudio") -> Run:
    """What is kept of a run that ended a while ago: one compressed row for each."""
    RunSegment.objects.filter(run=run).delete()
    body = events.join_bodies(events.encode(event) for event in log)
    RunSegment.objects.create(
        run=run, first_seq=1, last_seq=len(log), is_compressed=True, body=zlib.compress(body)
    )
    if raw:
        compressed = zlib.compress(raw)
        RawSegment.objects.create(run=run, position=0, is_compressed=True, body=compressed)
    now = timezone.now()
    moments: dict[str, Any] = {
        "queued_at": now - timedelta(seconds=9),
        "claimed_at": now - timedelta(seconds=5),
        "request_sent_at": now - timedelta(seconds=4),
        "finished_at": now,
    }
    end = log[-1]
    result = events.encode(end.result).decode() if isinstance(end, events.ChatEnd) else ""
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.COMPLETED, dialect=dialect, last_seq=len(log), result=result, **moments
    )
    run.refresh_from_db()
    return run


@pytest.fixture
def run(room: Room, alice: User) -> Run:
    return record(room.ask(alice, "Where does it rise?"), merged(log_of(RIVER)), RIVER)


def page(client: Client, route: str, run: Run, *args: object, query: str = "") -> html.HtmlElement:
    address = reverse(route, args=[run.public_id, *args])
    response = client.get(f"{address}{query}")
    assert response.status_code == 200
    return html.fromstring(response.content.decode())


def seqs(tree: html.HtmlElement) -> list[int]:
    return [int(one.text) for one in tree.xpath("//*[contains(@class, 'recorder-seq')]")]


def raw_of(tree: html.HtmlElement) -> str:
    return str(tree.xpath("string(//section[h4[contains(., 'server')]])"))


def long_log(deltas: int) -> list[Event]:
    log = spoken("")[:2]
    log += [events.MessageDelta(item=0, content=f"{n} ") for n in range(deltas)]
    log.append(events.UsageUpdate(usage=events.Usage(input_tokens=1)))
    for seq, event in enumerate(log, start=1):
        event.seq, event.t = seq, seq
    return log


# --- the list -------------------------------------------------------------------------------


def test_a_type_that_is_chosen_again_and_again_is_chosen_once(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_log", run, query=f"?{'type=message.delta&' * 50}type=unknown")

    (link,) = tree.xpath("//a[@id='kind-message-start']/@href")
    assert link.count("type=") == 2
    assert seqs(tree) == [3]


def test_every_event_is_in_the_list_with_time_type_and_size(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run)

    assert seqs(tree) == list(range(1, run.last_seq + 1))
    (line,) = tree.xpath("//li[@id='e2']//summary")
    said = line.text_content()
    assert "0.200" in said
    assert "message.start" in said
    assert "bytes" in said


def test_a_long_log_comes_in_pages_and_none_is_left_out(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = record(room.ask(alice, "More"), long_log(250))

    found: list[int] = []
    query = ""
    while True:
        tree = page(as_bob, "run_log", run, query=query)
        found += seqs(tree)
        more = tree.xpath("//a[contains(., 'Later events')]/@hx-get")
        if not more:
            break
        query = "?" + str(more[0]).partition("?")[2]

    assert found == list(range(1, 254))


def test_the_list_shows_only_the_types_that_are_chosen(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = record(room.ask(alice, "More"), long_log(250))

    tree = page(as_bob, "run_log", run, query="?type=usage.update&type=message.start")

    assert seqs(tree) == [2, 253]
    chosen = tree.xpath("//a[@aria-current='true']/@title")
    assert chosen == ["message.start", "usage.update"]
    (text,) = tree.xpath("//a[@title='message.delta']")
    assert "250" in text.text_content()


def test_earlier_events_lead_back_to_the_first(as_bob: Client, room: Room, alice: User) -> None:
    run = record(room.ask(alice, "More"), long_log(250))

    tree = page(as_bob, "run_details", run, query="?at=200")
    assert seqs(tree)[0] < 200 < seqs(tree)[-1]
    (earlier,) = tree.xpath("//a[contains(., 'Earlier events')]/@hx-get")
    before = page(as_bob, "run_log", run, query="?" + str(earlier).partition("?")[2])

    assert seqs(before)[-1] == seqs(tree)[0] - 1


@pytest.mark.parametrize(
    ("query", "without"), [("after=100", "Earlier events"), ("before=100", "Later events")]
)
def test_further_lines_do_not_lead_back_to_those_they_join(
    as_bob: Client, room: Room, alice: User, query: str, without: str
) -> None:
    run = record(room.ask(alice, "More"), long_log(250))

    lines = page(as_bob, "run_log", run, query=f"?{query}").text_content()

    assert without not in lines


@pytest.mark.parametrize("query", ["before=1", "before=5&type=usage.update", "after=9999"])
def test_a_page_without_events_is_empty(as_bob: Client, run: Run, query: str) -> None:
    for route in ("run_details", "run_log"):
        response = as_bob.get(f"{reverse(route, args=[run.public_id])}?{query}")

        assert response.status_code == 200
        assert b"recorder-seq" not in response.content
        assert b"er events" not in response.content


def test_behind_the_last_event_there_is_no_later_one(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?before=9999")

    assert seqs(tree)[-1] == run.last_seq
    assert not tree.xpath("//a[contains(., 'Later events')]")


def test_further_lines_of_a_log_do_not_read_what_lies_before_them(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "Live")
    RunSegment.objects.filter(run=run).delete()
    for event in long_log(600):
        body = events.join_bodies([events.encode(event)])
        RunSegment.objects.create(run=run, first_seq=event.seq, last_seq=event.seq, body=body)
    read: list[int] = []

    def counted(run_pk: int, after: int = 0, *, limit_bytes: int = 0) -> list[recording.Entry]:
        entries = segments.read_entries(run_pk, after, limit_bytes=limit_bytes)
        read.extend(entry.seq for entry in entries)
        return entries

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recording, "read_entries", counted)
        page(as_bob, "run_log", run, query="?after=300")

    assert 1 not in read


def test_what_is_no_number_and_no_type_is_left_aside(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?at=x&type=nonsense&after=-1")

    assert seqs(tree)[0] == 1


def test_types_are_read_without_decoding() -> None:
    for name, struct in events.EVENT_TYPES.items():
        assert recording.type_in(f'{{"type":"{name}","seq":1}}'.encode()) == name
        assert recording.type_in(f'{{"seq":1,"type":"{name}"}}'.encode()) in (name, "vendor.raw")
        assert struct is not None


# --- one event -----------------------------------------------------------------------------


def test_a_link_to_a_moment_opens_there(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?at=3")

    (opened,) = tree.xpath("//details[@open]/..")
    assert opened.get("id") == "e3"
    assert "By the spring." in opened.text_content()


def test_a_merged_event_stands_beside_all_its_frames(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_event", run, 3)

    raw = raw_of(tree)
    assert '"content":"By the "' in raw
    assert '"content":"spring."' in raw
    assert "message.start" not in raw
    assert "exactly this" in raw


def test_frames_of_another_answer_are_not_claimed_to_be_this_one_s(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = record(room.ask(alice, "Odd"), merged(log_of(RIVER)), RIVER.replace(b"spring", b"mouth"))

    tree = page(as_bob, "run_event", run, 3)

    assert "mouth" not in raw_of(tree)
    assert "not known" in raw_of(tree)


def progress_frames(count: int) -> bytes:
    frames = [
        b'event: prompt_processing.progress\ndata: {"type":"prompt_processing.progress",'
        b'"progress":%.4f}\n\n' % (number / count)
        for number in range(count)
    ]
    return b"".join(frames)


@pytest.mark.parametrize("shift", [0.0, 0.00001])
def test_each_frame_is_looked_at_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, as_bob: Client, room: Room, alice: User, shift: float
) -> None:
    raw = RIVER.replace(b"event: message.start", progress_frames(300) + b"event: message.start")
    log = log_of(raw)
    for event in log:
        if isinstance(event, events.PromptProcessingProgress):
            event.progress += shift
    run = record(room.ask(alice, "Slow"), log, raw)
    looks: list[int] = []
    plain = tracing._plain
    monkeypatch.setattr(tracing, "_plain", lambda event: looks.append(1) or plain(event))

    page(as_bob, "run_event", run, 3)

    assert 0 < len(looks) < 3 * 300


def test_without_frames_it_says_so(as_bob: Client, room: Room, alice: User) -> None:
    run = record(room.ask(alice, "Bare"), merged(log_of(RIVER)))

    assert "Nothing is kept" in raw_of(page(as_bob, "run_event", run, 3))


def test_an_event_that_we_made_came_from_no_frame(as_bob: Client, room: Room, alice: User) -> None:
    cut = RIVER[: RIVER.index(b"event: message.end")]
    run = record(room.ask(alice, "Cut"), merged(log_of(cut)), cut)

    assert "we made it" in raw_of(page(as_bob, "run_event", run, run.last_seq))


def test_material_for_the_next_request_is_withheld(as_bob: Client, room: Room, alice: User) -> None:
    log = spoken("x")
    log.append(events.ReplayData(kind="thinking_signature", data="SECRET-SEAL", item=0))
    for seq, event in enumerate(log, start=1):
        event.seq = seq
    raw = b'data: {"type":"x","signature":"SECRET-SEAL"}\n\n'
    run = record(room.ask(alice, "Sealed"), log, raw)

    for query in ("", f"?at={len(log)}"):
        assert "SECRET-SEAL" not in page(as_bob, "run_details", run, query=query).text_content()


@pytest.mark.parametrize(
    "data", [{"password": 12345678}, {"text": '-----BEGIN PRIVATE KEY-----a"b'}], ids=str
)
def test_what_is_masked_is_still_an_event(
    as_bob: Client, room: Room, alice: User, data: dict[str, Any]
) -> None:
    log = merged([*spoken("Hm.")[:1], events.VendorRaw(dialect="lmstudio", data=data)])
    run = record(room.ask(alice, "Where?"), log)

    assert "[masked]" in page(as_bob, "run_event", run, 2).text_content()

    exported = as_bob.get(reverse("run_export", args=[run.public_id, "events"])).content
    assert [json.loads(line)["seq"] for line in exported.splitlines()] == [1, 2]


def test_an_event_that_is_not_there_is_not_found(as_bob: Client, run: Run) -> None:
    for seq in (0, 99):
        address = reverse("run_event", args=[run.public_id, seq])
        assert as_bob.get(address).status_code == 404


# --- time ----------------------------------------------------------------------------------


def test_the_details_tell_the_time_in_line_and_our_own_work(as_bob: Client, run: Run) -> None:
    (bar,) = page(as_bob, "run_details", run).xpath("//*[@class='latency']")

    said = [" ".join(one.text_content().split()) for one in bar.xpath(".//li")]
    assert any(one.startswith("waiting in line 4.0 s") for one in said)
    assert any(one.startswith("our own work") for one in said)


def test_of_an_end_that_nobody_saw_nothing_behind_the_last_event_is_told(
    as_bob: Client, room: Room, alice: User
) -> None:
    start, begun, first, *_ = spoken("By the")
    log = [start, begun, first, events.MessageDelta(item=0, content=" spring")]
    for event, t in zip(log, (100, 200, 300, 2200), strict=True):
        event.t = t
    fold = Fold()
    fold.extend(log)
    log += close_open(fold)
    for seq, event in enumerate(log, start=1):
        event.seq = seq
    run = record(room.ask(alice, "Where does it rise?"), log)

    (bar,) = page(as_bob, "run_details", run).xpath("//*[@class='latency']")

    said = [" ".join(one.text_content().split()) for one in bar.xpath(".//li")]
    assert [one.rsplit(" ", 2)[0] for one in said[:-1]] == [
        "waiting in line 4.0 s",
        "our own work 1.0 s",
        "until the first token 0.2 s",
        "writing 2.0 s",
    ]
    assert said[-1].startswith("Up to the last event")


# --- export --------------------------------------------------------------------------------


def exported(client: Client, run: Run, form: str) -> bytes:
    response = client.get(reverse("run_export", args=[run.public_id, form]))
    assert response.status_code == 200
    assert response.headers["Content-Disposition"].startswith("attachment")
    return bytes(response.content)


def test_what_came_is_exported_byte_for_byte(as_bob: Client, run: Run) -> None:
    assert exported(as_bob, run, "raw") == RIVER


@pytest.mark.parametrize("file", ["thinking", "t27_redacted_thinking", "server_tools"])
def test_an_export_decodes_to_the_same_words_without_the_seals(
    as_bob: Client, room: Room, alice: User, file: str
) -> None:
    raw = (FIXTURES / "anthropic_messages" / f"{file}.sse").read_bytes()
    log = log_of(raw, "anthropic_messages")
    run = record(room.ask(alice, "Sealed"), log, raw, "anthropic_messages")

    masked = exported(as_bob, run, "raw")

    again = log_of(masked, "anthropic_messages")
    assert plain_text(fold(again)) == plain_text(fold(log))
    assert [type(event) for event in again] == [type(event) for event in log]
    for seal in re.findall(rb'"signature":"([^"]{12,})"', raw):
        assert seal not in masked


def test_the_events_are_exported_one_on_a_line(as_bob: Client, run: Run) -> None:
    lines = exported(as_bob, run, "events").splitlines()

    assert [events.decode(line).seq for line in lines] == list(range(1, run.last_seq + 1))
    assert plain_text(fold(events.decode(line) for line in lines)) == "By the spring."


def test_what_is_not_kept_cannot_be_exported(as_bob: Client, room: Room, alice: User) -> None:
    run = record(room.ask(alice, "Bare"), merged(log_of(RIVER)))

    for form in ("raw", "other"):
        assert as_bob.get(reverse("run_export", args=[run.public_id, form])).status_code == 404


# --- the server's own final object ----------------------------------------------------------


def test_an_event_behind_the_end_that_speaks_of_it_hides_nothing(room: Room, alice: User) -> None:
    spoken_of = b'data: {"type":"note","text":"response.completed"}\n\n'
    spoken_of += b'data: {"type":"response.completed","response":' + b"[" * 99_999 + b"\n\n"
    raw = RESPONSES + spoken_of
    run = record(room.ask(alice, "End"), log_of(raw, "openai_responses"), raw, "openai_responses")

    assert final_response(run) is not None


# --- the receipt ---------------------------------------------------------------------------

RESPONSES = (FIXTURES / "openai_responses" / "plain.sse").read_bytes()


@pytest.mark.parametrize(
    ("raw", "dialect", "words"),
    [
        (RIVER, "lmstudio", "Stream and final result agree"),
        (
            RIVER.replace(b'"content":"By the spring."', b'"content":"By the mouth."'),
            "lmstudio",
            "Stream and final result differ",
        ),
        (RESPONSES, "openai_responses", "Stream and final result agree"),
        (
            (FIXTURES / "anthropic_messages" / "plain.sse").read_bytes(),
            "anthropic_messages",
            "no final object",
        ),
    ],
)
def test_the_details_hold_the_stream_against_what_the_server_said_last(
    as_bob: Client, room: Room, alice: User, raw: bytes, dialect: str, words: str
) -> None:
    run = record(room.ask(alice, "True?"), log_of(raw, dialect), raw, dialect)

    (said,) = page(as_bob, "run_details", run).xpath("//*[@class='receipt']")

    assert words in said.text_content()
