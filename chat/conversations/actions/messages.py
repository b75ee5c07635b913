"""Sending and editing messages, and asking for another answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext

from chat import access
from chat.conversations.actions.conversation import MOST_SKILLS_ON
from chat.conversations.comparisons import (
    choose_first,
    is_undecided,
    key_of,
    preferred_in,
    read_comparisons,
    store_comparison,
)
from chat.conversations.context_start import keep_start
from chat.conversations.titles import title_of
from chat.core.errors import ActionRefused, AnswerLive, FilesTaken, Overtaken, storage_errors
from chat.core.prepared import Prepared, PreparedDelete, insert
from chat.events import JsonObject
from chat.files.actions import AttachedFile, attach, written
from chat.mentions.records import store_mentions
from chat.models import (
    BranchChoice,
    Conversation,
    Message,
    PresetVersion,
    Project,
    QueuedMessage,
    Role,
    Run,
    SearchKind,
    Skill,
    Team,
    Tool,
    ToolRule,
    Upstream,
    User,
    Visibility,
    visibilities,
)
from chat.models.tree import children_by_parent, path_to, visible_path
from chat.result.deferred_tools import first_sentence
from chat.runs.admission import Trigger, queue_run
from chat.runs.tool_calls import is_live
from chat.search.sources import index
from chat.skills import functions as skill_functions

# Bytes of all definitions of a request: about thirty thousand tokens.
DEFINITIONS_BYTES = 128 * 1024


def definitions_of(
    conversation: Conversation, user: User | None = None, *, for_client: bool = False
) -> list[JsonObject]:
    """The definitions of the conversation's tools that the user may use (`ToolDefinition`), and the functions that load
    its skills. Of many tools, or large ones, the model gets only the names and first sentences. With ``for_client`` calls
    are for the program that sends the message, which knows nothing of that: too large ones raise ``ActionRefused``."""
    found = _tools_of(conversation, user, for_client=for_client)
    if for_client or conversation.is_without_skills:
        return found
    taken = {str(tool["name"]) for tool in found}
    return [*found, *skill_functions.definitions_for(conversation, user, taken)]


def _tools_of(
    conversation: Conversation, user: User | None, *, for_client: bool
) -> list[JsonObject]:
    found = [
        {"name": name, "description": description, "schema": schema}
        for name, description, schema in _definitions.all(
            room=conversation.pk, user=user.pk if user else 0
        )
    ]
    is_large = len(found) > 1 and len(msgspec.json.encode(found)) > DEFINITIONS_BYTES
    if for_client:
        if is_large:
            raise ActionRefused(gettext("The definitions of these tools are too large. Use fewer."))
        return [{**tool, "is_for_client": True} for tool in found]
    if not is_large and len(found) <= settings.TOOLS_IN_REQUEST:
        return found
    return [
        {
            "name": tool["name"],
            "description": first_sentence(tool["description"]),
            "schema": {},
            "is_deferred": True,
        }
        for tool in found
    ]


_definitions: Prepared[Any] = Prepared(
    lambda room, user: (
        Tool.objects.filter(access.is_usable_by(user), conversations=room)
        .exclude(rule=ToolRule.OFF)
        .exclude(server__is_enabled=False)
        .order_by("name")
        .values_list("name", "description", "schema")
    )
)


# Callers have loaded every object through `chat.access` with the right that the action needs.

# Characters; below the limit of request bodies.
TEXT_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The server, model and parameters that a person chose for a message."""

    upstream: Upstream
    model: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    system_prompt: str = ""
    # The preset that the composer named, for the conversation to remember; with ``keeps_preset`` it stays the one that
    # the conversation has.
    preset: PresetVersion | None = None
    keeps_preset: bool = True
    # Skills with which a new conversation begins, which the caller has checked.
    skills: Sequence[Skill] = ()
    # Notes about what was changed or left out, for the run's details.
    notes: Sequence[str] = ()
    # True if the program that sends the message gives the results of tool calls.
    calls_are_for_client: bool = False
    # Further models that answer a new message side by side with this one.
    compared: Sequence[ModelChoice] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The message below which another one is sent, with facts that the same query has read."""

    message: Message
    is_live: bool
    # It had no message below it.
    is_last: bool
    # True for an answer of a comparison of which nobody has chosen one.
    is_undecided: bool
    # Nothing had been sent with the idempotency key of the message that is sent now.
    is_key_new: bool


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
    attachments: Sequence[AttachedFile] = (),
) -> Run:
    """A new conversation with its first message and the run that answers it.

    It is private, or shared with its project or team. ``tools`` are the team's tools that are
    enabled from the start. With ``expires_in`` it is temporary.
    """
    check_text(text)
    project = place if isinstance(place, Project) else None
    team = place.team if isinstance(place, Project) else place
    if visibility not in visibilities(in_project=project is not None):
        raise ActionRefused(gettext("Choose who can read this conversation."))

    def start(attached: Sequence[AttachedFile]) -> Run:
        if project is not None:
            _check_project(project)
        conversation = Conversation.objects.create(
            team=team,
            owner=user,
            visibility=visibility,
            project=project,
            title=title_of(text),
            has_automatic_title=True,
            expires_at=timezone.now() + expires_in if expires_in else None,
        )
        index(SearchKind.TITLE, conversation)
        conversation.tools.set(
            [
                each
                for each in tools
                if each.team_id == team.pk and each.may_be_on and access.may_use_tool(user, each)
            ]
        )
        skills = [each for each in choice.skills if each.team_id in (None, team.pk)]
        conversation.is_without_skills = not skills
        if skills:
            conversation.skills.set(skills[:MOST_SKILLS_ON])
        return _append(
            user, conversation, None, text, choice, idempotency_key, attachments=attached
        )

    return _once(user, idempotency_key, start, attachments)


def _check_project(project: Project) -> None:
    """Locks the project until the transaction ends; raises ``ActionRefused`` if it was just deleted."""
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
    attachments: Sequence[AttachedFile] = (),
    attachments_of: Message | None = None,
    end: Parent | None = None,
) -> Run:
    """Appends a message below ``parent`` and queues the run that answers it.

    The same key always gives the same run. A parent with children gets one more: a branch. With
    ``end``, the parent as `parent_in` has read it, the author wrote at the end of the conversation,
    and it is refused instead. The attachments of an earlier turn (``attachments_of``) come before the
    new ones.
    """
    check_text(text)

    def append(attached: Sequence[AttachedFile]) -> Run:
        # Checked after the key: on a page loaded since, the answer to the message itself may be the
        # parent.
        _check_parent(conversation, parent, end)
        return _append(
            user,
            conversation,
            parent,
            text,
            choice,
            idempotency_key,
            attachments=attached,
            attachments_of=attachments_of,
            end=end,
        )

    is_key_new = end is not None and end.is_key_new
    return _once(user, idempotency_key, append, attachments, is_key_new=is_key_new)


def edit_message(
    user: User, message: Message, *, text: str, choice: ModelChoice, idempotency_key: UUID
) -> Run:
    """Creates a sibling of a person's message with another text and the same attachments, and queues its answer."""
    if message.role != Role.USER:
        raise ActionRefused(gettext("Only messages from people can be edited."))
    with storage_errors(), transaction.atomic():
        run = send_message(
            user,
            message.conversation,
            parent=message.parent,
            text=text,
            choice=choice,
            idempotency_key=idempotency_key,
            attachments_of=message,
        )
        if run.message.parent is not None and not run.is_repeated:
            keep_start(message, run.message.parent)
    return run


def retry(user: User, answer: Message, *, choice: ModelChoice, idempotency_key: UUID) -> Run:
    """Creates a sibling of an answer and queues its run."""
    if answer.role != Role.ASSISTANT or answer.parent is None:
        raise ActionRefused(gettext("Only answers can be tried again."))
    question = answer.parent
    if read_comparisons(answer.conversation) and _state_of(answer).is_undecided:
        raise ActionRefused(choose_first())

    def ask_again(_: Sequence[AttachedFile]) -> Run:
        run = _queue_answer(user, answer.conversation, question, choice, idempotency_key)
        follow_newest(user, run.message)
        return run

    return _once(user, idempotency_key, ask_again)


def choose_branch(user: User, message: Message) -> None:
    """Selects ``message`` among its siblings for this person."""
    BranchChoice.objects.update_or_create(
        user=user,
        conversation=message.conversation,
        parent=message.parent,
        defaults={"chosen": message, "is_kept": False},
    )


def choose_path(user: User, message: Message, *, is_kept: bool = False) -> None:
    """Selects the branch with ``message`` for this person. Nothing is written if it is the default,
    the newest. ``is_kept``: as in `BranchChoice`; what the person has chosen on it stays their choice."""
    rows = Message.objects.filter(conversation=message.conversation_id)
    messages = {row.pk: row for row in rows.only("id", "parent_id", "conversation_id")}
    chosen = dict(
        BranchChoice.objects.filter(user=user, conversation=message.conversation_id).values_list(
            "parent", "chosen"
        )
    )
    preferred = preferred_in(read_comparisons(message.conversation))
    seen = {place.message.pk for place in visible_path(messages.values(), chosen, preferred)}
    siblings = children_by_parent(messages.values())
    with transaction.atomic():
        for each in path_to(message, messages):
            is_chosen = chosen.get(each.parent_id) == each.pk
            if is_kept and is_chosen:
                continue
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
) -> Parent | None:
    """The message below which another one is sent with this key. Raises ``ActionRefused``."""
    if public_id is None:
        return None
    row = _message_of.first(
        room=conversation.pk, public_id=public_id, person=user.pk, key=idempotency_key
    )
    if row is None:
        raise ActionRefused(_not_in_conversation())
    return Parent(
        message=row,
        is_live=row.is_live,
        is_last=row.is_last,
        is_undecided=row.is_undecided,
        is_key_new=row.is_key_new,
    )


_message_of: Prepared[Any] = Prepared(
    lambda room, public_id, person, key: Message.objects.filter(
        conversation=room, public_id=public_id
    ).annotate(
        is_live=ExpressionWrapper(is_live(OuterRef("pk")), BooleanField()),
        is_last=~Exists(Message.objects.filter(parent=OuterRef("pk"))),
        is_undecided=is_undecided(OuterRef("pk")),
        is_key_new=~Exists(_runs_with_key(person, key)),
    )
)


# --- steps -----------------------------------------------------------------------


def check_text(text: str) -> None:
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


def _check_parent(conversation: Conversation, parent: Message | None, end: Parent | None) -> None:
    if parent is None:
        return
    if parent.conversation_id != conversation.pk or parent.role != Role.ASSISTANT:
        raise ActionRefused(_not_in_conversation())
    facts = end or _state_of(parent)
    if facts.is_undecided:
        raise ActionRefused(choose_first())
    if facts.is_live:
        raise AnswerLive(
            gettext("The answer above isn’t finished yet. Wait for it to finish, or stop it.")
        )


def _state_of(parent: Message) -> Any:
    """The facts of `Parent` that matter for a message that may begin a branch."""
    return Message.objects.annotate(
        is_live=ExpressionWrapper(is_live(OuterRef("pk")), BooleanField()),
        is_undecided=is_undecided(OuterRef("pk")),
    ).get(pk=parent.pk)


def _earlier_run(user: User, idempotency_key: UUID) -> Run | None:
    run = _run_with_key.first(person=user.pk, key=idempotency_key)
    if run is not None:
        run.is_repeated = True
    return run


def _runs_with_key(person: Any, key: Any) -> QuerySet[Run]:
    return Run.objects.filter(idempotency_key=key, requested_by=person)


_run_with_key = Prepared(lambda person, key: _runs_with_key(person, key)[:1])


def _once(
    user: User,
    key: UUID,
    create: Callable[[Sequence[AttachedFile]], Run],
    attachments: Sequence[AttachedFile] = (),
    *,
    is_key_new: bool | None = False,
) -> Run:
    """The run that has this key; if there is none, the one that ``create`` makes, in a transaction, with the
    attachments. ``is_key_new``: the caller knows that there was none."""
    with storage_errors():
        if not is_key_new and (earlier := _earlier_run(user, key)):
            return earlier
        try:
            with written(attachments) as stored, transaction.atomic():
                return create(stored)
        except (IntegrityError, Overtaken, FilesTaken) as error:
            # A concurrent request may have inserted the same key first.
            if earlier := _earlier_run(user, key):
                return earlier
            if isinstance(error, ActionRefused):
                raise
            raise ActionRefused(
                gettext("Someone else already sent this message. Reload the page.")
            ) from None


def _append(
    user: User,
    conversation: Conversation,
    parent: Message | None,
    text: str,
    choice: ModelChoice,
    idempotency_key: UUID,
    *,
    attachments: Sequence[AttachedFile] = (),
    attachments_of: Message | None = None,
    end: Parent | None = None,
) -> Run:
    known_revision = conversation.revision
    revision = _remember(conversation, choice)
    is_unchanged = revision == known_revision + 1
    has_queue = conversation.context is None or conversation.context.has_queue
    if end is not None and not (is_unchanged and end.is_last and not has_queue):
        _check_is_last(end.message)
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
    attach(message, user, attachments, earlier=attachments_of)
    index(SearchKind.MESSAGE, message)
    store_mentions(user, conversation, message)
    # A parent without children had no child to choose.
    if not (is_unchanged and end is not None and end.is_last):
        follow_newest(user, message)
    context = conversation.context if is_unchanged else None
    has_no_tools = context is not None and not (context.has_tools or context.has_skills)
    run = _queue_answer(
        user,
        conversation,
        message,
        choice,
        idempotency_key,
        revision=revision,
        tools=[] if has_no_tools else None,
    )
    others = [
        _queue_answer(
            user,
            conversation,
            message,
            each,
            key_of(idempotency_key, position),
            revision=revision,
            tools=run.tools,
        )
        for position, each in enumerate(choice.compared, start=1)
    ]
    if others:
        store_comparison(user, message, [run.message, *(each.message for each in others)])
    return run


def _check_is_last(parent: Message) -> None:
    """Raises ``Overtaken``. Call after the conversation has changed: concurrent senders wait until
    then."""
    followers = Message.objects.filter(parent=parent).select_related("author")
    # Queued messages follow the newest version of an answer, so all versions count.
    queued = QueuedMessage.objects.filter(after__parent=parent.parent_id).select_related("author")
    follower = followers.order_by("pk").last() or queued.first()
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
        choice.upstream,
        choice.model,
        dict(choice.parameters),
        choice.system_prompt,
        _preset_of(conversation, choice),
    )


def _preset_of(conversation: Conversation, choice: ModelChoice) -> int | None:
    """The key of the preset's version that the conversation uses with this choice."""
    if choice.keeps_preset:
        return conversation.preset_version_id
    return choice.preset.pk if choice.preset else None


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
    answer = insert(
        Message(conversation=conversation, parent=question, role=Role.ASSISTANT, revision=revision)
    )
    run = Run(
        conversation=conversation,
        message=answer,
        upstream=choice.upstream,
        model=choice.model,
        preset_version_id=_preset_of(conversation, choice),
        system_prompt=choice.system_prompt,
        # The server's own defaults, where the person chose nothing else.
        parameters={**choice.upstream.parameters, **choice.parameters},
        tools=definitions_of(conversation, user, for_client=choice.calls_are_for_client)
        if tools is None
        else list(tools),
        requested_by=user,
        idempotency_key=idempotency_key,
        notes=list(choice.notes),
    )
    return queue_run(run, Trigger.MESSAGE)
