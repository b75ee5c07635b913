"""Questions, and finished answers as the runner leaves them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta

from django.utils import timezone

from chat import events
from chat.events import Ending
from chat.models import Conversation, Message, Role, Run, RunStatus, Upstream, User
from chat.result import Fold
from chat.runs.outcomes import write_ending


def ask(
    conversation: Conversation, author: User, text: str, *, parent: Message | None = None
) -> Message:
    return Message.objects.create(
        conversation=conversation, parent=parent, role=Role.USER, author=author, text=text
    )


def answer(
    question: Message,
    text: str,
    *,
    upstream: Upstream | None = None,
    model: str = "demo/model",
    status: str = "completed",
    before: Iterable[events.Event] = (),
    **columns: object,
) -> Run:
    """An answer below ``question`` whose one run has ended and has its log and result."""
    message = Message.objects.create(
        conversation=question.conversation, parent=question, role=Role.ASSISTANT
    )
    now = timezone.now()
    times = {
        "queued_at": now - timedelta(seconds=9),
        "claimed_at": now - timedelta(seconds=8.9),
        "request_sent_at": now - timedelta(seconds=8.8),
        "first_event_at": now - timedelta(seconds=8.5),
        "first_token_at": now - timedelta(seconds=8),
    }
    run = Run.objects.create(
        conversation=question.conversation,
        message=message,
        upstream=upstream,
        model=model,
        requested_by=question.author,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.RUNNING,
        **{**times, **columns},
    )
    write_ending(run, _log(text, model, status, list(before)), after=0)
    run.refresh_from_db()
    return run


def _log(text: str, model: str, status: str, before: list[events.Event]) -> list[events.Event]:
    item = 1 + max((getattr(event, "item", -1) for event in before), default=-1)
    log: list[events.Event] = [
        events.ChatStart(model_instance_id=model, requested_model=model),
        *before,
        events.MessageStart(item=item, t=1500),
        events.MessageDelta(item=item, content=text, t=2000),
        events.MessageEnd(item=item, t=5000),
    ]
    if status == "failed":
        error = events.ErrorInfo(
            kind="server", message="The model ran out of memory.", type="internal_error"
        )
        log.append(events.Error(error=error, t=5100))
    fold = Fold()
    for event in log:
        fold.add(event)
    reason = {"completed": "stop", "failed": "error"}.get(status, status)
    ending = Ending(status=status, stop=events.Stop(reason=reason))  # type: ignore[arg-type]
    return [*log, events.ChatEnd(result=fold.result(ending), t=6000)]
