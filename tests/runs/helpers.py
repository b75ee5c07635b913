"""What tests of runs send, wait for and read."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from django.db import connection

from chat import events as canonical
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.prepared import fetch
from chat.core.threads import DatabaseThreads
from chat.models import Run
from chat.result import plain_text
from chat.runs.segments import read_entries
from tests.support.upstream.script import Gate, lmstudio_events, lmstudio_run, stream

threads = DatabaseThreads("test", size=1)

TEXT = lmstudio_events(lmstudio_run("Hello ", "from ", "the river.", reasoning=["Let me ", "see."]))
# The answer as far as its second word, and the rest of it.
HALF = TEXT[: TEXT.rindex(b"event: ", 0, TEXT.index(b"river"))]
REST = TEXT[len(HALF) :]
# Goes on when the gate "more" is released.
HALF_AN_ANSWER = stream(HALF, Gate(name="more"), REST)

# Costs nothing where all is well, however busy the machine is.
PATIENCE_SECONDS = 60.0


async def until(holds: Callable[[], Any]) -> None:
    """Asks in a database thread until it holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await threads.call(holds):
            await asyncio.sleep(0.02)


async def until_ended(run: Run) -> Run:
    await until(lambda: Run.objects.filter(pk=run.pk, finished_at__isnull=False).exists())
    return await row_of(run)


async def let_others_work() -> None:
    """Everything that the event loop has to do already, and what follows from it at once."""
    for _ in range(50):
        await asyncio.sleep(0)


async def row_of(run: Run) -> Run:
    """The run as it is in the database now."""
    return await threads.call(Run.objects.get, pk=run.pk)


def text_of(run: Run) -> str:
    return plain_text(canonical.decode_result(run.result))


def has_logged(run: Run, text: bytes) -> bool:
    return any(text in entry.body for entry in read_entries(run.pk))


def choice_of(run: Run) -> ModelChoice:
    assert run.upstream is not None
    return ModelChoice(upstream=run.upstream, model=run.model)


def send_below(run: Run, text: str) -> Run:
    """The next message of the conversation, by the same person, below the run's answer."""
    assert run.requested_by is not None
    return message_actions.send_message(
        run.requested_by,
        run.message.conversation,
        parent=run.message,
        text=text,
        choice=choice_of(run),
        idempotency_key=uuid.uuid4(),
    )


def retry(run: Run) -> Run:
    assert run.requested_by is not None
    return message_actions.retry(
        run.requested_by, run.message, choice=choice_of(run), idempotency_key=uuid.uuid4()
    )


@contextmanager
def locked_database() -> Iterator[None]:
    """Another process writes to the SQLite file, and does not come to an end."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.rollback()


def runs_read() -> int:
    """Rows of runs that the transaction has read so far."""
    text = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = %s"
    ((count,),) = fetch(text, ["chat_run"])
    return int(count)
