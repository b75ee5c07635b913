"""Lists of models that a runner reads again: which are due, what a failure keeps, and that one process reads each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from chat.models import AuditEvent, Upstream
from chat.runs.runner import RareWork
from chat.servers.calls import Listing
from chat.servers.list_refresh import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    READ_AGAIN_AFTER,
    REFRESH_LISTS,
    claim_due,
    end_read,
)
from chat.upstreams.configured import configured_client
from tests.runs.helpers import threads
from tests.servers.conftest import page_of

NOW = timezone.now
HOUR = timedelta(hours=1)
OLD = [{"id": "old", "label": "old", "detail": {}, "is_typed": False}]


def make_server(base_url: str = "http://127.0.0.1:9/v1", **columns: object) -> Upstream:
    values: dict[str, object] = {"models_listed_at": NOW() - 2 * HOUR, "model_list": OLD}
    return Upstream.objects.create(
        name="A", dialect="openai_chat", base_url=base_url, **{**values, **columns}
    )


@pytest.mark.parametrize(
    ("columns", "is_due"),
    [
        ({}, True),
        ({"models_listed_at": NOW() - HOUR / 2}, False),
        # Its models were typed, or it never passed a test.
        ({"models_listed_at": None}, False),
        ({"is_enabled": False}, False),
        ({"is_demo": True}, False),
        ({"is_draining": True}, True),
        ({"models_due_at": NOW() + HOUR}, False),
        ({"models_due_at": NOW() - HOUR}, True),
    ],
)
def test_lists_are_due_after_an_hour(db: None, columns: Mapping[str, object], is_due: bool) -> None:
    make_server(**columns)

    assert len(claim_due()) == is_due
    # Another process finds nothing to do.
    assert claim_due() == []


def test_failures_keep_the_list_and_back_off(db: None) -> None:
    upstream = make_server()
    pauses = []
    for _ in range(7):
        end_read(upstream, Listing(error="The server didn’t answer."))
        upstream.refresh_from_db()
        assert upstream.models_due_at is not None
        assert upstream.models_failed_at is not None
        pauses.append(upstream.models_due_at - upstream.models_failed_at)

    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert upstream.model_list == OLD


def test_list_ends_the_failures_and_keeps_decisions(db: None) -> None:
    upstream = make_server(model_list=[{**OLD[0], "is_off": True}], models_failures=3)
    models = ({"id": "old", "label": "old"}, {"id": "new", "label": "new"})

    end_read(upstream, Listing(models=models))

    upstream.refresh_from_db()
    assert [(each["id"], each.get("is_off")) for each in upstream.model_list] == [
        ("old", True),
        ("new", None),
    ]
    assert (upstream.models_failures, upstream.models_error) == (0, "")
    assert upstream.models_listed_at is not None
    assert NOW() - upstream.models_listed_at < READ_AGAIN_AFTER
    # It happens all day.
    assert not AuditEvent.objects.exists()


def test_server_that_was_moved_meanwhile_stays_as_it_is(db: None) -> None:
    upstream = make_server()
    Upstream.objects.update(base_url="http://elsewhere.example/v1")

    end_read(upstream, Listing(models=({"id": "new", "label": "new"},)))
    end_read(upstream, Listing(error="No."))

    upstream.refresh_from_db()
    assert (upstream.model_list, upstream.models_error) == (OLD, "")


def test_administrators_see_the_last_failure(admin_client: Client) -> None:
    upstream = make_server()
    end_read(upstream, Listing(error="The server didn’t answer."))

    page = page_of(admin_client, upstream, "server_models")

    assert "The list couldn’t be loaded again" in page
    assert "The server didn’t answer." in page


@pytest.mark.databases
async def test_runner_reads_lists_over_the_network(
    transactional_db: None, demo_server: str
) -> None:
    good = await threads.call(make_server, f"{demo_server}/v1")
    async with configured_client() as client:
        await REFRESH_LISTS.make(client, threads)()

    await threads.call(good.refresh_from_db)
    assert "tributary/demo-writer" in {each["id"] for each in good.model_list}


async def test_rare_work_is_done_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("chat.runs.runner.time.monotonic", lambda: clock[0])
    done: list[str] = []

    async def round_() -> None:
        done.append("round")

    async def rare() -> None:
        done.append("rare")

    work = RareWork(seconds=300, make=lambda *_: rare).after(round_, None, None)  # type: ignore[arg-type]
    for clock[0] in (0, 60, 301, 360, 602):
        await work()

    assert done == ["round", "round", "round", "rare", "round", "round", "rare"]
