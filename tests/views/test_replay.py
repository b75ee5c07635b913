"""An answer as it was at each of its moments, and its course in batches of patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.events import Event
from chat.live import replaying
from chat.models import Run, User
from chat.rendering.patches import Answer
from tests.rendering.dom import Page
from tests.rendering.stories import RICH, numbered
from tests.views.conftest import Room
from tests.views.test_recorder import record


@pytest.fixture
def log() -> list[Event]:
    return numbered([events.decode(events.encode(event)) for event in RICH], step_ms=40)


@pytest.fixture
def run(room: Room, alice: User, log: list[Event]) -> Run:
    return record(room.ask(alice, "Where does it rise?"), log)


def ask(client: Client, route: str, run: Run, **parameters: int) -> dict[str, Any]:
    response = client.get(reverse(route, args=[run.public_id]), parameters)
    assert response.status_code == 200
    return dict(response.json())


def answer_after(run: Run, log: Sequence[Event], seq: int) -> Answer:
    answer = Answer(replaying.replay_id(run))
    for event in log[:seq]:
        answer.apply(event)
    return answer


def page_of(answer: Answer) -> Page:
    page = Page(answer.run_id)
    for content in answer.replacement():
        page.apply(content)
    return page


def test_a_moment_is_what_the_live_page_showed_then(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    for seq in (0, 1, len(log) // 2, len(log)):
        address = reverse("run_replay", args=[run.public_id])
        shown = as_bob.get(address, {"at": seq}).content.decode()

        assert str(answer_after(run, log, seq).snapshot()) in shown


def test_the_batches_lead_from_the_beginning_to_the_end(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    page = page_of(answer_after(run, log, 0))

    seq, is_over, times = 0, False, []
    while not is_over:
        batch = ask(as_bob, "run_replay_frames", run, after=seq, step=50, most=7)
        assert len(batch["frames"]) <= 7
        for frame in batch["frames"]:
            page.apply(frame["content"])
            times.append(frame["t"])
        seq, is_over = batch["seq"], batch["is_over"]

    assert seq == len(log)
    assert times == sorted(times)
    assert page.state() == page_of(answer_after(run, log, len(log))).state()


def test_it_goes_on_from_anywhere_without_what_was_kept(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    seq = len(log) // 3

    batch = ask(as_bob, "run_replay_frames", run, after=seq, step=0, most=1)

    assert [frame["seq"] for frame in batch["frames"]] == [seq + 1]
    expected = answer_after(run, log, seq + 1).patches_since(seq)
    assert batch["frames"][0]["content"] == expected


def test_a_moment_of_the_slider_is_the_last_event_before_it(
    as_bob: Client, run: Run, log: list[Event]
) -> None:
    moment = ask(as_bob, "run_replay_moment", run, t=log[4].t + 10)

    assert (moment["seq"], moment["t"]) == (5, log[4].t)
    assert moment["contents"] == answer_after(run, log, 5).replacement()


def test_a_fold_of_a_replay_opens(as_bob: Client, room: Room, alice: User) -> None:
    log = numbered(
        [
            events.ReasoningStart(item=0),
            events.ReasoningDelta(item=0, content="By the spring[^1]. " * 400 + "\n\n[^1]: Or so."),
            events.ReasoningEnd(item=0),
        ]
    )
    run = record(room.ask(alice, "Where does it rise?"), log)
    shown = page_of(answer_after(run, log, 3)).answer
    folded = [e.attributes["data-part"] for e in shown.elements() if "data-part" in e.attributes]

    opened = as_bob.get(folded[0])

    flow = f"r{replaying.replay_id(run)}-i0-flow"
    assert opened.status_code == 200
    assert opened.content.decode() == answer_after(run, log, 3).part(flow)
    assert f"r{replaying.replay_id(run)}-i0-note1" in opened.content.decode()


def test_a_replay_stands_beside_the_answer_itself(as_bob: Client, run: Run) -> None:
    room = as_bob.get(reverse("conversation", args=[run.conversation.public_id]))
    address = reverse("run_replay", args=[run.public_id])
    replay = as_bob.get(address, {"at": 9999}, headers={"X-Panel": "1"})

    ids = html.fromstring(room.content).xpath("//@id")
    theirs = html.fragment_fromstring(replay.content.decode(), create_parent=True).xpath("//@id")
    assert not set(ids) & (set(theirs) - {"panel-title"})


def test_what_is_too_far_for_one_request_is_said(
    as_bob: Client, run: Run, log: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "MOST_EVENTS", 5)
    address = reverse("run_replay_moment", args=[run.public_id])

    refused = as_bob.get(address, {"seq": 9})

    assert refused.status_code == 422
    assert "list of events" in refused.json()["detail"]
    page = as_bob.get(reverse("run_replay", args=[run.public_id]), {"at": 9})
    assert page.status_code == 200
    assert "list of events" in page.content.decode()


def test_one_request_makes_a_bounded_number_of_frames(
    as_bob: Client, room: Room, alice: User
) -> None:
    story: list[Event] = [events.MessageStart(item=0)]
    story += [events.MessageDelta(item=0, content="word ") for _ in range(300)]
    run = record(room.ask(alice, "Long"), numbered(story, step_ms=60))

    batch = ask(as_bob, "run_replay_frames", run, after=0, step=50, most=9999)

    assert len(batch["frames"]) == replaying.BATCH_FRAMES
    assert not batch["is_over"]


def test_who_goes_on_from_the_same_moment_at_once_is_skipped_nothing(
    run: Run, log: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept_and_taken(run: Run, moment: replaying.Moment) -> None:
        for event in log[moment.answer.seq :]:
            moment.apply(event, 0)

    monkeypatch.setattr(replaying, "keep", kept_and_taken)

    batch = replaying.batch_after(run, 0, step_milliseconds=0, most=3)

    assert batch.seq == batch.frames[-1].seq == 3


def test_a_single_step_is_one_event_where_time_goes_back(room: Room, alice: User) -> None:
    story = numbered(
        [events.MessageStart(item=0), *(events.MessageDelta(item=0, content="x") for _ in "ab")]
    )
    for event, t in zip(story, (500, 900, 0), strict=True):
        event.t = t
    run = record(room.ask(alice, "Back"), story)

    batch = replaying.batch_after(run, 1, step_milliseconds=0, most=1)

    assert batch.seq == 2


def test_of_large_answers_fewer_are_kept() -> None:
    answers = replaying._Answers(3, 100)
    keys = [(uuid4(), 1, None, 1) for _ in range(4)]

    for key, size in zip(keys, (10, 10, 90, 200), strict=True):
        answers.put(key, replaying.Moment(Answer("x"), size_bytes=size))
        if size == 90:
            assert answers.take(keys[0]) is None

    assert [answers.take(key) is not None for key in keys] == [False, False, False, True]


def test_a_time_behind_what_can_be_reached_is_not_looked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "MOST_EVENTS", 5)

    assert replaying.seq_at(run, 10**9) == 6


def test_without_a_script_there_are_links_to_the_events_beside_it(as_bob: Client, run: Run) -> None:
    page = as_bob.get(reverse("run_replay", args=[run.public_id]), {"at": 3}).content.decode()

    links = html.fromstring(page).xpath("//a[@data-replay-step]/@href")
    assert [str(link).partition("?")[2] for link in links] == ["at=2", "at=4"]
