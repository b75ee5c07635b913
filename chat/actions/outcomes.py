"""What the end of a run leaves beside its result: called in the transaction that ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from django.db import transaction

from chat import doorbell
from chat.actions.artifacts import store_artifacts, store_mockups
from chat.actions.continuing import kind_of, queue_follow_up
from chat.actions.errors import is_away
from chat.actions.files import Brought, read_brought, store_brought
from chat.events import JsonObject, Result
from chat.models import Conversation, Message, Question, QuestionKind, Run, RunStatus
from chat.result.merge import waiting_calls

logger = logging.getLogger(__name__)

# An upstream that pauses its own tools goes on by itself; one that never ends is stopped here.
MOST_PAUSES = 8
ASK_ID_LENGTH = 200
# More than anybody answers; a hostile answer could hold hundreds of thousands. The others count
# as not run.
MOST_QUESTIONS = 100

TOO_MANY_PAUSES = (
    f"The server paused more than {MOST_PAUSES} times, so the answer was not continued again."
)
SERVER_IS_GONE = "The server paused, and cannot be asked to go on: it was removed or switched off."


def record_outcome(run_pk: int, result: Result, brought: Sequence[Brought]) -> None:
    """Writes the rows that follow from a result, whoever ended the run. ``brought`` is what
    ``brought_by`` gave for it.

    The run's row already has its terminal status. Everything here is a function of the result,
    and a run ends once, so that nothing is written twice. What cannot be written costs itself,
    and neither the other steps nor the end of the run; a database that is away is the caller's
    affair.
    """
    if not has_consequences(result, brought):
        return
    run = Run.objects.defer("result").get(pk=run_pk)
    for step in STEPS:
        with _on_its_own(run.public_id, step.__name__), transaction.atomic():
            step(run, result)
    with _on_its_own(run.public_id, store_brought.__name__), transaction.atomic():
        store_brought(run, brought)


def has_consequences(result: Result, brought: Sequence[Brought]) -> bool:
    """Whether any step has something to do. Most answers are words and nothing else, and each step
    is a savepoint."""
    ext = result.ext
    return bool(
        ext.artifacts
        or ext.mockups
        or brought
        or ext.status == RunStatus.WAITING
        or ext.stop.reason == "pause"
    )


def brought_by(run_pk: int, result: Result, closing: Iterable[bytes] = ()) -> Sequence[Brought]:
    """The files in an answer that is about to end. ``closing`` are the events, encoded, that are
    not in its log yet.

    Call before the transaction that ends it, wherever possible: decoding and hashing megabytes
    is not for the time when others wait.
    """
    with _on_its_own(run_pk, read_brought.__name__):
        return read_brought(run_pk, result, closing)
    return ()


@contextmanager
def _on_its_own(run: object, step: str) -> Iterator[None]:
    """What goes wrong costs the step; a database that is away is raised."""
    try:
        yield
    except Exception as error:
        if is_away(error):
            raise
        # Its kind alone: what a database says of a value may quote the value.
        logger.error("run.outcome_lost run=%s step=%s error=%s", run, step, type(error).__name__)


def ask_people(run: Run, result: Result) -> None:
    """A row for everything that the run waits for."""
    if run.status != RunStatus.WAITING:
        return
    calls = [
        _question(run, QuestionKind.TOOL, position, call.call_id, msgspec.to_builtins(call))
        for position, call in waiting_calls(result)
    ]
    asks = [
        _question(run, kind_of(ask), position, ask.get("ask_id"), ask)
        for position, ask in enumerate(result.ext.asks)
    ]
    if calls or asks:
        Question.objects.bulk_create(_with_own_ids([*calls, *asks][:MOST_QUESTIONS]))
        _show(run)


def _question(run: Run, kind: str, position: int, ask_id: object, body: JsonObject) -> Question:
    return Question(
        conversation_id=run.conversation_id,
        run=run,
        position=position,
        kind=kind,
        ask_id=str(ask_id or ""),
        body=body,
    )


def _with_own_ids(questions: list[Question]) -> list[Question]:
    """Ids that servers leave out, repeat or make longer than a column are told apart by place."""
    taken: set[tuple[str, str]] = set()
    for question in questions:
        identity = question.ask_id
        is_usable = identity and len(identity) <= ASK_ID_LENGTH
        if not is_usable or (question.kind, identity) in taken:
            question.ask_id = f"{identity[: ASK_ID_LENGTH - 20]}#{question.position}"
        taken.add((question.kind, question.ask_id))
    return questions


def go_on_after_pause(run: Run, result: Result) -> None:
    """The follow-up of a run that the upstream has paused, if nobody wants its end."""
    if run.status != RunStatus.INCOMPLETE or result.ext.stop.reason != "pause":
        return
    if run.stop_requested_at is not None or run.conversation.deleted_at is not None:
        return
    upstream = run.upstream
    if upstream is None or not upstream.is_enabled:
        _note(run, SERVER_IS_GONE)
    elif _pauses(run) > MOST_PAUSES:
        _note(run, TOO_MANY_PAUSES)
    else:
        queue_follow_up(run, [], requested_by=run.requested_by)
    _show(run)


def _pauses(run: Run) -> int:
    """How often this answer has paused: this time, and once for each run that nothing was
    given to."""
    later = Run.objects.filter(message_id=run.message_id, position__gt=0)
    return 1 + sum(not inputs for inputs in later.values_list("inputs", flat=True))


def _note(run: Run, text: str) -> None:
    Run.objects.filter(pk=run.pk).update(notes=[*run.notes, text])


def _show(run: Run) -> None:
    """The answer is another one than its readers have: pages that look again get it."""
    conversation = Conversation.objects.only("public_id", "revision").get(pk=run.conversation_id)
    Message.objects.filter(pk=run.message_id).update(revision=conversation.revision)
    doorbell.ring_after_commit(doorbell.room_topic(conversation.public_id))


STEPS: tuple[Callable[[Run, Result], None], ...] = (
    ask_people,
    store_artifacts,
    store_mockups,
    go_on_after_pause,
)
