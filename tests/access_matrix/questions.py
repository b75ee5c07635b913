"""Cases of questions of runs, calls of tools and the tools of a team."""

from __future__ import annotations

import uuid

from chat import events
from chat.models import (
    CallStatus,
    InputSource,
    Question,
    QuestionKind,
    Run,
    RunStatus,
    Tool,
    ToolCall,
    ToolCredentials,
    ToolInput,
    ToolKind,
    ToolRequest,
    ToolServer,
)
from chat.tools.definitions import call_digest
from tests.access_matrix.case import (
    Case,
    Thread,
    Values,
    World,
    executor_only,
    readers,
    shared_and_private,
    signed_in_only,
    team_managers,
    tool_server_managers,
    writers,
)
from tests.access_matrix.objects import _conversation, _team
from tests.access_matrix.tool_servers import TOOL_SERVER_CASES


def _waiting(run: Run) -> Question:
    """A run that continues the answer and waits for a reply to its question."""
    ask = {"ask_id": "a", "question": "Which one?"}
    ext = events.Extension(status="waiting", stop=events.Stop(reason="ask"), asks=[ask])
    result = events.Result(model_instance_id="m", output=[], stats=events.Stats(), ext=ext)
    waiting = Run.objects.create(
        conversation=run.conversation,
        message=run.message,
        position=1,
        upstream=run.upstream,
        model="demo/model",
        requested_by=run.requested_by,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.WAITING,
        result=events.encode(result).decode(),
    )
    return Question.objects.create(
        conversation=run.conversation, run=waiting, kind=QuestionKind.ASK, ask_id="a", body=ask
    )


def _open_question(thread: Thread) -> Values:
    return {"public_id": _waiting(thread.run).public_id}


def _waiting_run(thread: Thread) -> Values:
    return {"public_id": _waiting(thread.run).run.public_id}


def _call(thread: Thread) -> Values:
    """A call of a tool that waits for an approval."""
    question = _waiting(thread.run)
    Question.objects.filter(pk=question.pk).update(kind=QuestionKind.TOOL)
    tool = Tool.objects.create(team=thread.conversation.team, name="gauge", kind=ToolKind.HTTP)
    thread.conversation.tools.add(tool)
    ToolCall.objects.create(
        question=question,
        tool=tool,
        kind=tool.kind,
        status=CallStatus.APPROVAL,
        definition_digest=call_digest(tool),
    )
    return {"public_id": question.public_id}


def _call_that_may_have_run(thread: Thread) -> Values:
    values = _call(thread)
    ToolCall.objects.update(status=CallStatus.UNKNOWN)
    return values


def _call_that_asks(thread: Thread) -> Values:
    values = _call(thread)
    ToolCall.objects.update(status=CallStatus.INPUT, rounds=1)
    schema = {"type": "object"}
    ToolInput.objects.create(
        call=ToolCall.objects.get(), round=1, source=InputSource.RESULT, schema=schema
    )
    return values


def _input_of_call(world: World) -> Values:
    return {"input": ToolInput.objects.get().public_id, "action": "decline"}


def _own_call(thread: Thread) -> Values:
    """A call with the account of Alice."""
    values = _call(thread)
    team = thread.conversation.team
    server = ToolServer.objects.create(
        team=team, name="Own", address="http://127.0.0.1:9/mcp", credentials=ToolCredentials.PERSON
    )
    tool = Tool.objects.create(team=team, name="own", kind=ToolKind.MCP, server=server)
    ToolCall.objects.filter(question__public_id=values["public_id"]).update(
        tool=tool, is_personal=True, executor=thread.conversation.owner
    )
    return values


def _reply(world: World) -> Values:
    return {"text": "The upper one."}


def _tool(world: World) -> Values:
    return {"public_id": Tool.objects.create(team=world.team, name="gauge").public_id}


def _http_tool(world: World) -> Values:
    tool = Tool.objects.create(team=world.team, name="gauge", kind=ToolKind.HTTP)
    ToolRequest.objects.create(tool=tool, address="http://a.test/")
    return {"public_id": tool.public_id}


def _tool_fields(world: World) -> Values:
    return {"name": "gauge_2", "description": "", "schema": ""}


QUESTION_CASES = [
    *TOOL_SERVER_CASES,
    *shared_and_private("question_answer", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_refuse", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_claim", writers, 302, _open_question, "post", _reply),
    *shared_and_private("question_release", writers, 302, _open_question, "post", _reply),
    *shared_and_private("call_approve", writers, 302, _call, "post"),
    *shared_and_private("call_refuse", writers, 302, _call, "post"),
    *shared_and_private("call_connect", executor_only, 302, _own_call, "post"),
    *shared_and_private("call_run_again", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("call_result", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("call_go_on", writers, 302, _call_that_may_have_run, "post"),
    *shared_and_private("call_input", writers, 302, _call_that_asks, "post", _input_of_call),
    *shared_and_private("run_go_on", writers, 302, _waiting_run, "post"),
    *shared_and_private("conversation_tools", writers, 302, _conversation, "post"),
    *shared_and_private("tool_choice_forget", writers, 302, _conversation, "post"),
    *shared_and_private("presence_sign", readers, 204, _conversation, "post"),
    *shared_and_private("draft_save", readers, 204, _conversation, "post"),
    Case("draft_save_new", signed_in_only(204), method="post"),
    Case("tools", signed_in_only(200)),
    Case("tool_add", team_managers(200), "", _team),
    Case("tool_add", team_managers(302), "", _team, "post", _tool_fields),
    Case("tool_check", team_managers(200), "", _team, "post"),
    Case("tool", team_managers(200), "", _tool),
    Case("tool", team_managers(302), "", _tool, "post", _tool_fields),
    Case("tool", tool_server_managers(200), "", _http_tool),
    Case("tool", tool_server_managers(302), "", _http_tool, "post", _tool_fields),
    Case("tool_remove", team_managers(302), "", _tool, "post"),
]
