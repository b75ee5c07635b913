"""Runs that wait for a person: made through a fake upstream, or written as at a run's end."""

from __future__ import annotations

import uuid

from django.db.models import QuerySet

from chat import events as canonical
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.models import Conversation, Message, Question, Run, RunStatus, Upstream, User
from chat.result.merge import merge
from chat.runs.outcomes import write_ending
from tests.support.upstream.script import Script, chunk, openai_chunks, openai_run, stream

FUNCTION = canonical.ProviderInfo(type="function")


# --- on the wire ---------------------------------------------------------------------------


def wire_call(index: int, call_id: str, tool: str, arguments: str) -> dict[str, object]:
    function = {"name": tool, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, object], text: str = "") -> Script:
    """A stream of chat completions that ends with these calls open."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return stream(
        openai_chunks(
            [
                chunk({"role": "assistant", "content": text or None}),
                *(chunk({"tool_calls": [call]}) for call in calls),
                chunk({}, finish_reason="tool_calls"),
                chunk(usage=usage),
            ]
        )
    )


def saying(*pieces: str) -> Script:
    return stream(openai_chunks(openai_run(*pieces)))


WEATHER = wire_call(0, "c1", "weather", '{"city": "Oslo"}')
TIDES = wire_call(1, "c2", "tides", '{"port": "Bergen"}')


# --- in the records --------------------------------------------------------------------------


def call(call_id: str | None, tool: str = "weather", **arguments: object) -> canonical.ToolCallItem:
    return canonical.ToolCallItem(
        tool=tool, arguments=arguments, call_id=call_id, status="pending", provider_info=FUNCTION
    )


def ask(ask_id: str = "a1", **members: object) -> dict[str, object]:
    return {"ask_id": ask_id, "question": "Which one?", **members}


def asking(user: User, conversation: Conversation, upstream: Upstream) -> Run:
    """A queued run."""
    return message_actions.send_message(
        user,
        conversation,
        parent=None,
        text="How is the weather?",
        choice=ModelChoice(upstream=upstream, model="test/model"),
        idempotency_key=uuid.uuid4(),
    )


def result_of(
    *output: canonical.OutputItem,
    asks: tuple[dict[str, object], ...] = (),
    status: canonical.Status = "waiting",
    reason: canonical.StopReason = "tool_use",
) -> canonical.Result:
    return canonical.Result(
        model_instance_id="test/model",
        output=list(output),
        stats=canonical.Stats(),
        ext=canonical.Extension(status=status, stop=canonical.Stop(reason=reason), asks=list(asks)),
    )


def ended(run: Run, result: canonical.Result) -> Run:
    """Ends the run with this result, as its execution does."""
    Run.objects.filter(pk=run.pk).update(status=RunStatus.INTERRUPTED)
    start = canonical.ChatStart(model_instance_id="test/model")
    write_ending(run, [start, canonical.ChatEnd(result=result)], after=0)
    return Run.objects.select_related("conversation", "upstream").get(pk=run.pk)


def runs_of(message: Message) -> list[Run]:
    return list(Run.objects.filter(message=message).order_by("position"))


def whole(run: Run) -> canonical.Result:
    """All runs of the answer as one result."""
    return merge([canonical.decode_result(one.result) for one in runs_of(run.message)])


def questions_of(run: Run) -> QuerySet[Question]:
    return Question.objects.select_related("run__upstream", "conversation").filter(run=run)


def question_of(run: Run, **fields: object) -> Question:
    return questions_of(run).get(**fields)
