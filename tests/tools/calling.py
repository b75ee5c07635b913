"""Tools of kind ``http``, and answers that call them."""

from __future__ import annotations

from typing import NoReturn

from chat.models import (
    Conversation,
    Run,
    Runner,
    Team,
    Tool,
    ToolCall,
    ToolKind,
    ToolRequest,
    ToolRule,
    Upstream,
    User,
)
from chat.runs.resume import read_inputs
from chat.tools import claims, endings
from chat.tools.claims import ClaimedCall
from chat.tools.kinds import CallFailed, CallOutput
from tests.runs.waiting import asking, call, ended, result_of

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def make_tool(
    team: Team,
    name: str = "weather",
    *,
    rule: ToolRule = ToolRule.ASK,
    address: str = "http://127.0.0.1:9/weather/{city}",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    **fields: object,
) -> Tool:
    tool = Tool.objects.create(
        team=team, name=name, kind=ToolKind.HTTP, rule=rule, schema=SCHEMA, **fields
    )
    request = ToolRequest(tool=tool, method=method, address=address)
    request.set_headers(headers or {})
    request.save()
    return tool


def waiting_run(
    user: User,
    conversation: Conversation,
    upstream: Upstream,
    *names: str,
    offered: tuple[str, ...] | None = None,
) -> Run:
    """A run that ended with calls of the tools of these names. All were offered to it, or ``offered``."""
    run = asking(user, conversation, upstream)
    definitions = [
        {"name": name, "description": "", "schema": {}}
        for name in (names if offered is None else offered)
    ]
    Run.objects.filter(pk=run.pk).update(tools=definitions)
    run.refresh_from_db()
    calls = [call(f"c{number}", name, city="Oslo") for number, name in enumerate(names)]
    return ended(run, result_of(*calls))


def calls_of(run: Run) -> list[ToolCall]:
    rows = ToolCall.objects.filter(question__run=run).order_by("question__position")
    return list(
        rows.select_related("tool__server", "question__run__conversation", "question__conversation")
    )


def statuses(run: Run) -> list[tuple[str, str]]:
    """Of the question and of the call, for each call."""
    return [(each.question.status, each.status) for each in calls_of(run)]


def claim(run: Run) -> list[ClaimedCall]:
    """As a runner does, of which nothing else is there."""
    return claims.claim_due(Runner.objects.create(host="here", pid=1).pk, 100)


def give_result(run: Run, text: str = "Rain") -> Run:
    """Runs the queued calls of a run, without a server; returns the run that continues."""
    for each in claim(run):
        assert claims.mark_sent(each.pk, each.claim)
        assert endings.end_call(each.pk, each.claim, CallOutput(text=text))
    follow_up = follow_up_of(run)
    assert follow_up is not None
    return follow_up


def follow_up_of(run: Run) -> Run | None:
    return Run.objects.filter(message=run.message_id, position=run.position + 1).first()


def call_of(run: Run) -> ToolCall:
    (call,) = calls_of(run)
    return call


def given_to(run: Run) -> str:
    follow_up = follow_up_of(run)
    assert follow_up is not None
    return " ".join(each.output for each in read_inputs(follow_up))


def sent(run: Run) -> ToolCall:
    """As when a runner has sent it."""
    (claimed,) = claim(run)
    assert claims.mark_sent(claimed.pk, claimed.claim)
    return call_of(run)


def lost(run: Run) -> ToolCall:
    """Sent, and nobody knows what became of it."""
    call = sent(run)
    assert call.claim is not None
    endings.end_call(call.pk, call.claim, CallFailed("The connection was lost.", may_have_run=True))
    return call_of(run)


async def never(*_: object) -> NoReturn:
    """For calls of tools that have no tasks, and ask nothing."""
    raise AssertionError("this tool has no tasks, and asks nothing")
