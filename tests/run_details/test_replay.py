"""The replay of an answer: its state after any event, and batches of patches in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from lxml import html

from chat import events
from chat.events import Event
from chat.live import snapshot
from chat.models import Run
from chat.rendering.patches import Answer
from chat.run_details import replay as replaying
from tests.rendering.dom import Page
from tests.rendering.stories import RICH, numbered
from tests.run_details.recordings import record
from tests.support.rooms import Room, url_of


@pytest.fixture
def log() -> list[Event]:
    return numbered([events.decode(events.encode(event)) for event in RICH], step_ms=40)


@pytest.fixture
def run(room: Room, log: list[Event]) -> Run:
    return record(room.ask("Where does it rise?"), log)


def get_json(client: Client, route: str, run: Run, **parameters: int) -> dict[str, Any]:
    response = client.get(url_of(route, run), parameters)
    assert response.status_code == 200
    return dict(response.json())


def get_batch(client: Client, run: Run, **parameters: int) -> dict[str, Any]:
    return get_json(client, "run_replay_frames", run, **parameters)


def replay_source(client: Client, run: Run, at: int, **headers: str) -> str:
    response = client.get(url_of("run_replay", run), {"at": at}, headers=headers)
    assert response.status_code == 200
    return str(response.content.decode())


def answer_after(run: Run, log: Sequence[Event], seq: int) -> Answer:
    answer = Answer(snapshot.replay_id(run))
    for event in log[:seq]:
        answer.apply(event)
    return answer


def page_of(answer: Answer) -> Page:
    page = Page(answer.run_id)
    for content in answer.replacement():
        page.apply(content)
    return page


def test_replay_shows_what_the_live_page_showed(as_bob: Client, run: Run, log: list[Event]) -> None:
    for seq in (0, 1, len(log) // 2, len(log)):
        assert str(answer_after(run, log, seq).snapshot()) in replay_source(as_bob, run, seq)


def test_batches_lead_from_the_beginning_to_the_end(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    page = page_of(answer_after(run, log, 0))

    seq, is_over, times = 0, False, []
    while not is_over:
        batch = get_batch(as_bob, run, after=seq, step=50, most=7)
        assert len(batch["frames"]) <= 7
        for frame in batch["frames"]:
            page.apply(frame["content"])
            times.append(frame["t"])
        seq, is_over = batch["seq"], batch["is_over"]

    assert seq == len(log)
    assert times == sorted(times)
    assert page.state() == page_of(answer_after(run, log, len(log))).state()


def test_batch_can_begin_after_any_event(as_bob: Client, run: Run, log: list[Event]) -> None:
    seq = len(log) // 3

    batch = get_batch(as_bob, run, after=seq, step=0, most=1)

    (frame,) = batch["frames"]
    assert frame["seq"] == seq + 1
    assert frame["content"] == answer_after(run, log, seq + 1).patches_since(seq)


def test_batch_can_be_asked_for_again(as_bob: Client, run: Run) -> None:
    seq = get_batch(as_bob, run, after=0, step=0, most=3)["frames"][-1]["seq"]

    batches = [get_batch(as_bob, run, after=seq, step=0, most=3) for _ in range(3)]

    assert batches[0]["frames"][0]["seq"] == seq + 1
    assert batches == [batches[0]] * 3


def test_batch_has_a_bounded_number_of_frames(as_bob: Client, room: Room) -> None:
    story: list[Event] = [events.MessageStart(item=0)]
    story += [events.MessageDelta(item=0, content="word ") for _ in range(300)]
    run = record(room.ask("Long"), numbered(story, step_ms=60))

    batch = get_batch(as_bob, run, after=0, step=50, most=9999)

    assert len(batch["frames"]) == replaying.BATCH_FRAMES
    assert not batch["is_over"]


def test_time_of_the_slider_selects_the_last_event_before_it(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    moment = get_json(as_bob, "run_replay_moment", run, t=log[4].t + 10)

    assert (moment["seq"], moment["t"]) == (5, log[4].t)
    assert moment["contents"] == answer_after(run, log, 5).replacement()


def test_fold_of_a_replay_opens(as_bob: Client, room: Room) -> None:
    log = numbered(
        [
            events.ReasoningStart(item=0),
            events.ReasoningDelta(item=0, content="By the spring[^1]. " * 400 + "\n\n[^1]: Or so."),
            events.ReasoningEnd(item=0),
        ]
    )
    run = record(room.ask("Where does it rise?"), log)
    answer = answer_after(run, log, 3)
    shown = page_of(answer).answer.elements()
    urls = [each.attributes["data-part"] for each in shown if "data-part" in each.attributes]

    response = as_bob.get(urls[0])

    part = response.content.decode()
    assert response.status_code == 200
    assert part == answer.part(f"r{snapshot.replay_id(run)}-i0-flow")
    assert f"r{snapshot.replay_id(run)}-i0-note1" in part


def test_replay_in_the_panel_shares_no_ids_with_the_page(
    as_bob: Client, room: Room, run: Run
) -> None:
    replay = replay_source(as_bob, run, 9999, **{"X-Panel": "1"})

    ids = html.fragment_fromstring(replay, create_parent=True).xpath("//@id")
    assert not set(room.page(as_bob).xpath("//@id")) & (set(ids) - {"panel-title"})


def test_event_beyond_the_limit_is_refused_with_a_reason(
    as_bob: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "MOST_EVENTS", 5)

    refused = as_bob.get(url_of("run_replay_moment", run), {"seq": 9})

    assert refused.status_code == 422
    assert "event list" in refused.json()["detail"]
    assert "event list" in replay_source(as_bob, run, 9)


def test_replay_without_scripts_has_links(as_bob: Client, run: Run) -> None:
    page = html.fromstring(replay_source(as_bob, run, 3))

    links = page.xpath("//a[@data-replay-step]/@href")
    assert [str(link).partition("?")[2] for link in links] == ["at=2", "at=4"]


# --- without requests -----------------------------------------------------------------------


def test_simultaneous_batches_skip_no_event(
    run: Run, log: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_and_continue_elsewhere(run: Run, moment: replaying.Moment) -> None:
        for event in log[moment.answer.seq :]:
            moment.apply(event, 0)

    monkeypatch.setattr(replaying, "keep", keep_and_continue_elsewhere)

    batch = replaying.batch_after(run, 0, step_milliseconds=0, most=3)

    assert batch.seq == batch.frames[-1].seq == 3


def test_single_step_is_one_event_where_time_goes_back(room: Room) -> None:
    story = numbered(
        [events.MessageStart(item=0), *(events.MessageDelta(item=0, content="x") for _ in "ab")]
    )
    for event, t in zip(story, (500, 900, 0), strict=True):
        event.t = t
    run = record(room.ask("Back"), story)

    batch = replaying.batch_after(run, 1, step_milliseconds=0, most=1)

    assert batch.seq == 2


def test_time_beyond_the_limit_is_not_searched(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "MOST_EVENTS", 5)

    assert replaying.seq_at(run, 10**9) == 6


def test_cache_keeps_fewer_large_answers() -> None:
    answers = replaying._Answers(3, 100)
    keys = [(uuid4(), 1, None, 1) for _ in range(4)]

    for key, size in zip(keys, (10, 10, 90, 200), strict=True):
        answers.put(key, replaying.Moment(Answer("x"), size_bytes=size))
        if size == 90:
            assert answers.pop_moment(keys[0]) is None

    assert [answers.pop_moment(key) is not None for key in keys] == [False, False, False, True]
