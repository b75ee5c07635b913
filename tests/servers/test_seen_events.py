"""Each server's page knows which kinds of events it has sent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.dialects.event_counts import Seen
from chat.models import SeenEvent, Upstream
from chat.runs import seen_events
from chat.runs.seen_events import record_seen
from tests.runs.helpers import threads, until
from tests.support.run_fixtures import Execute, MakeRun
from tests.support.upstream.script import openai_chunks, openai_run, stream

pytestmark = pytest.mark.databases

CANARY = "sk-canary-5d20c77a1e"
UNKNOWN = b'data: {"type": "x_new.thing", "note": "for %b"}\n\n' % CANARY.encode()
CHUNKS = openai_chunks(openai_run("One ", "two ", "three."))


def rows() -> dict[str, SeenEvent]:
    return {row.name: row for row in SeenEvent.objects.all()}


def record(upstream: Upstream, name: str, **fields: object) -> None:
    record_seen(upstream.pk, [Seen(name=name, **{"count": 1, **fields})])


async def test_run_adds_to_the_counts_of_its_server(execute: Execute, upstream: Upstream) -> None:
    upstream.set_key(CANARY)
    await threads.call(upstream.save)

    for count in (1, 2):
        await execute(stream(b": waiting\n\n", UNKNOWN, CHUNKS), dialect="openai_chat")
        await until(lambda: (done := rows().get("[DONE]")) and done.count == count)  # noqa: B023

    found = await threads.call(rows)
    assert found["chunk: content"].count == 6
    assert found[": comment"].count == 2
    assert found["chunk: content"].is_known
    unknown = found["x_new.thing"]
    assert (unknown.count, unknown.is_known) == (2, False)
    # Administrators see it, and may not read the conversation.
    assert json.loads(unknown.sample) == {"type": "x_new.thing", "note": "…"}
    assert unknown.first_seen_at < unknown.last_seen_at


@pytest.mark.databases(slow=True)
async def test_counts_that_cannot_be_stored_break_no_run(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise DatabaseError("no")

    monkeypatch.setattr(seen_events, "record_seen", refused)

    ended = await execute(stream(CHUNKS), dialect="openai_chat")
    await until(lambda: "events.unrecorded" in caplog.text)

    assert ended.status == "completed"


def test_kind_known_since_loses_its_mark_and_sample(upstream: Upstream) -> None:
    record(upstream, "x_new", count=2, is_known=False, sample="{}")
    record(upstream, "x_new", count=3)

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (5, True, "")


def test_unknown_kind_keeps_its_first_sample(upstream: Upstream) -> None:
    for sample in ('{"first": "it\'s ü"}', '{"second": 2}'):
        record(upstream, "x_new", is_known=False, sample=sample)

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (2, False, '{"first": "it\'s ü"}')
    assert row.first_seen_at < row.last_seen_at


def test_number_of_kinds_is_bounded(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_events, "MAX_KINDS", 3)
    record(upstream, "known")

    record_seen(upstream.pk, [Seen(name=f"x_{number}", count=1) for number in range(9)])
    record(upstream, "known", count=4)

    assert SeenEvent.objects.count() == 3
    assert SeenEvent.objects.get(name="known").count == 5


def test_names_that_are_equal_after_redaction_are_one(upstream: Upstream) -> None:
    unknown = Seen(name="x_[redacted]", count=2, is_known=False, sample="{}")

    record_seen(upstream.pk, [unknown, unknown])
    record_seen(upstream.pk, [unknown, Seen(name="x_[redacted]", count=1), unknown])

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (9, True, "")


def test_counts_are_raised_in_the_order_of_names(upstream: Upstream) -> None:
    kinds = [Seen(name=name, count=1) for name in ("b", "c", "a", "d")]

    with CaptureQueriesContext(connection) as queries:
        record_seen(upstream.pk, kinds)
        record_seen(upstream.pk, kinds[::-1])

    # One statement each; the keys say in which order it came to its rows.
    assert len(queries) == 2
    by_key = SeenEvent.objects.order_by("pk").values_list("name", "count")
    assert list(by_key) == [("a", 2), ("b", 2), ("c", 2), ("d", 2)]


def test_answers_that_end_together_do_not_deadlock(make_run: MakeRun, upstream: Upstream) -> None:
    kinds = [Seen(name=f"kind {number}", count=1) for number in range(30)]

    def raise_often(order: list[Seen]) -> None:
        try:
            for _ in range(20):
                record_seen(upstream.pk, order)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(raise_often, order) for order in (kinds, kinds[::-1])]:
            done.result(timeout=60)

    assert set(SeenEvent.objects.values_list("count", flat=True)) == {40}


def test_times_are_the_earliest_and_the_latest(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer that waited for the other one read its clock first and writes second.
    early = timezone.now()
    late = early + timedelta(seconds=1)

    with monkeypatch.context() as clock:
        for name, order in {"in order": (early, late), "reversed": (late, early)}.items():
            for now in order:
                clock.setattr(timezone, "now", lambda now=now: now)
                record(upstream, name)

    times = {name: (row.first_seen_at, row.last_seen_at) for name, row in rows().items()}
    assert times == {"in order": (early, late), "reversed": (early, late)}
