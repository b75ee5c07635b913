"""Conversations and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeVar
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import (
    BooleanField,
    Exists,
    ExpressionWrapper,
    F,
    Model,
    OuterRef,
    Q,
    QuerySet,
)
from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from chat.access import rule
from chat.access.not_here import NOT_HERE, check_is_active, existing
from chat.access.projects import visible_projects
from chat.core.prepared import Prepared
from chat.models import (
    UNSETTLED_STATUSES,
    AccessReason,
    Artifact,
    Comment,
    ComparedAnswer,
    Comparison,
    Conversation,
    ConversationChange,
    ConversationContext,
    Fork,
    Membership,
    Message,
    Mockup,
    Participant,
    Pin,
    ProjectAccess,
    Question,
    QuestionStatus,
    QueuedMessage,
    Run,
    Skill,
    Team,
    Tool,
    ToolCall,
    User,
)
from chat.models.question import WAITS_FOR_PERSON

ONLY_MANAGERS = gettext_lazy("Only managers of this conversation can do this.")


def visible_conversations(person: Any) -> QuerySet[Conversation]:
    """The conversations that a person may read. As in `chat.access.rule`, the person is a user, a
    placeholder or a column of an outer query."""
    return rule.for_person(Conversation.objects.all(), person).filter(rule.READS)


def writable_conversations(person: Any) -> QuerySet[Conversation]:
    """The conversations that a person may read and write in."""
    return rule.for_person(Conversation.objects.all(), person).filter(rule.WRITES)


def managed_conversations(person: Any) -> QuerySet[Conversation]:
    """The conversations that a person may rename, share, move and delete."""
    return rule.for_person(Conversation.objects.all(), person).filter(rule.MANAGES)


def trashed_conversations(person: Any) -> QuerySet[Conversation]:
    """The deleted conversations that the person may restore: those that they manage."""
    return rule.for_person(Conversation.objects.all(), person).filter(rule.RESTORES)


def own_trashed_conversations(person: Any) -> QuerySet[Conversation]:
    """The person's own deleted conversations, which they may also delete for ever."""
    return rule.for_person(Conversation.objects.all(), person).filter(rule.ERASES)


def owned_conversations(user: User) -> QuerySet[Conversation]:
    """The conversations of a person, also with a disabled account, in the teams that they are on: what is in
    a team that they have left is no longer theirs."""
    return Conversation.objects.filter(rule.IS_OWNED, owner=user)


def conversations_shared_with(team: Team) -> QuerySet[Conversation]:
    """The conversations that everyone on the team reads, in projects and in the trash, too."""
    return Conversation.objects.filter(rule.IS_SHARED_WITH_EVERYONE, team=team)


def conversations_of_whole_teams() -> QuerySet[Conversation]:
    """The conversations that everyone on their team reads now: neither in the trash, nor temporary."""
    shared = Conversation.objects.filter(rule.IS_SHARED_WITH_EVERYONE)
    return shared.filter(deleted_at__isnull=True, expires_at__isnull=True)


def may_write(user: User, conversation: Conversation) -> bool:
    """Returns whether this user, who may see the conversation, may also write in it. If `get_conversation`
    has loaded it for them, this is as of then."""
    context = conversation.context
    if context is not None and context.user_pk == user.pk:
        return context.may_write
    return writable_conversations(user).filter(pk=conversation.pk).exists()


def may_manage(user: User, conversation: Conversation) -> bool:
    """Returns whether this user may rename, share, move and delete the conversation, as `may_write`."""
    context = conversation.context
    if context is not None and context.user_pk == user.pk:
        return context.may_manage
    return managed_conversations(user).filter(pk=conversation.pk).exists()


def check_may_manage(user: User, conversation: Conversation) -> None:
    """As of now, for actions whose caller has loaded the conversation before. Raises
    ``PermissionDenied``."""
    if not managed_conversations(user).filter(pk=conversation.pk).exists():
        raise PermissionDenied(str(ONLY_MANAGERS))


def may_see_settings(user: User, conversation: Conversation) -> bool:
    """True if this user, who may see the conversation, may also see how its answers were asked for: system
    prompts, parameters, definitions of tools, and what servers repeat of them. They are its writers',
    unless it shows them to its readers. Every place that shows them asks this."""
    return conversation.shows_settings or may_write(user, conversation)


def get_conversation_to_fork(user: User, public_id: UUID) -> Conversation:
    """A conversation for somebody who may copy it into one of their own. Raises as ``get_conversation``
    does."""
    conversation = get_conversation(user, public_id)
    _check_may_fork(user, conversation)
    return conversation


def get_message_to_fork(user: User, public_id: UUID) -> Message:
    """A message at which somebody may do that. Raises as ``get_conversation`` does."""
    message = get_message(user, public_id)
    _check_may_fork(user, message.conversation)
    return message


def _check_may_fork(user: User, conversation: Conversation) -> None:
    if not context_of(user, conversation).may_fork:
        raise PermissionDenied(gettext("You can’t create conversations in this team."))


def is_seen_by_others(conversation: Conversation) -> bool:
    """Returns whether anybody but its owner is there to see the conversation."""
    if conversation.is_shared:
        return True
    context = conversation.context
    if context is not None:
        return context.has_participants
    return Participant.objects.filter(conversation=conversation.pk).exists()


def context_of(user: User, conversation: Conversation) -> ConversationContext:
    """The context with which `get_conversation` has loaded the conversation for this user, or a new one.
    Raises ``Http404``."""
    context = conversation.context
    if context is None or context.user_pk != user.pk:
        context = get_conversation(user, conversation.public_id).context
    assert context is not None
    return context


def get_conversation(user: User, public_id: UUID, *, for_write: bool = False) -> Conversation:
    check_is_active(user)
    conversation: Conversation | None = _visible_conversation.first(
        user=user.pk, public_id=public_id
    )
    if conversation is None:
        raise Http404(NOT_HERE)
    facts = {name: bool(vars(conversation).pop(name)) for name in _FACTS}
    conversation.context = ConversationContext(user_pk=user.pk, **facts)
    conversation.is_without_skills = not facts["has_skills"]
    if for_write and not may_write(user, conversation):
        raise PermissionDenied(_read_only(conversation))
    return conversation


def _read_only(conversation: Conversation) -> str:
    project = conversation.project
    context = conversation.context
    is_project_known = context is not None and context.reads_project
    if project and is_project_known and project.access == ProjectAccess.MEMBERS:
        return gettext(
            "You have read-only access. Ask a manager of the project %(project)s for write access."
        ) % {"project": project.name}
    return gettext(
        "You have read-only access. Ask a manager of this conversation for write access."
    )


# The tools of the team are not for guests.
_HAS_TOOLS = Q(Exists(Tool.objects.filter(team=OuterRef("team")))) & ~rule.IS_GUEST


def _offers_skills(user: Any) -> Q:
    """A skill of the person's own, of the team or of the project. A guest is offered none, as they are shown nothing of
    the team."""
    fitting = Q(owner=user) | Q(team=OuterRef("team")) | Q(project=OuterRef("project"))
    return Q(Exists(Skill.objects.filter(fitting))) & ~rule.IS_GUEST


_FACTS = tuple(each.name for each in fields(ConversationContext) if each.name != "user_pk")
_visible_conversation: Prepared[Any] = Prepared(
    lambda user, public_id: (
        visible_conversations(user)
        .select_related("team", "owner", "upstream", "project")
        .annotate(
            may_write=ExpressionWrapper(rule.WRITES, BooleanField()),
            may_manage=ExpressionWrapper(rule.MANAGES, BooleanField()),
            has_participants=ExpressionWrapper(rule.HAS_PARTICIPANTS, BooleanField()),
            is_guest=ExpressionWrapper(rule.IS_GUEST, BooleanField()),
            reads_project=Exists(visible_projects(user).filter(pk=OuterRef("project"))),
            is_pinned=Exists(Pin.objects.filter(user=user, conversation=OuterRef("pk"))),
            has_tools=Exists(
                Conversation.tools.through.objects.filter(conversation=OuterRef("pk"))
            ),
            team_has_tools=ExpressionWrapper(_HAS_TOOLS, BooleanField()),
            has_skills=Exists(
                Conversation.skills.through.objects.filter(conversation=OuterRef("pk"))
            ),
            offers_skills=ExpressionWrapper(_offers_skills(user), BooleanField()),
            was_opened=Exists(AccessReason.objects.filter(conversation=OuterRef("pk"))),
            has_queue=Exists(QueuedMessage.objects.filter(conversation=OuterRef("pk"))),
            has_comparison=Exists(Comparison.objects.filter(conversation=OuterRef("pk"))),
            may_fork=ExpressionWrapper(rule.FORKS, BooleanField()),
            is_fork=Exists(Fork.objects.filter(conversation=OuterRef("pk"))),
            was_changed=Exists(ConversationChange.objects.filter(conversation=OuterRef("pk"))),
        )
        .filter(public_id=public_id)
    )
)


def _annotated(row: Model, name: str) -> Any:
    """A value that a query has added to a row, which its type does not know."""
    return getattr(row, name)


def readers_of(conversation: Conversation) -> QuerySet[Membership]:
    """The memberships, with their users, by which a conversation may be read."""
    return members_among(visible_conversations(OuterRef("user")), conversation)


def writers_of(conversation: Conversation) -> QuerySet[Membership]:
    """The members of `readers_of` who may write."""
    return members_among(writable_conversations(OuterRef("user")), conversation)


def managers_of(conversation: Conversation) -> QuerySet[Membership]:
    """The members of `readers_of` who may manage the conversation."""
    return members_among(managed_conversations(OuterRef("user")), conversation)


def members_among(
    theirs: QuerySet[Conversation], conversation: Conversation
) -> QuerySet[Membership]:
    members = Membership.objects.filter(team=conversation.team_id).select_related("user")
    return members.filter(Exists(theirs.filter(pk=conversation.pk)))


def get_managed_conversation(user: User, public_id: UUID) -> Conversation:
    """A conversation for actions of its managers: rename, share, move, delete. Raises as
    ``get_conversation`` does."""
    conversation = get_conversation(user, public_id)
    if not may_manage(user, conversation):
        raise PermissionDenied(str(ONLY_MANAGERS))
    return conversation


def get_trashed_conversation(user: User, public_id: UUID) -> Conversation:
    """A conversation in the trash for its managers, who may restore it. Raises ``Http404``."""
    return _trashed(user, public_id, trashed_conversations)


def get_own_trashed_conversation(user: User, public_id: UUID) -> Conversation:
    """A conversation in the trash for its owner, who may delete it for ever. Raises ``Http404``."""
    return _trashed(user, public_id, own_trashed_conversations)


def _trashed(
    user: User, public_id: UUID, theirs: Callable[[Any], QuerySet[Conversation]]
) -> Conversation:
    check_is_active(user)
    rows = theirs(user).select_related("team", "owner")
    return existing(rows.filter(public_id=public_id).first())


_Row = TypeVar("_Row", Message, Question, QueuedMessage, Comment, Artifact, Mockup)


def _get(rows: QuerySet[_Row], user: User, public_id: UUID, *, for_write: bool = False) -> _Row:
    """One of these rows, with its conversation as `get_conversation` loads it for this user. Raises as that does."""
    row = existing(rows.select_related("conversation").filter(public_id=public_id).first())
    row.conversation = get_conversation(user, row.conversation.public_id, for_write=for_write)
    return row


def get_message(user: User, public_id: UUID, *, for_write: bool = False) -> Message:
    return _get(Message.objects.all(), user, public_id, for_write=for_write)


def get_run(
    user: User, public_id: UUID, *, for_write: bool = False, team_id: int | None = None
) -> Run:
    """``team_id`` is the only team that a program's token reaches; runs of other teams do not exist
    for it."""
    run: Run | None = _run.first(public_id=public_id)
    if run is None or team_id not in (None, _annotated(run, "team")):
        raise Http404(NOT_HERE)
    run.conversation = get_conversation(user, _annotated(run, "room"), for_write=for_write)
    return run


_run: Prepared[Any] = Prepared(
    lambda public_id: Run.objects.filter(public_id=public_id).annotate(
        room=F("conversation__public_id"), team=F("conversation__team_id")
    )
)


def get_question(user: User, public_id: UUID, *, for_write: bool = False) -> Question:
    """A question that a run in a conversation waits for. Raises as ``get_conversation`` does."""
    rows = Question.objects.select_related("run__upstream", "claimed_by", "answered_by")
    question = _get(rows, user, public_id, for_write=for_write)
    question.run.conversation = question.conversation
    return question


def get_tool_call(user: User, public_id: UUID, *, for_write: bool = False) -> ToolCall:
    """The call of a tool that Tributary runs, by the id of its question. Everyone who may write in the conversation may
    decide about it. Raises as ``get_conversation`` does."""
    question = get_question(user, public_id, for_write=for_write)
    call = existing(
        ToolCall.objects.filter(question=question)
        .select_related("tool__server__team", "tool__team", "approved_by", "executor")
        .first()
    )
    call.question = question
    return call


def questions_for(person: Any) -> QuerySet[Question]:
    """The open questions that somebody may answer: in conversations that they may write in, and not
    followed by a message or replaced by another attempt or the chosen answer of a comparison."""
    # The other columns of a comparison are no later attempts.
    later = Message.objects.filter(
        parent=OuterRef("run__message__parent"), pk__gt=OuterRef("run__message"), compared=None
    )
    chosen = ComparedAnswer.objects.filter(
        answer=OuterRef("run__message"), comparison__chosen__isnull=False
    )
    passed_over = chosen.exclude(comparison__chosen=OuterRef("run__message"))
    # The conversation is looked up for each open question. A list of all conversations that somebody
    # may write in would be made first, and takes milliseconds for ten thousand.
    written = writable_conversations(person).filter(pk=OuterRef("conversation"))
    return Question.objects.filter(
        *(~Exists(later), ~Exists(passed_over), ~Exists(calls_of_others(person))),
        *(Exists(written), WAITS_FOR_PERSON),
    )


def calls_of_others(person: Any) -> QuerySet[ToolCall]:
    """The call of an outer question, if it uses the account of somebody else, who alone decides about it."""
    calls = ToolCall.objects.filter(question=OuterRef("pk"), is_personal=True)
    return calls.filter(~Q(executor=person) | Q(executor=None))


def with_audience(questions: QuerySet[Question]) -> QuerySet[Question]:
    """The questions with what their ``is_seen_by_others`` tells."""
    has_audience = ExpressionWrapper(rule.is_shared("conversation"), BooleanField())
    return questions.annotate(has_audience=has_audience)


def answered_questions_for(user: User) -> QuerySet[Question]:
    """Settled questions of the conversations that this user may write in, the newest first. Nobody was asked about
    calls of tools that ran by themselves."""
    ran_by_itself = Q(
        tool_call__isnull=False, tool_call__approved_by__isnull=True, answered_by__isnull=True
    )
    return (
        Question.objects.filter(
            conversation__in=writable_conversations(user), answered_at__isnull=False
        )
        .exclude(ran_by_itself)
        .exclude(status__in=UNSETTLED_STATUSES)
        .order_by("-answered_at", "-pk")
    )


def get_own_tool_call(user: User, public_id: UUID) -> ToolCall:
    """A call that uses the user's own account. Raises ``Http404`` for that of anybody else."""
    call = get_tool_call(user, public_id, for_write=True)
    if not call.is_personal or call.executor_id != user.pk or call.tool is None:
        raise Http404(NOT_HERE)
    return call


def addressed_to(user: Any) -> Q:
    """The questions that are for this user: of answers that they asked for, of their own conversations, about calls with
    their account, and those that they answer already."""
    is_claimed = Q(status=QuestionStatus.CLAIMED, claimed_by=user)
    is_executor = Q(Exists(ToolCall.objects.filter(question=OuterRef("pk"), executor=user)))
    return is_claimed | is_executor | Q(run__requested_by=user) | Q(conversation__owner=user)


def get_queued_message(user: User, public_id: UUID) -> QueuedMessage:
    """A queued message, for people who may write in its conversation. Raises as
    ``get_conversation`` does."""
    rows = QueuedMessage.objects.select_related("author")
    return _get(rows, user, public_id, for_write=True)


def get_own_queued_message(user: User, public_id: UUID) -> QueuedMessage:
    """A queued message for its author, who may edit it. Raises as ``get_conversation`` does."""
    queued = get_queued_message(user, public_id)
    if queued.author_id != user.pk:
        raise PermissionDenied(gettext("Only the author of this message can edit it."))
    return queued


def get_removable_queued_message(user: User, public_id: UUID) -> QueuedMessage:
    """A queued message for people who may remove it. Raises as ``get_conversation`` does."""
    queued = get_queued_message(user, public_id)
    if not may_remove(user, queued.conversation, author_pk=queued.author_id):
        raise PermissionDenied(
            gettext(
                "Only the author of this message and managers of this conversation can remove it."
            )
        )
    return queued


def may_remove(user: User, conversation: Conversation, *, author_pk: int | None) -> bool:
    """Returns whether this user may remove what the author has added to the conversation: a comment, if the user
    may read there, or a queued message, if they may write."""
    return author_pk == user.pk or may_manage(user, conversation)


def get_comment(user: User, public_id: UUID) -> Comment:
    """A comment, for everybody who may read its conversation: they may also reply. Raises ``Http404``."""
    rows = Comment.objects.select_related("message", "author", "thread__author")
    return _get(rows, user, public_id)


def get_own_comment(user: User, public_id: UUID) -> Comment:
    """A comment for its author, who may edit it. Raises as ``get_conversation`` does."""
    comment = get_comment(user, public_id)
    if comment.author_id != user.pk or comment.is_deleted:
        raise PermissionDenied(gettext("Only the author of this comment can edit it."))
    return comment


def get_removable_comment(user: User, public_id: UUID) -> Comment:
    """A comment for people who may delete it. Raises as ``get_conversation`` does."""
    comment = get_comment(user, public_id)
    if not may_remove(user, comment.conversation, author_pk=comment.author_id):
        raise PermissionDenied(
            gettext(
                "Only the author of this comment and managers of this conversation can delete it."
            )
        )
    return comment


def get_resolvable_thread(user: User, public_id: UUID) -> Comment:
    """The first comment of a thread, for people who may resolve and reopen it. Raises as
    ``get_conversation`` does."""
    comment = get_comment(user, public_id)
    if comment.thread_id is not None:
        raise Http404(NOT_HERE)
    if not may_resolve(user, comment.conversation, author_pk=comment.author_id):
        raise PermissionDenied(
            gettext("Only the author of this thread and people who can write here can resolve it.")
        )
    return comment


def may_resolve(user: User, conversation: Conversation, *, author_pk: int | None) -> bool:
    """True if this user, who may read the conversation, may resolve a thread that this person began."""
    return author_pk == user.pk or may_write(user, conversation)


def readers_among(people: Iterable[int], room: UUID) -> frozenset[int]:
    """The people, as keys, who may read the conversation, of these. Two statements for all."""
    conversation = Conversation.objects.filter(public_id=room).first()
    if conversation is None:
        return frozenset()
    members = readers_of(conversation).filter(user__in=set(people))
    return frozenset(members.values_list("user", flat=True))


def get_artifact(user: User, public_id: UUID) -> Artifact:
    return _get(Artifact.objects.all(), user, public_id)


def get_mockup(user: User, public_id: UUID) -> Mockup:
    return _get(Mockup.objects.all(), user, public_id)


def may_read(actor: User, conversation: Conversation) -> bool:
    """Returns whether this user may read the conversation as a member, not as an administrator."""
    if conversation.owner_id == actor.pk:
        return True
    return visible_conversations(actor).filter(pk=conversation.pk).exists()
