"""How many statements, transactions and hand-overs between the event loop and threads an ordinary
answer takes, and an idle runner. A test that fails shows all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from django.conf import settings
from django.test import Client

from chat.core.notify import QUEUED, ChangeNotifier
from chat.models import Conversation, Message, Run, TitleRequest, Upstream
from chat.runs import runner as runner_module
from chat.runs.runner import Runner
from chat.titles import queueing
from tests.runs.helpers import threads, until, until_ended
from tests.support.operations import (
    HAND_OVER,
    STATEMENT,
    TRANSACTION,
    Operations,
    counted_operations,
)
from tests.support.rooms import Room
from tests.support.run_fixtures import StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import openai_chunks, openai_run, stream

pytestmark = pytest.mark.databases

Ask = Callable[[Message | None], Awaitable[tuple[Run, Operations, Operations]]]

ANSWER = openai_chunks(openai_run(*(f"word {number} " for number in range(20))))
# By database: the process of the page until its response, and the runner from the claim to the end.
# SQLite is in the process, so that a statement costs a tenth of one of PostgreSQL.
SENDING = {
    "sqlite": {STATEMENT: 28, TRANSACTION: 1},
    "postgresql": {STATEMENT: 28, TRANSACTION: 1},
}
ANSWERING = {
    "sqlite": {STATEMENT: 15, TRANSACTION: 4, HAND_OVER: 3},
    # The queue, the lock of its server, the claim, the prompt, the text, and the end.
    "postgresql": {STATEMENT: 6, TRANSACTION: 1, HAND_OVER: 1},
}
# Of a runner without work, in a second. Half a statement looks for calls of tools.
IDLE = {STATEMENT: 6.6, HAND_OVER: 6.2, TRANSACTION: 0.2}
# The fixtures make them shorter.
POLL_SECONDS, STOP_SECONDS = runner_module.POLL_SECONDS, runner_module.STOP_SECONDS


def database() -> str:
    return "sqlite" if settings.IS_SQLITE else "postgresql"


@pytest.fixture
def nothing_by_time(start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner does nothing because time has passed. (``start_runner`` sets some of these.)"""
    for name in ("POLL", "STOP", "TIDY", "COMPACT", "SEEN"):
        monkeypatch.setattr(runner_module, f"{name}_SECONDS", 3600.0)
    monkeypatch.setattr(runner_module, "_periodic_tasks", {})
    monkeypatch.setattr(settings, "LEASE_SECONDS", 36_000.0)


@pytest.fixture
async def ask(
    nothing_by_time: None,
    room: Room,
    fake: FakeUpstream,
    start_runner: StartRunner,
    as_alice: Client,
) -> Ask:
    """Sends a message below an answer and waits for its answer. Returns the run, what the page's
    process did, and what the runner did."""
    notifier = ChangeNotifier()
    server = {"dialect": "openai_chat", "base_url": f"{fake.url}/v1"}
    await threads.call(Upstream.objects.update, **server)
    await threads.call(room.upstream.refresh_from_db)
    runner: Runner = await start_runner(notifier=notifier)

    async def ask(below: Message | None) -> tuple[Run, Operations, Operations]:
        fake.script(stream(ANSWER))
        form = room.form(**({} if below is None else {"parent": below}))
        with counted_operations() as sending:
            response = await threads.call(room.send, as_alice, form)
        assert response.status_code == 200
        with counted_operations() as answering:
            notifier.dispatch(QUEUED)
            run = await threads.call(Run.objects.select_related("message").latest, "pk")
            await until_ended(run)
            await until(lambda: not runner.executing)
        return run, sending, answering.without("test")

    return ask


async def test_answer_takes_few_operations(ask: Ask) -> None:
    # The first answer compiles statements and opens connections.
    first, *_ = await ask(None)

    _, sending, answering = await ask(first.message)

    limits = {"sending": SENDING[database()], "answering": ANSWERING[database()]}
    for part, found in (("sending", sending), ("answering", answering)):
        for kind, most in limits[part].items():
            assert found.count(kind) <= most, f"{kind}s of {part} are {found.count(kind)}:{found}"


async def test_model_that_writes_titles_adds_a_statement_at_most(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    # While none does, the test above has the same limits as without the feature.
    monkeypatch.setattr(queueing, "_is_on", True)
    await threads.call(Conversation.objects.update, has_automatic_title=True)
    first, *_ = await ask(None)

    *_, answering = await ask(first.message)

    # On PostgreSQL the row is part of the statement that ends the run.
    most = ANSWERING[database()][STATEMENT] + settings.IS_SQLITE
    assert answering.count(STATEMENT) <= most, answering
    requests = await threads.call(lambda: list(TitleRequest.objects.values_list("run", flat=True)))
    assert requests == [first.pk]


async def test_idle_runner_does_little(
    start_runner: StartRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        """The rounds below are the only ones."""

    monkeypatch.setattr(Runner, "_repeat", nothing)
    runner = await start_runner()
    assert runner._client is not None
    monkeypatch.setattr(runner_module, "POLL_SECONDS", POLL_SECONDS)
    monkeypatch.setattr(runner_module, "STOP_SECONDS", STOP_SECONDS)
    rates: Counter[str] = Counter()
    table = Operations()

    for work, seconds, _ in runner.repeated_work(runner._client):
        await work()
        with counted_operations() as found:
            await work()
        table += found
        for kind in (STATEMENT, TRANSACTION, HAND_OVER):
            rates[kind] += found.count(kind) / seconds

    for kind, most in IDLE.items():
        assert rates[kind] <= most, f"{rates[kind]:.1f} {kind}s in a second:{table}"
