"""The calls in the result of a run: which of them Tributary runs, asks people about, or refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from chat.core.notify import publish_after_commit
from chat.events import Result
from chat.models import (
    CallStatus,
    Conversation,
    Question,
    QuestionKind,
    QuestionStatus,
    Run,
    RunStatus,
    Tool,
    ToolCall,
    ToolRule,
    User,
)
from chat.questions.actions import go_on_by_itself
from chat.result.deferred_tools import SEARCH_TOOLS, has_deferred
from chat.result.own_functions import feature_of
from chat.runs.outcomes import OutcomeStep, show_change
from chat.runs.tool_call_metrics import count_call
from chat.runs.tool_calls import TOOL_CALLS
from chat.tools import checks
from chat.tools.definitions import call_digest
from chat.tools.rules import Verdict
from chat.tools.sign_in.accounts import connected_servers
from chat.tools.tool_search import ToolIndex

TOO_MANY = gettext_noop(
    "This answer has called tools many times by itself. Approve the call if it should go on."
)


# The kind of a call of `search_tools`.
FIND_KIND = "find"
# Searches of one response.
MOST_SEARCHES = 10
TOO_MANY_READS = gettext_noop("This answer has called tools too often, so this call was not run.")
TOO_MANY_SEARCHES = gettext_noop(
    "This response has too many searches for tools. Search with other words in the next one."
)
TOO_MANY_REFUSED = gettext_noop(
    "This answer has asked for tools that can’t run too often, so it wasn’t continued."
)


def run_tools(run: Run, result: Result, prepared: object = None) -> None:
    """Creates the calls of a run that ended waiting. If nothing is left to wait for, because all were
    refused, the answer goes on."""
    if run.status != RunStatus.WAITING:
        return
    questions = list(
        Question.objects.filter(run=run, kind=QuestionKind.TOOL, status=QuestionStatus.OPEN)
    )
    if not questions:
        return
    searches = _searches_of(run, questions)
    found = [*searches, *_calls_of(run, [each for each in questions if each.is_open])]
    if not found:
        return
    ToolCall.objects.bulk_create(found)
    for call in found:
        _settle_question(call)
        if call.finished_at is not None:
            count_call(call, call.status)
    if any(call.status == CallStatus.QUEUED for call in found):
        publish_after_commit(TOOL_CALLS)
    if searches or any(call.status == CallStatus.REFUSED for call in found):
        _go_on_after_refusal(run)
    show_change(run)


def _go_on_after_refusal(run: Run) -> None:
    """A model may ask for what is refused again and again, so this ends like the calls that run."""
    if _Allowance(run).has_rounds():
        go_on_by_itself(run.pk)
    else:
        Run.objects.filter(pk=run.pk).update(notes=[*run.notes, gettext(TOO_MANY_REFUSED)])


def _searches_of(run: Run, questions: Sequence[Question]) -> list[ToolCall]:
    """Answers the searches for tools at once: they tell nothing but what this answer may call. The conversation is
    locked meanwhile, so only some of one response are made."""
    if not has_deferred(run.tools):
        return []
    searches = [each for each in questions if _name_of(each) == SEARCH_TOOLS]
    if not searches:
        return []
    index = ToolIndex(run.conversation, {str(each["name"]) for each in run.tools})
    for question in searches[:MOST_SEARCHES]:
        output = index.search(question.body.get("arguments"))
        question.status = QuestionStatus.ANSWERED
        Question.objects.filter(pk=question.pk, status=QuestionStatus.OPEN).update(
            status=QuestionStatus.ANSWERED,
            answered_at=timezone.now(),
            answer={"output": output, "is_error": False},
        )
    for question in searches[MOST_SEARCHES:]:
        question.status = QuestionStatus.DECLINED
    return [_finished_search(question) for question in searches]


def _finished_search(question: Question) -> ToolCall:
    body = question.body.get("arguments")
    is_made = question.status == QuestionStatus.ANSWERED
    return ToolCall(
        question=question,
        status=CallStatus.DONE if is_made else CallStatus.REFUSED,
        kind=FIND_KIND,
        arguments=body if isinstance(body, dict) else {},
        finished_at=timezone.now(),
        error="" if is_made else TOO_MANY_SEARCHES,
    )


def _calls_of(run: Run, questions: Sequence[Question]) -> list[ToolCall]:
    if any(each.get("is_for_client") for each in run.tools):
        # The program that has sent the message gives the results.
        return []
    conversation = run.conversation
    offered = {str(each["name"]) for each in run.tools}
    own = _own_functions(run)
    tools = _tools_named(conversation, (_name_of(question) for question in questions))
    requester = checks.requester_of(run)
    allowance, account = _Allowance(run), _AccountHolder(run)
    found: list[ToolCall] = []
    for question in questions:
        name = _name_of(question)
        if name in own:
            found.append(_own_call(run, question, own[name], allowance))
            continue
        tool = tools.get(name)
        if not _is_ours(tool, name, offered):
            continue
        if name not in offered:
            decision = checks.Decision(verdict=Verdict.REFUSE, reason=checks.NOT_OFFERED)
        else:
            person = account.for_tool(tool)
            decision = checks.decide_now(
                conversation,
                tool,
                requester,
                person,
                is_led=person is not None and account.is_led,
                connected=account.servers if person is not None else None,
            )
        if decision.verdict == Verdict.RUN and not allowance.for_one_more():
            decision = replace(decision, verdict=Verdict.ASK, reason=TOO_MANY)
        found.append(_new_call(question, tool, decision, account.for_tool(tool)))
    return found


def _own_functions(run: Run) -> dict[str, str]:
    """The kinds of the functions of Tributary itself that the run was offered, by their names."""
    return {str(each["name"]): kind for each in run.tools if (kind := feature_of(each))}


def _own_call(run: Run, question: Question, kind: str, allowance: _Allowance) -> ToolCall:
    """A call of a function of Tributary itself. Nobody is asked about it, so that too many are refused."""
    decision = checks.decide_about_own(run)
    if decision.verdict == Verdict.RUN and not allowance.for_one_more():
        decision = checks.Decision(verdict=Verdict.REFUSE, reason=TOO_MANY_READS)
    call = _new_call(question, None, decision, None)
    call.kind, call.rule = kind, ToolRule.AUTO
    return call


def _is_ours(tool: Tool | None, name: str, offered: set[str]) -> bool:
    """Returns whether the call is decided about here. A tool that people answer is theirs as long as it is on, and
    so is a call of an answer that was offered no tools at all."""
    if tool is not None and tool.runs_here:
        return True
    if name in offered:
        return tool is None or tool.rule == ToolRule.OFF
    return bool(offered)


@dataclass(slots=True)
class _AccountHolder:
    """The person whose account the calls of a run use, read once for all of them."""

    run: Run
    _person: User | None = None
    _is_led: bool | None = None
    _is_read: bool = False
    _servers: set[int] | None = None

    def for_tool(self, tool: Tool | None) -> User | None:
        if tool is None or not tool.is_personal:
            return None
        if not self._is_read:
            self._person, self._is_read = checks.executor_for(tool, self.run), True
        return self._person

    @property
    def servers(self) -> set[int]:
        if self._servers is None:
            self._servers = connected_servers(self._person) if self._person else set()
        return self._servers

    @property
    def is_led(self) -> bool:
        if self._is_led is None:
            self._is_led = checks.is_led_by_others(self.run, self._person)
        return self._is_led


def _new_call(
    question: Question, tool: Tool | None, decision: checks.Decision, executor: User | None
) -> ToolCall:
    status = _STATUS_OF[decision.verdict]
    now = timezone.now()
    body = question.body.get("arguments")
    return ToolCall(
        question=question,
        tool=tool,
        status=status,
        rule=tool.rule if tool else "",
        kind=tool.kind if tool else "",
        server_name=tool.server.name if tool and tool.server else "",
        definition_digest=call_digest(tool) if tool else "",
        executor=executor,
        is_personal=tool is not None and tool.is_personal,
        keeps_private=decision.keeps_private,
        arguments=body if isinstance(body, dict) else {},
        queued_at=now if status == CallStatus.QUEUED else None,
        finished_at=now if status == CallStatus.REFUSED else None,
        error=decision.reason,
    )


_STATUS_OF: Mapping[Verdict, CallStatus] = {
    Verdict.RUN: CallStatus.QUEUED,
    Verdict.ASK: CallStatus.APPROVAL,
    Verdict.REFUSE: CallStatus.REFUSED,
}


def _settle_question(call: ToolCall) -> None:
    """The question of a call that runs is no question, and that of a refused one is settled by the rule."""
    mine = Question.objects.filter(pk=call.question_id, status=QuestionStatus.OPEN)
    if call.status == CallStatus.QUEUED:
        mine.update(status=QuestionStatus.RUNNING)
    elif call.status == CallStatus.REFUSED:
        mine.update(
            status=QuestionStatus.DECLINED,
            answered_at=timezone.now(),
            answer={"reason": call.error},
        )


def ask_again(questions: Iterable[Question]) -> None:
    """Asks for approval of the open calls of copied or imported answers: an approval belongs to one call.
    The questions are stored, and their conversation has its tools."""
    for question in questions:
        if question.kind != QuestionKind.TOOL or question.status != QuestionStatus.OPEN:
            continue
        conversation = question.conversation
        name = _name_of(question)
        if kind := _own_functions(question.run).get(name):
            # The call ran by itself in the original. Here it would begin a request that nobody has asked for.
            call = _new_call(question, None, checks.Decision(verdict=Verdict.ASK), None)
            call.kind, call.rule = kind, ToolRule.AUTO
            call.save()
            continue
        tool = _tools_named(conversation, [name]).get(name)
        if tool is not None and tool.runs_here and not checks.why_never(conversation, tool):
            decision = checks.Decision(
                verdict=Verdict.ASK, keeps_private=tool.is_personal and tool.keeps_private
            )
            executor = checks.executor_for(tool, question.run)
            _new_call(question, tool, decision, executor).save()


def _tools_named(conversation: Conversation, names: Iterable[str]) -> dict[str, Tool]:
    """The team's tools of these names."""
    rows = Tool.objects.filter(team=conversation.team_id, name__in=set(names))
    return {tool.name: tool for tool in rows.select_related("server")}


def _name_of(question: Question) -> str:
    return str(question.body.get("tool") or "")


# --- how often an answer calls tools by itself --------------------------------------------------


@dataclass(slots=True)
class _Allowance:
    """The calls and rounds that an answer may still make before somebody is asked. They count from the last
    round in which a person approved a call."""

    run: Run
    _left: int | None = None

    def for_one_more(self) -> bool:
        if self._left is None:
            self._left = self._read()
        self._left -= 1
        return self._left >= 0

    def has_rounds(self) -> bool:
        """Returns whether it may go on by itself after this round."""
        return self._rounds_of(self._calls()) < settings.TOOL_ROUNDS

    def _calls(self) -> QuerySet[ToolCall]:
        calls = ToolCall.objects.filter(question__run__message=self.run.message_id)
        approved = calls.filter(approved_at__isnull=False).order_by("-question__run__position")
        since = approved.values_list("question__run__position", flat=True).first()
        if since is not None:
            calls = calls.filter(question__run__position__gt=since)
        return calls

    @staticmethod
    def _rounds_of(calls: QuerySet[ToolCall]) -> int:
        return calls.values_list("question__run", flat=True).distinct().count()

    def _read(self) -> int:
        calls = self._calls()
        if self._rounds_of(calls) >= settings.TOOL_ROUNDS:
            return 0
        return int(settings.TOOL_CALLS) - calls.exclude(status=CallStatus.REFUSED).count()


RUN_TOOLS = OutcomeStep(
    name="tools",
    applies=lambda result, prepared: result.ext.status == RunStatus.WAITING.value,
    store=run_tools,
)
