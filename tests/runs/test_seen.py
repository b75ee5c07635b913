"""Each server's page knows which kinds of events it has sent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, connection, connections
from django.test.utils import CaptureQueriesContext

from chat.actions import seen as verbs
from chat.actions.seen import record_seen
from chat.demo.fake import FakeUpstream
from chat.demo.script import openai_chunks, openai_run, stream
from chat.dialects.seen import Seen
from chat.models import Run, SeenEvent, Upstream
from chat.runs import execution
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import until, until_ended

pytestmark = pytest.mark.databases

CANARY = "sk-canary-5d20c77a1e"
UNKNOWN = b'data: {"type": "x_new.thing", "note": "for %b"}\n\n' % CANARY.encode()
CHUNKS = openai_chunks(openai_run("One ", "two ", "three."))


def rows() -> dict[str, SeenEvent]:
    return {row.name: row for row in SeenEvent.objects.all()}


async def test_a_run_adds_what_came_to_its_servers_counts(
    fake: FakeUpstream, make_run: MakeRun, start_runner: StartRunner, upstream: Upstream
) -> None:
    fake.script(stream(b": waiting\n\n", UNKNOWN, CHUNKS, times=2))

    def with_key() -> Run:
        upstream.set_key(CANARY)
        upstream.save()
        return make_run(base_url=f"{fake.url}/v1", dialect="openai_chat")

    runs = [await threads.call(with_key), await threads.call(make_run)]
    await start_runner()
    for run in runs:
        await until_ended(run)
    await until(lambda: rows().get("[DONE]") is not None and rows()["[DONE]"].count == 2)

    found = await threads.call(rows)
    assert found["chunk: content"].count == 6
    assert found[": comment"].count == 2
    assert found["chunk: content"].is_known
    unknown = found["x_new.thing"]
    assert (unknown.count, unknown.is_known) == (2, False)
    assert json.loads(unknown.sample)["note"] == "for [redacted]"
    assert unknown.first_seen_at < unknown.last_seen_at


async def test_counts_that_cannot_be_kept_break_no_run(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def record_seen(*_: object) -> None:
        raise DatabaseError("no")

    monkeypatch.setattr(execution, "record_seen", record_seen)
    fake.script(stream(CHUNKS))
    run = await threads.call(make_run, base_url=f"{fake.url}/v1", dialect="openai_chat")

    await start_runner()
    ended = await until_ended(run)
    await until(lambda: "run.unrecorded" in caplog.text)

    assert ended.status == "completed"


def test_a_kind_that_the_dialect_has_learned_loses_its_mark(upstream: Upstream) -> None:
    record_seen(upstream.pk, [Seen(name="x_new", count=2, is_known=False, sample="{}")])
    record_seen(upstream.pk, [Seen(name="x_new", count=3)])

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (5, True, "")


def test_a_server_that_invents_names_does_not_fill_the_table(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "MAX_KINDS", 3)
    record_seen(upstream.pk, [Seen(name="known", count=1)])

    record_seen(upstream.pk, [Seen(name=f"x_{number}", count=1) for number in range(9)])
    record_seen(upstream.pk, [Seen(name="known", count=4)])

    assert SeenEvent.objects.count() == 3
    assert SeenEvent.objects.get(name="known").count == 5


def test_counts_are_raised_in_one_order_whatever_came_first(upstream: Upstream) -> None:
    kinds = [Seen(name=name, count=1) for name in ("b", "c", "a", "d")]

    with CaptureQueriesContext(connection) as queries:
        record_seen(upstream.pk, kinds)
        record_seen(upstream.pk, kinds[::-1])

    # One statement each; the keys say in which order it came to its rows.
    assert len(queries) == 2
    by_key = SeenEvent.objects.order_by("pk").values_list("name", "count")
    assert list(by_key) == [("a", 2), ("b", 2), ("c", 2), ("d", 2)]


def test_two_answers_that_end_at_once_do_not_wait_for_each_other_in_a_circle(
    make_run: MakeRun, upstream: Upstream
) -> None:
    kinds = [Seen(name=f"kind {number}", count=1) for number in range(30)]

    def raise_often(order: list[Seen]) -> None:
        try:
            for _ in range(20):
                record_seen(upstream.pk, order)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(raise_often, order) for order in (kinds, kinds[::-1])]:
            done.result(timeout=30)

    assert set(SeenEvent.objects.values_list("count", flat=True)) == {40}


def test_names_that_are_the_same_without_what_was_taken_out_are_one(upstream: Upstream) -> None:
    unknown = Seen(name="x_[redacted]", count=2, is_known=False, sample="{}")

    record_seen(upstream.pk, [unknown, unknown])
    record_seen(upstream.pk, [unknown, Seen(name="x_[redacted]", count=1), unknown])

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (9, True, "")


def test_what_is_new_and_unknown_keeps_its_first_sample(upstream: Upstream) -> None:
    for sample in ('{"first": "it\'s ü"}', '{"second": 2}'):
        record_seen(upstream.pk, [Seen(name="x_new", count=1, is_known=False, sample=sample)])

    row = SeenEvent.objects.get()
    assert (row.count, row.is_known, row.sample) == (2, False, '{"first": "it\'s ü"}')
    assert row.first_seen_at < row.last_seen_at
