"""Details of a run: its events in pages, each with its frames, times, export, and comparison."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.events import Event
from chat.models import Run, RunSegment
from chat.result import Fold, close_open, fold, plain_text
from chat.run_details import log_pages, trace
from chat.run_details.trace import final_response
from chat.runs import segments
from tests.run_details.recordings import (
    FIXTURES,
    RESPONSES,
    RIVER,
    log_of,
    long_log,
    merged,
    numbered,
    record,
)
from tests.support.rooms import Room, get_page, message_log, text_of

# Records a run: events, the server's bytes, dialect.
Recorded = Callable[..., Run]


@pytest.fixture
def recorded(room: Room) -> Recorded:
    def make(log: Sequence[Event], raw: bytes = b"", dialect: str = "lmstudio") -> Run:
        return record(room.ask("Where does it rise?"), log, raw, dialect)

    return make


@pytest.fixture
def run(recorded: Recorded) -> Run:
    return recorded(merged(log_of(RIVER)), RIVER)


@pytest.fixture
def long_run(recorded: Recorded) -> Run:
    return recorded(long_log(250))


def page(client: Client, route: str, run: Run, *args: object, query: str = "") -> html.HtmlElement:
    return get_page(client, reverse(route, args=[run.public_id, *args]) + query)


def query_of(link: str) -> str:
    return "?" + link.partition("?")[2]


def seqs(tree: html.HtmlElement) -> list[int]:
    return [int(one.text) for one in tree.xpath("//summary/*[contains(@class, 'recorder-seq')]")]


def frames_of(tree: html.HtmlElement) -> str:
    """The text of the part with the server's frames."""
    return str(tree.xpath("string(//section[h3[contains(., 'Recording')]])"))


# --- the list -------------------------------------------------------------------------------


def test_list_shows_time_type_and_size_of_every_event(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?tab=events")

    assert seqs(tree) == list(range(1, run.last_seq + 1))
    (line,) = tree.xpath("//li[@id='e2']//summary")
    assert "0.200" in line.text_content()
    assert "Message started" in line.text_content()
    assert "bytes" in line.text_content()


def test_pages_of_a_long_log_contain_every_event(as_bob: Client, long_run: Run) -> None:
    found: list[int] = []
    query = "?" + "&".join(f"type={kind}" for kind in log_pages.counts_of(long_run.pk))
    while True:
        tree = page(as_bob, "run_log", long_run, query=query)
        found += seqs(tree)
        more = tree.xpath("//a[contains(., 'Later events')]/@hx-get")
        if not more:
            break
        query = query_of(more[0])

    assert found == list(range(1, 254))


def test_deltas_that_follow_each_other_are_one_row(as_bob: Client, long_run: Run) -> None:
    tree = page(as_bob, "run_log", long_run)

    assert seqs(tree) == [1, 2, 3, 203, 253]
    text, rest = tree.xpath("//summary[.//*[@title='message.delta']]")
    assert "Message text ×200" in text_of(text)
    assert "0 1 2 3" in text_of(text)
    assert "Message text ×50" in text_of(rest)

    (behind,) = rest.xpath("../@hx-get")
    assert seqs(page(as_bob, "run_log", long_run, query=query_of(behind))) == list(range(203, 253))


def test_earlier_rows_end_before_the_page(as_bob: Client, recorded: Recorded) -> None:
    pairs = [
        [
            events.MessageDelta(item=0, content="a"),
            events.UsageUpdate(usage=events.Usage(input_tokens=1)),
        ]
        for _ in range(300)
    ]
    run = recorded(numbered([event for pair in pairs for event in pair], step_ms=1))

    tree = page(as_bob, "run_log", run, query="?before=401")

    assert seqs(tree) == list(range(301, 401))
    assert tree.xpath("//a[contains(., 'Earlier events')]")


def test_secret_across_deltas_is_redacted(as_bob: Client, recorded: Recorded) -> None:
    start, begun, *_ = message_log("")
    pieces = ["Use sk-proj-abcdefgh", "ijklmnopqrstuvwxyz0123456789 here"]
    deltas = [events.MessageDelta(item=0, content=piece) for piece in pieces]
    run = recorded(numbered([start, begun, *deltas]))

    (row,) = page(as_bob, "run_log", run).xpath("//summary[.//*[@title='message.delta']]")

    assert "sk-proj" not in text_of(row)
    assert "[redacted]" in text_of(row)


def test_list_is_filtered_by_type(as_bob: Client, long_run: Run) -> None:
    tree = page(as_bob, "run_log", long_run, query="?type=usage.update&type=message.start")

    assert seqs(tree) == [2, 253]
    assert tree.xpath("//a[@aria-current='true']/@title") == ["message.start", "usage.update"]
    (text,) = tree.xpath("//a[@title='message.delta']")
    assert "250" in text.text_content()


def test_repeated_type_is_selected_once(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_log", run, query=f"?{'type=message.delta&' * 50}type=unknown")

    (link,) = tree.xpath("//a[@id='kind-message-start']/@href")
    assert link.count("type=") == 2
    assert seqs(tree) == [3]


def test_earlier_events_end_where_the_page_begins(as_bob: Client, long_run: Run) -> None:
    tree = page(as_bob, "run_details", long_run, query="?at=200")
    (earlier,) = tree.xpath("//a[contains(., 'Earlier events')]/@hx-get")

    before = page(as_bob, "run_log", long_run, query=query_of(earlier))

    assert seqs(tree)[0] < 200 < seqs(tree)[-1]
    assert seqs(before) == [1, 2, 3]
    (behind,) = before.xpath("//li[last()]/details/@hx-get")
    assert behind.endswith(f"&until={seqs(tree)[0] - 1}")


@pytest.mark.parametrize(
    ("query", "without"), [("after=100", "Earlier events"), ("before=100", "Later events")]
)
def test_further_events_do_not_link_back(
    as_bob: Client, long_run: Run, query: str, without: str
) -> None:
    lines = page(as_bob, "run_log", long_run, query=f"?{query}").text_content()

    assert without not in lines


@pytest.mark.parametrize("query", ["before=1", "before=5&type=usage.update", "after=9999"])
def test_page_without_events_is_empty(as_bob: Client, run: Run, query: str) -> None:
    for route in ("run_details", "run_log"):
        response = as_bob.get(f"{reverse(route, args=[run.public_id])}?tab=events&{query}")

        assert response.status_code == 200
        assert b"recorder-seq" not in response.content
        assert b"er events" not in response.content


def test_last_page_has_no_link_to_later_events(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?tab=events&before=9999")

    assert seqs(tree)[-1] == run.last_seq
    assert not tree.xpath("//a[contains(., 'Later events')]")


def test_invalid_parameters_are_ignored(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?tab=events&at=x&type=nonsense&after=-1")

    assert seqs(tree)[0] == 1


def test_further_events_are_read_without_those_before(
    as_bob: Client, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = room.ask("Live")
    RunSegment.objects.filter(run=run).delete()
    for event in long_log(600):
        body = events.join_bodies([events.encode(event)])
        RunSegment.objects.create(run=run, first_seq=event.seq, last_seq=event.seq, body=body)
    read: list[int] = []

    def counted(run_pk: int, after: int = 0, *, limit_bytes: int = 0) -> list[log_pages.LogEntry]:
        entries = segments.read_entries(run_pk, after, limit_bytes=limit_bytes)
        read.extend(entry.seq for entry in entries)
        return entries

    monkeypatch.setattr(log_pages, "read_entries", counted)
    page(as_bob, "run_log", run, query="?after=300")

    assert 1 not in read


def test_type_is_read_without_decoding() -> None:
    for name, struct in events.EVENT_TYPES.items():
        assert log_pages.type_in(f'{{"type":"{name}","seq":1}}'.encode()) == name
        assert log_pages.type_in(f'{{"seq":1,"type":"{name}"}}'.encode()) in (name, "vendor.raw")
        assert struct is not None


# --- one event -----------------------------------------------------------------------------


def test_link_to_an_event_opens_it(as_bob: Client, run: Run) -> None:
    tree = page(as_bob, "run_details", run, query="?at=3")

    (opened,) = tree.xpath("//details[@open]/..")
    assert opened.get("id") == "e3"
    assert "By the spring." in opened.text_content()


def test_merged_event_shows_all_its_frames(as_bob: Client, run: Run) -> None:
    frames = frames_of(page(as_bob, "run_event", run, 3))

    assert '"content":"By the "' in frames
    assert '"content":"spring."' in frames
    assert "message.start" not in frames
    assert "exactly this" in frames


def test_frames_of_another_answer_are_not_attributed(as_bob: Client, recorded: Recorded) -> None:
    run = recorded(merged(log_of(RIVER)), RIVER.replace(b"spring", b"mouth"))

    frames = frames_of(page(as_bob, "run_event", run, 3))

    assert "mouth" not in frames
    assert "couldn’t be found in it" in frames


def test_run_without_frames_says_so(as_bob: Client, recorded: Recorded) -> None:
    run = recorded(merged(log_of(RIVER)))

    assert "No recording" in frames_of(page(as_bob, "run_event", run, 3))


def test_event_of_our_own_has_no_frame(as_bob: Client, recorded: Recorded) -> None:
    cut = RIVER[: RIVER.index(b"event: message.end")]
    run = recorded(merged(log_of(cut)), cut)

    assert "Tributary added this event" in frames_of(page(as_bob, "run_event", run, run.last_seq))


def progress_frames(count: int) -> bytes:
    frames = [
        b'event: prompt_processing.progress\ndata: {"type":"prompt_processing.progress",'
        b'"progress":%.4f}\n\n' % (number / count)
        for number in range(count)
    ]
    return b"".join(frames)


@pytest.mark.parametrize("shift", [0.0, 0.00001])
def test_each_frame_is_compared_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, as_bob: Client, recorded: Recorded, shift: float
) -> None:
    raw = RIVER.replace(b"event: message.start", progress_frames(300) + b"event: message.start")
    log = log_of(raw)
    for event in log:
        if isinstance(event, events.PromptProcessingProgress):
            event.progress += shift
    run = recorded(log, raw)
    compared: list[int] = []
    plain = trace._plain
    monkeypatch.setattr(trace, "_plain", lambda event: compared.append(1) or plain(event))

    page(as_bob, "run_event", run, 3)

    assert 0 < len(compared) < 3 * 300


def test_replay_material_is_withheld(as_bob: Client, recorded: Recorded) -> None:
    signature = events.ReplayData(kind="thinking_signature", data="SECRET-SEAL", item=0)
    log = numbered([*message_log("x"), signature])
    run = recorded(log, b'data: {"type":"x","signature":"SECRET-SEAL"}\n\n')

    for query in ("?tab=events", f"?at={len(log)}", "?tab=recording"):
        assert "SECRET-SEAL" not in page(as_bob, "run_details", run, query=query).text_content()


@pytest.mark.parametrize(
    "data", [{"password": 12345678}, {"text": '-----BEGIN PRIVATE KEY-----a"b'}], ids=str
)
def test_masked_event_is_still_valid(
    as_bob: Client, recorded: Recorded, data: dict[str, Any]
) -> None:
    secret = events.VendorRaw(dialect="lmstudio", data=data)
    run = recorded(merged([*message_log("Hm.")[:1], secret]))

    assert "[redacted]" in page(as_bob, "run_event", run, 2).text_content()

    lines = exported(as_bob, run, "events").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_unknown_event_is_not_found(as_bob: Client, run: Run) -> None:
    for seq in (0, 99):
        url = reverse("run_event", args=[run.public_id, seq])
        assert as_bob.get(url).status_code == 404


# --- time ----------------------------------------------------------------------------------


def shares_of_time(client: Client, run: Run) -> list[str]:
    (bar,) = page(client, "run_details", run).xpath("//*[@class='latency']")
    return [text_of(item) for item in bar.xpath(".//li")]


def test_details_show_time_in_the_queue_and_overhead(as_bob: Client, run: Run) -> None:
    shares = shares_of_time(as_bob, run)

    assert any(share.startswith("Queued 4.0 s") for share in shares)
    assert any(share.startswith("Tributary overhead") for share in shares)


def test_time_of_an_unknown_end_stops_at_the_last_event(as_bob: Client, recorded: Recorded) -> None:
    start, begun, first, *_ = message_log("By the")
    log = [start, begun, first, events.MessageDelta(item=0, content=" spring")]
    for event, t in zip(log, (100, 200, 300, 2200), strict=True):
        event.t = t
    state = Fold()
    state.extend(log)
    run = recorded(numbered([*log, *close_open(state)]))

    *shares, note = shares_of_time(as_bob, run)

    assert [share.rsplit(" ", 1)[0] for share in shares] == [
        "Queued 4.0 s",
        "Tributary overhead 1.0 s",
        "Waiting for the model 0.2 s",
        "Writing 2.0 s",
    ]
    assert note.startswith("Measured up to the last event")


# --- export --------------------------------------------------------------------------------


def exported(client: Client, run: Run, form: str) -> bytes:
    response = client.get(reverse("run_export", args=[run.public_id, form]))
    assert response.status_code == 200
    assert response.headers["Content-Disposition"].startswith("attachment")
    return bytes(response.content)


def test_received_bytes_are_exported_unchanged(as_bob: Client, run: Run) -> None:
    assert exported(as_bob, run, "raw") == RIVER


@pytest.mark.parametrize("name", ["thinking", "t27_redacted_thinking", "server_tools"])
def test_export_without_signatures_decodes_to_the_same_text(
    as_bob: Client, recorded: Recorded, name: str
) -> None:
    raw = (FIXTURES / "anthropic_messages" / f"{name}.sse").read_bytes()
    log = log_of(raw, "anthropic_messages")
    run = recorded(log, raw, "anthropic_messages")

    masked = exported(as_bob, run, "raw")

    again = log_of(masked, "anthropic_messages")
    assert plain_text(fold(again)) == plain_text(fold(log))
    assert [type(event) for event in again] == [type(event) for event in log]
    for signature in re.findall(rb'"signature":"([^"]{12,})"', raw):
        assert signature not in masked


def test_events_are_exported_one_per_line(as_bob: Client, run: Run) -> None:
    lines = exported(as_bob, run, "events").splitlines()

    assert [events.decode(line).seq for line in lines] == list(range(1, run.last_seq + 1))
    assert plain_text(fold(events.decode(line) for line in lines)) == "By the spring."


def test_export_of_missing_data_is_not_found(as_bob: Client, recorded: Recorded) -> None:
    run = recorded(merged(log_of(RIVER)))

    for form in ("raw", "other"):
        url = reverse("run_export", args=[run.public_id, form])
        assert as_bob.get(url).status_code == 404


# --- the server's final result -----------------------------------------------------------------


def test_event_after_the_end_does_not_hide_the_final_result(recorded: Recorded) -> None:
    mention = b'data: {"type":"note","text":"response.completed"}\n\n'
    mention += b'data: {"type":"response.completed","response":' + b"[" * 99_999 + b"\n\n"
    raw = RESPONSES + mention
    run = recorded(log_of(raw, "openai_responses"), raw, "openai_responses")

    assert final_response(run) is not None


def test_usage_has_the_research_and_the_context(as_bob: Client, recorded: Recorded) -> None:
    raw = (FIXTURES / "xerotier" / "fork_and_metadata.sse").read_bytes()
    run = recorded(merged(log_of(raw, "xerotier")), raw, "xerotier")

    tree = page(as_bob, "run_details", run, query="?tab=usage")

    assert "Input tokens with research" in text_of(tree)
    assert "Context: 964 of 4,096 tokens" in text_of(tree)
    assert tree.xpath("//progress/@value") == ["24"]


def test_usage_has_what_the_server_told(as_bob: Client, recorded: Recorded) -> None:
    raw = (FIXTURES / "openai_chat" / "fireworks_extras.sse").read_bytes()
    run = recorded(merged(log_of(raw, "openai_chat")), raw, "openai_chat")

    shown = text_of(page(as_bob, "run_details", run, query="?tab=usage"))

    assert "Answer ID" in shown
    assert "Performance: " in shown
    assert "Finish reason" in shown


def test_usage_has_the_cached_tokens(as_bob: Client, recorded: Recorded) -> None:
    raw = (FIXTURES / "openai_chat" / "deepseek_thinking.sse").read_bytes()
    run = recorded(log_of(raw, "openai_chat"), raw, "openai_chat")

    tree = page(as_bob, "run_details", run, query="?tab=usage")

    assert tree.xpath("//dt[text()='Cached input tokens']/following-sibling::dd/text()") == ["16"]


@pytest.mark.parametrize(
    ("raw", "dialect", "words"),
    [
        (RIVER, "lmstudio", "Stream and final result match"),
        (
            RIVER.replace(b'"content":"By the spring."', b'"content":"By the mouth."'),
            "lmstudio",
            "Stream and final result differ",
        ),
        (RESPONSES, "openai_responses", "Stream and final result match"),
        (
            (FIXTURES / "anthropic_messages" / "plain.sse").read_bytes(),
            "anthropic_messages",
            "no final result to compare with",
        ),
    ],
    ids=["agree", "differ", "responses agree", "no final result"],
)
def test_details_compare_stream_and_final_result(
    as_bob: Client, recorded: Recorded, raw: bytes, dialect: str, words: str
) -> None:
    run = recorded(log_of(raw, dialect), raw, dialect)

    (receipt,) = page(as_bob, "run_details", run, query="?tab=usage").xpath(
        "//main//div[contains(@class, 'notice')]"
    )

    assert words in receipt.text_content()
