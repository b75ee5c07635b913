"""The questions and tool calls that a run waits for, and what their answers pass to the next
run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from django.db.models import Prefetch, prefetch_related_objects

from chat import events as canonical
from chat.events import Citation, JsonObject, Result, ToolCallItem, ToolExecution
from chat.models import (
    InputStatus,
    Question,
    QuestionKind,
    QuestionStatus,
    Run,
    RunStatus,
    ToolCall,
    ToolInput,
)
from chat.result.deferred_tools import called, has_deferred
from chat.result.merge import waiting_calls
from chat.result.settled import Kind, Outcome, Settled
from chat.runs.outcomes import OutcomeStep, show_change

# The model reads these, so they are not translated.
REFUSED = "The user declined to run this tool call."
NOT_RUN = "This tool call was not run."
# With the reason: of a rule that forbids it, or of its end before a result.
NOT_RUN_BECAUSE = "This tool call has no result. %s"


def settle(result: canonical.Result, questions: Iterable[Question]) -> list[Settled]:
    """The inputs of a follow-up run: everything that the run waited for, with its outcome. A call
    without a row (it could not be stored) counts as not run."""
    rows = {(row.kind, row.position): row for row in questions}
    _read_inputs(rows.values())
    calls = [
        _settled_call(position, rows.get((QuestionKind.TOOL, position)))
        for position, _ in waiting_calls(result)
    ]
    asks = [
        _settled_ask(position, kind_of(ask), rows.get((kind_of(ask), position)))
        for position, ask in enumerate(result.ext.asks)
    ]
    return [*calls, *asks]


def _read_inputs(questions: Iterable[Question]) -> None:
    """Reads the requests of all calls: one query, and none if nothing was asked."""
    calls: list[ToolCall | None] = [getattr(row, "tool_call", None) for row in questions]
    asking = [call for call in calls if call is not None and call.rounds]
    inputs = ToolInput.objects.select_related("answered_by")
    prefetch_related_objects(asking, Prefetch("inputs", queryset=inputs))


def kind_of(ask: canonical.JsonObject) -> Literal["ask", "approval"]:
    return "approval" if ask.get("style") == "approval" else "ask"


_OUTCOMES: dict[str, Outcome] = {
    QuestionStatus.ANSWERED: "answered",
    QuestionStatus.DECLINED: "declined",
}


def _outcome_of(row: Question | None) -> Outcome:
    return _OUTCOMES.get(row.status, "not_run") if row else "not_run"


def _name_of(row: Question | None) -> str:
    return str(row.answered_by) if row and row.answered_by else ""


def _settled_call(position: int, row: Question | None) -> Settled:
    outcome = _outcome_of(row)
    answer = row.answer if row else {}
    execution = _execution_of(row) if row else None
    reason = str(answer.get("reason", ""))
    has_decider = row is not None and row.answered_by_id is not None
    texts = {
        "answered": str(answer.get("output", "")),
        "declined": f"{REFUSED} {reason}".strip() if has_decider else NOT_RUN_BECAUSE % reason,
        "not_run": NOT_RUN_BECAUSE % reason if reason else NOT_RUN,
    }
    return Settled(
        kind="tool",
        position=position,
        outcome=outcome,
        by=_name_of(row),
        output=texts[outcome],
        is_error=outcome != "answered" or bool(answer.get("is_error")),
        execution=execution,
        # Only our own executors write them.
        sources=_sources_of(answer) if execution and outcome == "answered" else (),
    )


def _sources_of(answer: JsonObject) -> tuple[Citation, ...]:
    return msgspec.convert(answer.get("sources", ()), tuple[Citation, ...])


def _execution_of(row: Question) -> ToolExecution | None:
    """How Tributary ran the call; none if it was not sent, or a person gave the result."""
    # Most questions have no call.
    call: ToolCall | None = getattr(row, "tool_call", None)
    if call is None or call.sent_at is None or row.answered_by_id is not None:
        return None
    asked = row.body.get("arguments")
    return ToolExecution(
        executor=call.kind,
        server=call.server_name,
        credential=str(call.executor) if call.executor else "",
        rule=call.rule,
        approved_by=str(call.approved_by) if call.approved_by else "",
        approved_at=_iso(call.approved_at),
        arguments=call.arguments if call.arguments != asked else None,
        started_at=_iso(call.sent_at),
        ended_at=_iso(call.finished_at),
        request_bytes=call.request_bytes,
        response_bytes=call.response_bytes,
        attempt=call.attempt,
        inputs=_inputs_of(call) if call.rounds and not call.has_private_result else [],
    )


def _inputs_of(call: ToolCall) -> list[canonical.ToolInput]:
    return [
        canonical.ToolInput(
            message=row.message,
            url=row.url,
            status=row.status,
            content=row.content if row.status == InputStatus.ACCEPTED and not row.url else None,
            answered_by=str(row.answered_by) if row.answered_by else "",
            answered_at=_iso(row.answered_at),
        )
        for row in call.inputs.all()
    ]


def _iso(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds") if moment else ""


def _settled_ask(position: int, kind: Kind, row: Question | None) -> Settled:
    answer = row.answer if row else {}
    return Settled(
        kind=kind,
        position=position,
        outcome=_outcome_of(row),
        by=_name_of(row),
        text=str(answer.get("text") or answer.get("reason") or ""),
        selected=tuple(answer.get("selected", ())),
        fields=dict(answer.get("fields", {})),
    )


ASK_ID_LENGTH = 200
# Questions stored for one answer. A hostile answer could contain hundreds of thousands; the rest
# counts as not run.
MOST_QUESTIONS = 100


def ask_people(run: Run, result: Result, prepared: object = None) -> None:
    """Creates a row for everything that the run waits for."""
    if run.status != RunStatus.WAITING:
        return
    is_deferred = has_deferred(run.tools)
    calls = [
        _question(
            run, QuestionKind.TOOL, position, call.call_id, _body_of(call, is_deferred=is_deferred)
        )
        for position, call in waiting_calls(result)
    ]
    asks = [
        _question(run, kind_of(ask), position, ask.get("ask_id"), ask)
        for position, ask in enumerate(result.ext.asks)
    ]
    if calls or asks:
        Question.objects.bulk_create(_with_own_ids([*calls, *asks][:MOST_QUESTIONS]))
        show_change(run)


def _body_of(call: ToolCallItem, *, is_deferred: bool) -> JsonObject:
    """The call. One of ``call_tool`` is about the tool that it names."""
    body: JsonObject = msgspec.to_builtins(call)
    found = called(call.tool, call.arguments) if is_deferred else None
    if found is not None:
        body["tool"], body["arguments"] = found
        body.pop("arguments_raw", None)
    return body


def _question(run: Run, kind: str, position: int, ask_id: object, body: JsonObject) -> Question:
    return Question(
        conversation_id=run.conversation_id,
        run=run,
        position=position,
        kind=kind,
        ask_id=str(ask_id or ""),
        body=body,
    )


def _with_own_ids(questions: list[Question]) -> list[Question]:
    """Replaces ids that servers leave out, repeat, or make longer than the column by ids with the
    position."""
    taken: set[tuple[str, str]] = set()
    for question in questions:
        identity = question.ask_id
        is_usable = identity and len(identity) <= ASK_ID_LENGTH
        if not is_usable or (question.kind, identity) in taken:
            question.ask_id = f"{identity[: ASK_ID_LENGTH - 20]}#{question.position}"
        taken.add((question.kind, question.ask_id))
    return questions


ASK_PEOPLE = OutcomeStep(
    name="questions",
    applies=lambda result, prepared: result.ext.status == RunStatus.WAITING,
    store=ask_people,
)
