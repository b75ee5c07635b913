"""Sending and editing messages, and asking for another answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext

from chat.conversations.titles import title_of
from chat.core import notify
from chat.core.errors import ActionRefused, AnswerLive, Overtaken, storage_errors
from chat.core.prepared import Prepared, PreparedDelete, insert
from chat.events import JsonObject
from chat.files.actions import Attachable, attach
from chat.models import (
    BranchChoice,
    Conversation,
    Message,
    Project,
    Role,
    Run,
    RunStatus,
    SearchKind,
    Team,
    Tool,
    Upstream,
    User,
    Visibility,
)
from chat.models.run import LIVE_STATUSES
from chat.models.tree import children_by_parent, path_to, visible_path
from chat.runs.queue import check_queue_limit
from chat.search.sources import index


def definitions_of(conversation: Conversation) -> list[JsonObject]:
    """The definitions of the conversation's tools: ``[{"name", "description", "schema"}]``."""
    return [
        {"name": name, "description": description, "schema": schema}
        for name, description, schema in _definitions.all(room=conversation.pk)
    ]


_definitions: Prepared[Any] = Prepared(
    lambda room: (
        Tool.objects.filter(conversations=room)
        .order_by("name")
        .values_list("name", "description", "schema")
    )
)


# Callers have loaded every object through `chat.access` with the right that the action needs.

# In characters; below the limit of request bodies.
TEXT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The server, model and parameters that a person chose for a message."""

    upstream: Upstream
    model: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    system_prompt: str = ""
    # Notes about what was changed or left out, for the run's details.
    notes: Sequence[str] = ()


def start_conversation(
    user: User,
    place: Team | Project,
    *,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    visibility: str = Visibility.PRIVATE,
    expires_in: timedelta | None = None,
    tools: Iterable[Tool] = (),
    pictures: Sequence[Attachable] = (),
) -> Run:
    """A new conversation with its first message and the run that answers it.

    In a project it is private or shared with the project, elsewhere private or shared with the
    team. ``tools`` are those of the team that are switched on from the start. With ``expires_in``
    it is temporary.
    """
    _check_text(text)
    project = place if isinstance(place, Project) else None
    team = place.team if isinstance(place, Project) else place
    if visibility == (Visibility.TEAM if project else Visibility.PROJECT):
        raise ActionRefused(gettext("Choose who can read this conversation."))
    with storage_errors():
        if earlier := _earlier_run(user, idempotency_key):
            return earlier
        try:
            with transaction.atomic():
                if project is not None:
                    _check_project(project)
                conversation = Conversation.objects.create(
                    team=team,
                    owner=user,
                    visibility=visibility,
                    project=project,
                    title=title_of(text),
                    expires_at=timezone.now() + expires_in if expires_in else None,
                )
                index(SearchKind.TITLE, conversation)
                conversation.tools.set([tool for tool in tools if tool.team_id == team.pk])
                return _append(
                    user, conversation, None, text, choice, idempotency_key, pictures=pictures
                )
        except IntegrityError:
            return _winner(user, idempotency_key)


def _check_project(project: Project) -> None:
    """It stays until the transaction ends. Whoever writes may have seen it a moment ago."""
    rows = Project.objects.select_for_update(no_key=True).filter(pk=project.pk)
    if rows.first() is None:
        raise ActionRefused(gettext("This project was deleted. Start the conversation elsewhere."))


def send_message(
    user: User,
    conversation: Conversation,
    *,
    parent: Message | None,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    pictures: Sequence[Attachable] = (),
    pictures_of: Message | None = None,
    is_last: bool = False,
) -> Run:
    """Appends a message below ``parent`` and queues the run that answers it.

    The same key gives the same run, however often it is sent. A parent that has newer children
    simply gets one more: a branch. For who wrote below the end of the conversation
    (``is_last``) it is refused instead. The pictures of an earlier turn (``pictures_of``) come
    before the new ones.
    """
    _check_text(text)
    is_key_new = parent is not None and parent.is_key_new
    with storage_errors():
        if not is_key_new and (earlier := _earlier_run(user, idempotency_key)):
            return earlier
        # Afterwards: the answer to the message itself may be the parent, on a page that was loaded since.
        _check_parent(conversation, parent)
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
        except Overtaken:
            # Perhaps by itself, sent at the same moment.
            if earlier := _earlier_run(user, idempotency_key):
                return earlier
            raise


def edit_message(
    user: User, message: Message, *, text: str, choice: ModelChoice, idempotency_key: UUID
) -> Run:
    """Creates a sibling of a person's message with another text and the same pictures, and queues its answer."""
    if message.role != Role.USER:
        raise ActionRefused(gettext("Only messages from people can be edited."))
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
    """Creates a sibling of an answer and queues its run."""
    if answer.role != Role.ASSISTANT or answer.parent is None:
        raise ActionRefused(gettext("Only answers can be tried again."))
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


def choose_branch(user: User, message: Message) -> None:
    """Selects ``message`` among its siblings for this person."""
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
    """Removes this person's selection among the siblings, so that they see the newest."""
    if message.parent_id is None:
        BranchChoice.objects.filter(
            user=user, conversation=message.conversation_id, parent__isnull=True
        ).delete()
    else:
        _forget_choice(person=user.pk, parent=message.parent_id)


_forget_choice = PreparedDelete(
    lambda person, parent: BranchChoice.objects.filter(user=person, parent=parent)
)


def parent_in(
    user: User, conversation: Conversation, public_id: UUID | None, *, idempotency_key: UUID
) -> Message | None:
    """The message below which another one is sent with this key, with ``is_live``, ``is_last`` and
    ``is_key_new``. Raises ``ActionRefused``."""
    if public_id is None:
        return None
    parent = _message_of.first(
        room=conversation.pk, public_id=public_id, person=user.pk, key=idempotency_key
    )
    if parent is None:
        raise ActionRefused(_not_in_conversation())
    return parent


_message_of: Prepared[Message] = Prepared(
    lambda room, public_id, person, key: Message.objects.filter(  # type: ignore[no-redef]  # by the annotations
        conversation=room, public_id=public_id
    ).annotate(
        is_live=Exists(Run.objects.filter(message=OuterRef("pk"), status__in=LIVE_STATUSES)),
        is_last=~Exists(Message.objects.filter(parent=OuterRef("pk"))),
        is_key_new=~Exists(_runs_with_key(person, key)),
    )
)


# --- steps -----------------------------------------------------------------------


def _check_text(text: str) -> None:
    if not text.strip():
        raise ActionRefused(gettext("Enter a message."))
    if len(text) > TEXT_LIMIT:
        raise ActionRefused(
            gettext("This message is too long. Shorten it to %(limit)s characters or fewer.")
            % {"limit": number_format(TEXT_LIMIT, use_l10n=True, force_grouping=True)}
        )


def _not_in_conversation() -> str:
    return gettext(
        "The message you’re replying to is no longer in this conversation. Reload the page."
    )


def _check_parent(conversation: Conversation, parent: Message | None) -> None:
    if parent is None:
        return
    if parent.conversation_id != conversation.pk or parent.role != Role.ASSISTANT:
        raise ActionRefused(_not_in_conversation())
    is_live = parent.is_live
    if is_live is None:
        is_live = Run.objects.filter(message=parent, status__in=LIVE_STATUSES).exists()
    if is_live:
        raise AnswerLive(gettext("The answer above isn’t finished yet. Wait for it, or stop it."))


def _earlier_run(user: User, idempotency_key: UUID) -> Run | None:
    run = _run_with_key.first(person=user.pk, key=idempotency_key)
    if run is not None:
        run.is_repeated = True
    return run


def _runs_with_key(person: Any, key: Any) -> QuerySet[Run]:
    return Run.objects.filter(idempotency_key=key, requested_by=person)


_run_with_key = Prepared(lambda person, key: _runs_with_key(person, key)[:1])


def _winner(user: User, idempotency_key: UUID) -> Run:
    """The run of the concurrent request that inserted the same key first."""
    run = _earlier_run(user, idempotency_key)
    if run is None:
        raise ActionRefused(gettext("Someone else already sent this message. Reload the page."))
    return run


def _append(
    user: User,
    conversation: Conversation,
    parent: Message | None,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    *,
    pictures: Sequence[Attachable] = (),
    pictures_of: Message | None = None,
    is_last: bool = False,
) -> Run:
    known_revision = conversation.revision
    revision = _remember(conversation, choice)
    is_unchanged = revision == known_revision + 1
    if is_last and parent is not None:
        _check_is_last(parent, is_unchanged=is_unchanged)
    message = insert(
        Message(
            conversation=conversation,
            parent=parent,
            role=Role.USER,
            author=user,
            # PostgreSQL does not store NUL, so the symbol for it is stored.
            text=text.replace("\x00", "\u2400"),
            revision=revision,
        )
    )
    attach(message, user, pictures, earlier=pictures_of)
    index(SearchKind.MESSAGE, message)
    # Where there was no message below the parent, none of them can have been chosen.
    if not (is_unchanged and parent is not None and parent.is_last):
        follow_newest(user, message)
    has_no_tools = is_unchanged and conversation.has_tools is False
    return _queue_answer(
        user,
        conversation,
        message,
        choice,
        idempotency_key,
        revision=revision,
        tools=[] if has_no_tools else None,
    )


def _check_is_last(parent: Message, *, is_unchanged: bool) -> None:
    """Raises ``Overtaken``. Call after the conversation has changed: whoever sends to it at the same
    moment waits until then. What was read with the parent holds where the conversation
    ``is_unchanged`` since it was read."""
    if is_unchanged and parent.is_last:
        return
    followers = Message.objects.filter(parent=parent).select_related("author")
    follower = followers.order_by("pk").last()
    if follower is not None:
        name = follower.author.name if follower.author else gettext("Someone")
        raise Overtaken(
            gettext(
                "%(person)s sent a message just before you, so yours wasn’t sent. Your text is still "
                "here: send it again to add it below."
            )
            % {"person": name}
        )


def _remember(conversation: Conversation, choice: ModelChoice) -> int:
    """Stores the choice for the next message. Returns the new revision."""
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
    tools: Sequence[JsonObject] | None = None,
) -> Run:
    """``tools``: those of the conversation, if the caller knows them."""
    revision = revision or _remember(conversation, choice)
    check_queue_limit(user)
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
            tools=definitions_of(conversation) if tools is None else list(tools),
            requested_by=user,
            idempotency_key=idempotency_key,
            status=RunStatus.QUEUED,
            notes=list(choice.notes),
        )
    )
    notify.publish_after_commit(notify.QUEUED)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
    return run
