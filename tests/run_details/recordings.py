"""Runs that ended a while ago, as they are kept: compressed events and the server's bytes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from chat import dialects, events
from chat.events import Event
from chat.management.commands.decode import decode
from chat.models import RawSegment, Run, RunSegment, RunStatus
from chat.result import Fold
from tests.support.rooms import message_log

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
RESPONSES = (FIXTURES / "openai_responses" / "plain.sse").read_bytes()


def log_of(raw: bytes, dialect: str = "lmstudio") -> list[Event]:
    parser = dialects.get(dialect).parser(model="demo/model", endpoint="", options={})
    return list(decode(parser, iter([raw]), Fold()))


def numbered(log: Sequence[Event], *, step_ms: int = 0) -> list[Event]:
    for seq, event in enumerate(log, start=1):
        event.seq = seq
        if step_ms:
            event.t = step_ms * seq
    return list(log)


def merged(log: Sequence[Event]) -> list[Event]:
    """The log of a run whose deltas were joined while they waited for the database."""
    kept: list[Event] = []
    for event in log:
        last = kept[-1] if kept else None
        if isinstance(event, events.MessageDelta) and isinstance(last, events.MessageDelta):
            last.content += event.content
        else:
            kept.append(event)
    return numbered(kept, step_ms=100)


def long_log(deltas: int) -> list[Event]:
    log = message_log("")[:2]
    log += [events.MessageDelta(item=0, content=f"{n} ") for n in range(deltas)]
    log.append(events.UsageUpdate(usage=events.Usage(input_tokens=1)))
    return numbered(log, step_ms=1)


def record(run: Run, log: Sequence[Event], raw: bytes = b"", dialect: str = "lmstudio") -> Run:
    """Stores the events, and the bytes that the server sent, in one compressed row each."""
    RunSegment.objects.filter(run=run).delete()
    body = events.join_bodies(events.encode(event) for event in log)
    RunSegment.objects.create(
        run=run, first_seq=1, last_seq=len(log), is_compressed=True, body=zlib.compress(body)
    )
    if raw:
        compressed = zlib.compress(raw)
        RawSegment.objects.create(run=run, position=0, is_compressed=True, body=compressed)
    now, end = timezone.now(), log[-1]
    result = events.encode(end.result).decode() if isinstance(end, events.ChatEnd) else ""
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.COMPLETED,
        dialect=dialect,
        last_seq=len(log),
        result=result,
        queued_at=now - timedelta(seconds=9),
        claimed_at=now - timedelta(seconds=5),
        request_sent_at=now - timedelta(seconds=4),
        finished_at=now,
    )
    run.refresh_from_db()
    return run
