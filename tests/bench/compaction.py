"""How long after a burst of answers their logs are compacted, and what that takes of one thread."""

import asyncio
import os
import time
import uuid
from datetime import timedelta
from tempfile import TemporaryDirectory

from django.db import connection, connections
from django.db.models import Sum
from django.db.models.functions import Length
from django.utils import timezone

from chat import events as canonical
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.threads import DatabaseThreads
from chat.models import Membership, RawSegment, Run, RunSegment, Team, TeamRole, Upstream, User
from chat.runs.compaction import COMPACT_AFTER_SECONDS, Compactor
from tests.bench.streams import ANSWERS

ANSWERS_AT_ONCE = 200
DELTAS = 2000
DELTAS_PER_SEGMENT = 10


def report() -> str:
    with TemporaryDirectory() as folder:
        name = str(connection.settings_dict["NAME"])
        connection.settings_dict["TEST"]["NAME"] = os.path.join(folder, "bench.sqlite3")
        connection.creation.create_test_db(verbosity=0)
        try:
            return _measured()
        finally:
            connections.close_all()
            connection.creation.destroy_test_db(name, verbosity=0)


def _measured() -> str:
    _burst()
    before = _stored_bytes()
    seconds, cpu_seconds = asyncio.run(_compacted())
    left = RunSegment.objects.filter(first_seq=1, is_compressed=False).count()
    lines = [
        f"Compaction: {ANSWERS_AT_ONCE} answers of {DELTAS} deltas that ended at once",
        "",
        f"{'answers left':<34}{left:>12}",
        f"{'seconds from their end':<34}{COMPACT_AFTER_SECONDS + seconds:>12.1f}  (at most 60)",
        f"{'share of a core meanwhile':<34}{cpu_seconds / seconds:>12.2f}",
        f"{'MB of log and frames before':<34}{before / 1e6:>12.1f}",
        f"{'MB after':<34}{_stored_bytes() / 1e6:>12.1f}",
    ]
    return "\n".join(lines)


async def _compacted() -> tuple[float, float]:
    """Seconds of time and of processor time."""
    threads = DatabaseThreads("bench", size=1)
    started, cpu_started = time.monotonic(), time.process_time()
    try:
        await Compactor(threads).compact_due()
        return time.monotonic() - started, time.process_time() - cpu_started
    finally:
        await threads.close()


def _burst() -> None:
    """Runs as they are when they become due."""
    user = User.objects.create(email="bench@example.org")
    team = Team.objects.create(name="Bench")
    Membership.objects.create(team=team, user=user, role=TeamRole.OWNER)
    upstream = Upstream.objects.create(
        name="Bench", dialect="openai_chat", base_url="http://127.0.0.1:9/v1"
    )
    frames = ANSWERS["openai_chat"](DELTAS)
    for _ in range(ANSWERS_AT_ONCE):
        run = message_actions.start_conversation(
            user,
            team,
            text="Hello",
            choice=ModelChoice(upstream=upstream, model="bench"),
            idempotency_key=uuid.uuid4(),
        )
        RunSegment.objects.bulk_create(_segments(run, frames))
        Run.objects.filter(pk=run.pk).update(status="completed", last_seq=DELTAS)
    due = timezone.now() - timedelta(seconds=COMPACT_AFTER_SECONDS)
    Run.objects.update(finished_at=due)


def _segments(run: Run, frames: list[bytes]) -> list[RunSegment]:
    segments = []
    for first in range(1, DELTAS, DELTAS_PER_SEGMENT):
        last = first + DELTAS_PER_SEGMENT - 1
        deltas = [
            canonical.MessageDelta(item=0, content=f"word{seq} ", seq=seq)
            for seq in range(first, last + 1)
        ]
        body = canonical.join_bodies(canonical.encode(delta) for delta in deltas)
        raw = b"".join(frames[first - 1 : last])
        segments.append(RunSegment(run=run, first_seq=first, last_seq=last, body=body, raw=raw))
    return segments


def _stored_bytes() -> int:
    segments = RunSegment.objects.aggregate(body=Sum(Length("body")), raw=Sum(Length("raw")))
    frames = RawSegment.objects.aggregate(body=Sum(Length("body")))
    return sum(size or 0 for size in (*segments.values(), *frames.values()))
