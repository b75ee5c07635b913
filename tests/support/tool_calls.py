"""Calls that Tributary runs, in any state, as rows."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from chat import events
from chat.models import (
    CallStatus,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    Team,
    Tool,
    ToolCall,
    ToolKind,
    ToolRequest,
)
from chat.runs.outcomes import write_ending

# The status of the question whose call has this one.
OF_QUESTION: dict[str, str] = {
    CallStatus.APPROVAL: QuestionStatus.OPEN,
    CallStatus.UNKNOWN: QuestionStatus.OPEN,
    CallStatus.QUEUED: QuestionStatus.RUNNING,
    CallStatus.RUNNING: QuestionStatus.RUNNING,
    CallStatus.INPUT: QuestionStatus.OPEN,
    CallStatus.DONE: QuestionStatus.ANSWERED,
    CallStatus.FAILED: QuestionStatus.ANSWERED,
    CallStatus.REFUSED: QuestionStatus.DECLINED,
}


def http_tool(team: Team, name: str = "book_room", **values: object) -> Tool:
    tool = Tool.objects.create(
        team=team, name=name, description="Books a room", kind=ToolKind.HTTP, **values
    )
    request = ToolRequest(
        tool=tool, method="POST", address="https://office.example/rooms/{room}/bookings"
    )
    request.set_headers({"Authorization": "Bearer s3cret-of-the-team"})
    request.save()
    return tool


def end_waiting(run: Run, *calls: events.ToolCallItem) -> list[Question]:
    """Ends the run as one that waits for the results of these calls."""
    ext = events.Extension(status="waiting", stop=events.Stop(reason="tool_use"))
    result = events.Result(model_instance_id="m", output=list(calls), stats=events.Stats(), ext=ext)
    log: list[events.Event] = [
        events.ChatStart(model_instance_id="m"),
        *(
            events.ToolCallArguments(item=i, tool=call.tool, arguments=call.arguments)
            for i, call in enumerate(calls)
        ),
        events.ChatEnd(result=result),
    ]
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status=RunStatus.WAITING)
        write_ending(run, log, after=0)
    run.refresh_from_db()
    return list(run.questions.select_related("conversation", "run__upstream"))


def item(tool: str = "book_room", **arguments: object) -> events.ToolCallItem:
    return events.ToolCallItem(
        tool=tool,
        arguments=arguments or {"room": "Elbe", "hours": 2},
        call_id=f"call-{uuid.uuid4().hex}",
        status="pending",
        provider_info=events.ProviderInfo(type="function"),
    )


def put_call(question: Question, tool: Tool, status: str, **values: object) -> ToolCall:
    """The call of the question, and the question, in this state."""
    Question.objects.filter(pk=question.pk).update(status=OF_QUESTION[status])
    call, _ = ToolCall.objects.update_or_create(
        question=question,
        defaults={
            "tool": tool,
            "status": status,
            "kind": tool.kind,
            "rule": tool.rule,
            "arguments": question.body.get("arguments") or {},
            "queued_at": timezone.now(),
            **values,
        },
    )
    question.refresh_from_db()
    return call
