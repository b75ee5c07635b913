"""The check whether a call may be made now: its tool, its conversation, and the rules, as the database has them.

It is asked when the call is made, when the runner starts it, and once more right before it is sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q
from django.utils.translation import gettext_noop

from chat import access
from chat.models import (
    OWN_KINDS,
    Conversation,
    Question,
    Run,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolRule,
    User,
)
from chat.runs.tool_calls import NOT_CONNECTED
from chat.tools.definitions import call_digest, tool_digest
from chat.tools.kinds import executor_of
from chat.tools.rules import Situation, Verdict, decide
from chat.tools.sign_in.accounts import account_for_call

# Sentences for people and for the model, stored in English; pages translate them.
REMOVED = gettext_noop("This tool was removed.")
NOT_OFFERED = gettext_noop("This tool wasn’t offered in this conversation.")
NOT_ENABLED = gettext_noop("This tool isn’t enabled in this conversation.")
OFF = gettext_noop("This tool is turned off.")
FOR_OTHERS = gettext_noop("This tool is for other people than the one who asked for this answer.")
FOR_GROUPS = gettext_noop("Only people in the groups that this tool is for can let it run.")
NEVER = gettext_noop("This tool was turned off for this conversation.")
SERVER_OFF = gettext_noop("This tool’s server is disabled.")
NOT_SEEN = gettext_noop("This tool has changed, and nobody has turned it on again yet.")
CHANGED = gettext_noop("This tool was changed after the call was made.")
NO_EXECUTOR = gettext_noop("Tools of this kind can’t run here.")
DELETED = gettext_noop("The conversation was deleted.")
MAY_NOT_READ = gettext_noop(
    "The person who asked for this answer can no longer read the conversation."
)
MAY_NOT_WRITE = gettext_noop(
    "The person who approved the call can no longer write in this conversation."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``reason`` says why the call is refused. ``keeps_private``: the result of a call with an account is for its
    executor alone, unless they choose otherwise."""

    verdict: Verdict
    reason: str = ""
    keeps_private: bool = False


def why_never(conversation: Conversation, tool: Tool | None) -> str:
    """The reason why no call of the tool may be made in the conversation, even an approved one; empty if one may."""
    if Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=False).exists():
        return DELETED
    if tool is None or tool.team_id != conversation.team_id:
        return REMOVED
    if tool.rule == ToolRule.OFF:
        return OFF
    if not conversation.tools.filter(pk=tool.pk).exists():
        return NOT_ENABLED
    if tool.kind == ToolKind.MCP and tool.server is None:
        return REMOVED
    if tool.server is not None and not tool.server.is_enabled:
        return SERVER_OFF
    if tool.kind == ToolKind.MCP and tool.seen_digest != tool_digest(tool):
        return NOT_SEEN
    return "" if executor_of(tool.kind) else NO_EXECUTOR


def requester_of(run: Run) -> User | None:
    """The person who asked for the answer that the run is part of. Its tools were offered to them, and others may have
    continued it since."""
    if run.position == 0:
        return run.requested_by
    first = Run.objects.filter(message_id=run.message_id, position=0)
    return User.objects.filter(pk__in=first.values("requested_by")).first()


def executor_for(tool: Tool | None, run: Run) -> User | None:
    """The person whose account a call of the run uses: the author of the message that is answered. In a copy, or after
    they lost the right to write, it is the one who asked for the answer, or the owner of the conversation. Nobody for tools without
    accounts."""
    if tool is None or not tool.is_personal:
        return None
    message, conversation = run.message.parent, run.conversation
    author = message.author if message is not None else None
    candidates = (author, run.requested_by, conversation.owner)
    return next((each for each in candidates if _may_write(each, conversation)), None)


def is_led_by_others(run: Run, executor: User | None) -> bool:
    """Returns whether somebody else than the executor has decided about something that this answer asked before the run:
    what the run does may be their wish."""
    if executor is None:
        return False
    asked = Question.objects.filter(run__message=run.message_id, run__position__lt=run.position)
    deciders = ("answered_by", "tool_call__approved_by", "tool_call__inputs__answered_by")
    is_other = Q()
    for decider in deciders:
        is_other |= Q(**{f"{decider}__isnull": False}) & ~Q(**{decider: executor})
    return asked.filter(is_other).exists()


def decide_now(
    conversation: Conversation,
    tool: Tool | None,
    requester: User | None,
    executor: User | None = None,
    *,
    is_led: bool = False,
    connected: Collection[int] | None = None,
) -> Decision:
    """The decision about a call that nobody has approved. ``executor``: the person whose account it would use;
    ``is_led``: others have decided about its answer (`is_led_by_others`); ``connected``: the servers that the executor
    has accounts at, if they were read (`connected_servers`)."""
    if reason := why_never(conversation, tool):
        return Decision(verdict=Verdict.REFUSE, reason=reason)
    assert tool is not None
    if not access.may_use_tool(requester, tool):
        return Decision(verdict=Verdict.REFUSE, reason=FOR_OTHERS)
    person = executor if tool.is_personal else requester
    # Nobody else starts what runs by itself with somebody's account: a retry or a reply of a colleague asks.
    is_own = person is not None and person == requester and not (tool.is_personal and is_led)
    # Everybody decides about calls with their own account.
    chooser = executor if tool.is_personal else None
    choice = ToolChoice.objects.filter(conversation=conversation, tool=tool, person=chooser).first()
    standing = _standing(choice, conversation, tool, executor)
    keeps_private = tool.is_personal and tool.keeps_private
    if choice is not None and standing:
        keeps_private = tool.is_personal and choice.keeps_private
    verdict = decide(
        Situation(
            rule=tool.rule,
            is_private=is_private_to(person, conversation),
            is_entitled=is_own and _may_write(person, conversation),
            is_read_only=tool.is_read_only,
            is_destructive=tool.is_destructive,
            choice=standing,
        )
    )
    has_account = (
        is_connected(tool, executor)
        if connected is None or not tool.is_personal
        else tool.server_id in connected
    )
    if verdict == Verdict.RUN and not has_account:
        return Decision(verdict=Verdict.ASK, reason=NOT_CONNECTED, keeps_private=keeps_private)
    reason = NEVER if verdict == Verdict.REFUSE else ""
    return Decision(verdict=verdict, reason=reason, keeps_private=keeps_private)


def is_connected(tool: Tool, executor: User | None) -> bool:
    """Returns whether the account that a call needs is connected; tools without accounts need none."""
    if tool.server is None or not tool.is_personal:
        return True
    return account_for_call(executor, tool.server) is not None


def decide_at_call(call: ToolCall) -> Decision:
    """The decision about a stored call right now. Needs its question with run and conversation, and its
    tool with its server."""
    question = call.question
    conversation = question.conversation
    if call.kind in OWN_KINDS:
        return decide_about_own(question.run)
    if call.approved_at is None:
        requester = requester_of(question.run)
        is_led = call.is_personal and is_led_by_others(question.run, call.executor)
        decision = decide_now(conversation, call.tool, requester, call.executor, is_led=is_led)
    else:
        decision = _decide_approved(call, conversation)
    if decision.verdict == Verdict.REFUSE or call.tool is None:
        return decision
    is_changed = call_digest(call.tool) != call.definition_digest
    return Decision(verdict=Verdict.REFUSE, reason=CHANGED) if is_changed else decision


def decide_about_own(run: Run) -> Decision:
    """The decision about a call of a function of Tributary itself, which nobody has to approve: it runs as long as the
    person who asked for the answer may read the conversation. Its feature decides what else they may."""
    person = requester_of(run)
    rooms = Conversation.objects.filter(pk=run.conversation_id)
    if rooms.filter(deleted_at__isnull=False).exists():
        return Decision(verdict=Verdict.REFUSE, reason=DELETED)
    readable = access.visible_conversations(person) if person is not None else rooms.none()
    if not readable.filter(pk=run.conversation_id).exists():
        return Decision(verdict=Verdict.REFUSE, reason=MAY_NOT_READ)
    return Decision(verdict=Verdict.RUN)


def why_refused(call: ToolCall) -> str:
    """Why a call that has begun may not go on; empty if it may. What was approved, or ran by itself, needs no other
    approval. Needs what ``decide_at_call`` does."""
    decision = decide_at_call(call)
    return decision.reason if decision.verdict == Verdict.REFUSE else ""


def _decide_approved(call: ToolCall, conversation: Conversation) -> Decision:
    tool = call.tool
    reason = why_never(conversation, tool)
    if not reason and tool is not None:
        reason = _why_not_theirs(call, tool)
    if not reason and not _may_write(call.approved_by, conversation):
        reason = MAY_NOT_WRITE
    if reason or tool is None:
        return Decision(verdict=Verdict.REFUSE, reason=reason)
    if call.is_personal != tool.is_personal:
        # Somebody has approved it for another credential.
        return Decision(verdict=Verdict.REFUSE, reason=CHANGED)
    if not is_connected(tool, call.executor):
        return Decision(verdict=Verdict.ASK, reason=NOT_CONNECTED)
    return Decision(verdict=Verdict.RUN)


def _why_not_theirs(call: ToolCall, tool: Tool) -> str:
    if not access.may_use_tool(requester_of(call.question.run), tool):
        return FOR_OTHERS
    return "" if access.may_use_tool(call.approved_by, tool) else FOR_GROUPS


def is_private_to(person: User | None, conversation: Conversation) -> bool:
    """Returns whether nobody else reads the conversation."""
    is_owner = person is not None and person.pk == conversation.owner_id
    return is_owner and not access.is_seen_by_others(conversation)


def _standing(
    choice: ToolChoice | None, conversation: Conversation, tool: Tool, executor: User | None
) -> bool | None:
    """The choice, as long as the person who allowed calls in advance is entitled, and the tool is the one that they
    allowed; "never" stays. Calls with somebody's account are allowed by nobody else."""
    if choice is None or not choice.is_allowed:
        return None if choice is None else False
    if tool.is_personal and choice.chosen_by != executor:
        return None
    is_same = choice.definition_digest == call_digest(tool)
    is_entitled = _may_write(choice.chosen_by, conversation) and access.may_use_tool(
        choice.chosen_by, tool
    )
    return True if is_same and is_entitled else None


def _may_write(person: User | None, conversation: Conversation) -> bool:
    # As of now, unlike `access.may_write`.
    if person is None:
        return False
    return access.writable_conversations(person).filter(pk=conversation.pk).exists()
