"""The check whether a call may be made now: its tool, its conversation, and the rules, as the database has them.

It is asked when the call is made, when the runner starts it, and once more right before it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_noop

from chat import access
from chat.models import Conversation, Run, Tool, ToolCall, ToolChoice, ToolKind, ToolRule, User
from chat.tools.definitions import call_digest, tool_digest
from chat.tools.kinds import executor_of
from chat.tools.rules import Situation, Verdict, decide

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
MAY_NOT_WRITE = gettext_noop(
    "The person who approved the call can no longer write in this conversation."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``reason`` says why the call is refused."""

    verdict: Verdict
    reason: str = ""


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


def decide_now(conversation: Conversation, tool: Tool | None, requester: User | None) -> Decision:
    """The decision about a call that nobody has approved."""
    if reason := why_never(conversation, tool):
        return Decision(verdict=Verdict.REFUSE, reason=reason)
    assert tool is not None
    if not access.may_use_tool(requester, tool):
        return Decision(verdict=Verdict.REFUSE, reason=FOR_OTHERS)
    choice = ToolChoice.objects.filter(conversation=conversation, tool=tool).first()
    verdict = decide(
        Situation(
            rule=tool.rule,
            is_private=is_private_to(requester, conversation),
            is_entitled=_may_write(requester, conversation),
            is_read_only=tool.is_read_only,
            is_destructive=tool.is_destructive,
            choice=_standing(choice, conversation, tool),
        )
    )
    return Decision(verdict=verdict, reason=NEVER if verdict == Verdict.REFUSE else "")


def decide_at_call(call: ToolCall) -> Decision:
    """The decision about a stored call right now. Needs its question with run and conversation, and its
    tool with its server."""
    question = call.question
    conversation = question.conversation
    if call.approved_at is None:
        decision = decide_now(conversation, call.tool, requester_of(question.run))
    else:
        decision = _decide_approved(call, conversation)
    if decision.verdict == Verdict.REFUSE or call.tool is None:
        return decision
    is_changed = call_digest(call.tool) != call.definition_digest
    return Decision(verdict=Verdict.REFUSE, reason=CHANGED) if is_changed else decision


def _decide_approved(call: ToolCall, conversation: Conversation) -> Decision:
    reason = why_never(conversation, call.tool)
    if not reason and call.tool is not None:
        reason = _why_not_theirs(call, call.tool)
    if not reason and not _may_write(call.approved_by, conversation):
        reason = MAY_NOT_WRITE
    return Decision(verdict=Verdict.REFUSE if reason else Verdict.RUN, reason=reason)


def _why_not_theirs(call: ToolCall, tool: Tool) -> str:
    if not access.may_use_tool(requester_of(call.question.run), tool):
        return FOR_OTHERS
    return "" if access.may_use_tool(call.approved_by, tool) else FOR_GROUPS


def is_private_to(person: User | None, conversation: Conversation) -> bool:
    """Returns whether nobody else reads the conversation."""
    is_owner = person is not None and person.pk == conversation.owner_id
    return is_owner and not access.is_seen_by_others(conversation)


def _standing(choice: ToolChoice | None, conversation: Conversation, tool: Tool) -> bool | None:
    """The choice, as long as the person who allowed calls in advance is entitled, and the tool is the one that they
    allowed; "never" stays."""
    if choice is None or not choice.is_allowed:
        return None if choice is None else False
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
