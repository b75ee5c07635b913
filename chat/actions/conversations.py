"""Sending, editing, trying again, stopping; sharing, renaming and deleting a conversation.

The caller has fetched every object through ``chat.access`` with the right it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from chat import doorbell
from chat.actions import audit
from chat.actions.endings import end_unstarted
from chat.actions.errors import (
    ActionRefused,
    AnswerLive,
    LineFull,
    Overtaken,
    storage_errors,
)
from chat.actions.files import Picture, attach
from chat.actions.names import without_hidden
from chat.actions.titles import title_of
from chat.actions.tools import definitions_of
from chat.models import (
    BranchChoice,
    Conversation,
    Message,
    Role,
    Run,
    RunStatus,
    Team,
    Tool,
    Upstream,
    User,
    Visibility,
)
from chat.models.prepared import Prepared, PreparedDelete, PreparedUpdate, insert
from chat.models.run import LIVE_STATUSES
from chat.models.tree import children_by_parent, path_to, visible_path

# A message of this size is a book; the request body limit lies above it.
TEXT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """What a person chose beside their words."""

    upstream: Upstream
    model: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    system_prompt: str = ""
    # What was changed or left out before the request is made, for the run's details.
    notes: Sequence[str] = ()


def start_conversation(
    user: User,
    team: Team,
    *,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    visibility: str = Visibility.PRIVATE,
    tools: Iterable[Tool] = (),
    pictures: Sequence[Picture] = (),
) -> Run:
    """A new conversation with its first message and the run that answers it.

    ``tools`` are those of the team that are switched on from the start.
    """
    _check_text(text)
    with storage_errors():
        if earlier := _earlier_run(user, idempotency_key):
            return earlier
        try:
            with transaction.atomic():
                conversation = Conversation.objects.create(
                    team=team, owner=user, visibility=visibility, title=title_of(text)
                )
                conversation.tools.set([tool for tool in tools if tool.team_id == team.pk])
                return _append(
                    user, conversation, None, text, choice, idempotency_key, pictures=pictures
                )
        except IntegrityError:
            return _winner(user, idempotency_key)


def send_message(
    user: User,
    conversation: Conversation,
    *,
    parent: Message | None,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    pictures: Sequence[Picture] = (),
    pictures_of: Message | None = None,
    is_last: bool = False,
) -> Run:
    """Appends the person's words under ``parent`` and queues the run that answers.

    The same key gives the same run, however often it is sent. A parent that has newer children
    simply gets one more: a branch. For who wrote below the end of the conversation
    (``is_last``) it is refused instead. The pictures of an earlier turn (``pictures_of``) come
    before the new ones.
    """
    _check_text(text)
    _check_parent(conversation, parent)
    with storage_errors():
        if earlier := _earlier_run(user, idempotency_key):
            return earlier
        try:
            with transaction.atomic():
                return _append(
                    user,
                    conversation,
                    parent,
                    text,
                    choice,
                    idempotency_key,
                    pictures=pictures,
                    pictures_of=pictures_of,
                    is_last=is_last,
                )
        except IntegrityError:
            return _winner(user, idempotency_key)


def edit_message(
    user: User, message: Message, *, text: str, choice: ModelChoice, idempotency_key: UUID
) -> Run:
    """A sibling of a person's message with other words and the same pictures, and its answer."""
    if message.role != Role.USER:
        raise ActionRefused("Only a person's message can be edited.")
    return send_message(
        user,
        message.conversation,
        parent=message.parent,
        text=text,
        choice=choice,
        idempotency_key=idempotency_key,
        pictures_of=message,
    )


def retry(user: User, answer: Message, *, choice: ModelChoice, idempotency_key: UUID) -> Run:
    """A sibling of an answer: the same question, asked again."""
    if answer.role != Role.ASSISTANT or answer.parent is None:
        raise ActionRefused("Only an answer can be tried again.")
    with storage_errors():
        if earlier := _earlier_run(user, idempotency_key):
            return earlier
        try:
            with transaction.atomic():
                run = _queue_answer(
                    user, answer.conversation, answer.parent, choice, idempotency_key
                )
                follow_newest(user, run.message)
                return run
        except IntegrityError:
            return _winner(user, idempotency_key)


def stop_run(user: User, run: Run) -> bool:
    """Asks for the end of a run. Returns whether it was still live.

    A run that nobody has claimed ends here and now; a running one when its runner sees
    the request, within a second. Where the run is over and its answer has gone on meanwhile,
    the run that goes on is meant.
    """
    # Nearly always it is at work: one statement, which is a transaction by itself.
    if _ask_running(run=run.pk, person=user.pk, now=timezone.now()) or _stop_waiting(user, run):
        doorbell.ring_after_commit(doorbell.STOPS)
        doorbell.ring_after_commit(doorbell.room_topic(run.conversation.public_id))
        return True
    goes_on = Run.objects.filter(
        message_id=run.message_id, position__gt=run.position, status__in=LIVE_STATUSES
    ).first()
    return stop_run(user, goes_on) if goes_on is not None else False


_ask_running = PreparedUpdate(
    lambda run, person, now: (
        Run.objects.filter(pk=run, status=RunStatus.RUNNING, stop_requested_at__isnull=True),
        {"stop_requested_at": now, "stop_requested_by_id": person},
    )
)


def _stop_waiting(user: User, run: Run) -> bool:
    """Of a run that was not at work a moment ago; by now it may have been claimed."""
    with transaction.atomic():
        asked = Run.objects.filter(
            pk=run.pk, status__in=LIVE_STATUSES, stop_requested_at__isnull=True
        ).update(stop_requested_at=timezone.now(), stop_requested_by=user)
        ended = end_unstarted(run)
    return bool(asked) or ended


def choose_branch(user: User, message: Message) -> None:
    """From now on this person sees ``message`` among its siblings."""
    BranchChoice.objects.update_or_create(
        user=user,
        conversation=message.conversation,
        parent=message.parent,
        defaults={"chosen": message, "is_kept": False},
    )


def choose_path(user: User, message: Message, *, is_kept: bool = False) -> None:
    """From now on this person sees the branch in which ``message`` stands. Where nobody chose
    otherwise and it is the newest, nothing is written. ``is_kept``: as in `BranchChoice`."""
    rows = Message.objects.filter(conversation=message.conversation_id)
    messages = {row.pk: row for row in rows.only("id", "parent_id", "conversation_id")}
    chosen = dict(
        BranchChoice.objects.filter(user=user, conversation=message.conversation_id).values_list(
            "parent", "chosen"
        )
    )
    seen = {place.message.pk for place in visible_path(messages.values(), chosen)}
    siblings = children_by_parent(messages.values())
    with transaction.atomic():
        for each in path_to(message, messages):
            if each.pk not in seen and len(siblings[each.parent_id]) > 1:
                BranchChoice.objects.update_or_create(
                    user=user,
                    conversation=message.conversation,
                    parent_id=each.parent_id,
                    defaults={"chosen": each, "is_kept": is_kept},
                )


def follow_newest(user: User, message: Message) -> None:
    """Forgets what this person chose among the siblings: they see the one that comes last."""
    if message.parent_id is None:
        _forget_first_choice(person=user.pk, room=message.conversation_id)
    else:
        _forget_choice(person=user.pk, parent=message.parent_id)


_forget_choice = PreparedDelete(
    lambda person, parent: BranchChoice.objects.filter(user=person, parent=parent)
)
_forget_first_choice = PreparedDelete(
    lambda person, room: BranchChoice.objects.filter(
        user=person, conversation=room, parent__isnull=True
    )
)


def rename(conversation: Conversation, title: str) -> None:
    title = without_hidden(" ".join(title.split()))[:200].strip()
    if not title:
        raise ActionRefused("A title needs at least one letter.")
    with transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(title=title)
        conversation.touch()
    conversation.title = title
    doorbell.ring_after_commit(doorbell.room_topic(conversation.public_id))


def set_visibility(user: User, conversation: Conversation, visibility: str) -> None:
    """Shares with the team, or takes it back; whoever may no longer look stops receiving."""
    with transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(visibility=Visibility(visibility))
        conversation.touch()
        _count_withdrawal(conversation)
        audit.record(
            user,
            "conversation.set_visibility",
            subject=conversation.owner,
            target=str(conversation.public_id),
            visibility=visibility,
        )
    conversation.visibility = visibility
    doorbell.ring_after_commit(doorbell.room_topic(conversation.public_id))


def delete(user: User, conversation: Conversation) -> None:
    """Takes the conversation out of everybody's sight and stops its runs."""
    with transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(deleted_at=timezone.now())
        conversation.touch()
        _count_withdrawal(conversation)
        audit.record(
            user,
            "conversation.delete",
            subject=conversation.owner,
            target=str(conversation.public_id),
        )
        for run in Run.objects.filter(conversation=conversation, status__in=LIVE_STATUSES):
            stop_run(user, run)
    doorbell.ring_after_commit(doorbell.room_topic(conversation.public_id))


# --- steps -----------------------------------------------------------------------


def _count_withdrawal(conversation: Conversation) -> None:
    """What was shared until now leaves the lists of the team (`chat.live.list_version`)."""
    if conversation.visibility == Visibility.TEAM:
        Team.objects.filter(pk=conversation.team_id).update(withdrawals=F("withdrawals") + 1)


def _check_text(text: str) -> None:
    if not text.strip():
        raise ActionRefused("Write something first.")
    if len(text) > TEXT_LIMIT:
        raise ActionRefused("This message is longer than a million characters.")


def _check_parent(conversation: Conversation, parent: Message | None) -> None:
    if parent is None:
        return
    if parent.conversation_id != conversation.pk or parent.role != Role.ASSISTANT:
        raise ActionRefused("This message has no place in the conversation. Reload the page.")
    is_live = parent.is_live
    if is_live is None:
        is_live = _live_run_of.first(answer=parent.pk) is not None
    if is_live:
        raise AnswerLive("The answer above is still being written. Stop it, or wait.")


_live_run_of = Prepared(
    lambda answer: Run.objects.filter(message=answer, status__in=LIVE_STATUSES).values_list(
        "pk", flat=True
    )[:1]
)


def check_line(user: User) -> None:
    """One person's line is bounded: each waiting run is looked at by every claim.

    Raises ``LineFull``. Call inside the transaction that adds to the line, after it has changed the
    conversation: whoever sends for the same person elsewhere waits here until that is committed,
    and then counts it. Two that lock in another order would wait for each other.
    """
    if not settings.IS_SQLITE:
        # Transactions of SQLite come one after the other anyway.
        _lock_person.first(person=user.pk)
    live = len(_live_runs_of.all(person=user.pk))
    if live >= settings.RUNS_PER_PERSON:
        raise LineFull(
            f"{live} answers for you are being written or wait in line. "
            "Wait for one of them, or stop one."
        )


# Not against what only refers to the person, such as a message of theirs.
_lock_person = Prepared(
    lambda person: (
        User.objects.select_for_update(no_key=True).filter(pk=person).values_list("pk", flat=True)
    )
)
_live_runs_of = Prepared(
    lambda person: Run.objects.filter(requested_by=person, status__in=LIVE_STATUSES).values_list(
        "pk", flat=True
    )
)


def _earlier_run(user: User, idempotency_key: UUID) -> Run | None:
    run = _run_with_key.first(person=user.pk, key=idempotency_key)
    if run is not None:
        run.is_repeated = True
    return run


_run_with_key = Prepared(
    lambda person, key: Run.objects.filter(idempotency_key=key, requested_by=person)[:1]
)


def _winner(user: User, idempotency_key: UUID) -> Run:
    """The run of whoever inserted the same key first."""
    run = _earlier_run(user, idempotency_key)
    if run is None:
        raise ActionRefused("This message was already sent by somebody else. Reload the page.")
    return run


def _append(
    user: User,
    conversation: Conversation,
    parent: Message | None,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    *,
    pictures: Sequence[Picture] = (),
    pictures_of: Message | None = None,
    is_last: bool = False,
) -> Run:
    known_revision = conversation.revision
    revision = _remember(conversation, choice)
    if is_last and parent is not None:
        _check_is_last(parent, is_unchanged=revision == known_revision + 1)
    message = insert(
        Message(
            conversation=conversation,
            parent=parent,
            role=Role.USER,
            author=user,
            # PostgreSQL stores no NUL; the reader sees the symbol for it.
            text=text.replace("\x00", "\u2400"),
            revision=revision,
        )
    )
    attach(message, user, pictures, earlier=pictures_of)
    follow_newest(user, message)
    return _queue_answer(user, conversation, message, choice, idempotency_key, revision=revision)


def _check_is_last(parent: Message, *, is_unchanged: bool) -> None:
    """Raises ``Overtaken``. Call after the conversation has changed: whoever sends to it at the same
    moment waits until then. What was read with the parent holds where the conversation
    ``is_unchanged`` since it was read."""
    if is_unchanged and parent.is_last:
        return
    followers = Message.objects.filter(parent=parent).select_related("author")
    follower = followers.order_by("pk").last()
    if follower is not None:
        name = follower.author.name if follower.author else "Somebody"
        raise Overtaken(
            f"{name} sent a message here just before you. Yours was not sent: it is still here, "
            "for you to send below that one."
        )


def _remember(conversation: Conversation, choice: ModelChoice) -> int:
    """The room has a turn more, and its composer offers this next. Returns the new revision."""
    return conversation.remember(
        choice.upstream, choice.model, dict(choice.parameters), choice.system_prompt
    )


def _queue_answer(
    user: User,
    conversation: Conversation,
    question: Message,
    choice: ModelChoice,
    idempotency_key: UUID,
    *,
    revision: int | None = None,
) -> Run:
    revision = revision or _remember(conversation, choice)
    check_line(user)
    answer = insert(
        Message(conversation=conversation, parent=question, role=Role.ASSISTANT, revision=revision)
    )
    run = insert(
        Run(
            conversation=conversation,
            message=answer,
            upstream=choice.upstream,
            model=choice.model,
            system_prompt=choice.system_prompt,
            # The server's own defaults, where the person chose nothing else.
            parameters={**choice.upstream.parameters, **choice.parameters},
            tools=definitions_of(conversation),
            requested_by=user,
            idempotency_key=idempotency_key,
            status=RunStatus.QUEUED,
            notes=list(choice.notes),
        )
    )
    doorbell.ring_after_commit(doorbell.QUEUED)
    doorbell.ring_after_commit(doorbell.room_topic(conversation.public_id))
    return run
