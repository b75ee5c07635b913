"""The run that goes on with an answer: what it is given, and how its log begins."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from chat import doorbell
from chat import events as canonical
from chat.models import Question, QuestionKind, QuestionStatus, Run, RunStatus, User
from chat.result.asks import in_words
from chat.result.merge import waiting_calls

REFUSED = "The person refused to run this call."
NOT_RUN = "This call was not run."
# A note is one line of the transcript; the whole reply is in its detail.
LABEL_LENGTH = 200

Kind = Literal["tool", "ask", "approval"]
Outcome = Literal["answered", "declined", "not_run"]


class Settled(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of ``Run.inputs``: what became of something that the run before waited for.

    ``position`` is that of a call in the run's output, and of a question in ``ext.asks``. The
    calls come first, each kind in its order. ``by`` is the name of whoever decided.
    """

    kind: Kind
    position: int
    outcome: Outcome
    by: str = ""
    # Of a call: what the model is told.
    output: str = ""
    is_error: bool = False
    # Of a question; of an approval ``text`` is the reason.
    text: str = ""
    selected: tuple[str, ...] = ()
    fields: dict[str, str] = {}


def read_inputs(run: Run) -> list[Settled]:
    return msgspec.convert(run.inputs, list[Settled])


def settle(result: canonical.Result, questions: Iterable[Question]) -> list[Settled]:
    """What a follow-up run is given: everything that the run waited for, each with its outcome.

    What has no row (it could not be written) counts as not run.
    """
    rows = {(row.kind, row.position): row for row in questions}
    calls = [
        _settled_call(position, rows.get((QuestionKind.TOOL, position)))
        for position, _ in waiting_calls(result)
    ]
    asks = [
        _settled_ask(position, kind_of(ask), rows.get((kind_of(ask), position)))
        for position, ask in enumerate(result.ext.asks)
    ]
    return [*calls, *asks]


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
    texts = {
        "answered": str(answer.get("output", "")),
        "declined": " ".join([REFUSED, str(answer.get("reason", ""))]).strip(),
        "not_run": NOT_RUN,
    }
    return Settled(
        kind="tool",
        position=position,
        outcome=outcome,
        by=_name_of(row),
        output=texts[outcome],
        is_error=outcome != "answered" or bool(answer.get("is_error")),
    )


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


def queue_follow_up(run: Run, inputs: Sequence[Settled], *, requested_by: User | None) -> Run:
    """The next run of the same answer, in line like any other.

    Call inside the transaction of what it follows from. A second one for the same run collides
    on its position: ``IntegrityError``.
    """
    follow_up = Run.objects.create(
        conversation_id=run.conversation_id,
        message_id=run.message_id,
        position=run.position + 1,
        upstream_id=run.upstream_id,
        model=run.model,
        system_prompt=run.system_prompt,
        parameters=run.parameters,
        tools=run.tools,
        inputs=msgspec.to_builtins(list(inputs)),
        requested_by=requested_by,
        # Nobody sends this key: the position is what makes the run one of its kind.
        idempotency_key=uuid.uuid4(),
        status=RunStatus.QUEUED,
    )
    doorbell.ring_after_commit(doorbell.QUEUED)
    doorbell.ring_after_commit(doorbell.room_topic(run.conversation.public_id))
    return follow_up


def run_before(run: Run) -> Run | None:
    """The run that this one follows in its answer."""
    if run.position == 0:
        return None
    return Run.objects.filter(message_id=run.message_id, position=run.position - 1).first()


# --- the beginning of a log --------------------------------------------------------------


def opening(run: Run) -> list[canonical.Event]:
    """The first events of a run that goes on with an answer; none for the first run of one.

    They say what the run before waited for and got, and stand in the log before anything is sent.
    """
    before = run_before(run)
    if before is None:
        return []
    result = canonical.decode_result(before.result)
    inputs = read_inputs(run)
    upstream = run.upstream
    return [
        canonical.ChatStart(
            model_instance_id=result.model_instance_id or run.model,
            dialect=upstream.dialect if upstream else "",
            endpoint=upstream.name if upstream else "",
            requested_model=run.model,
        ),
        *_outcomes(result, inputs),
        *(_note(result, settled) for settled in inputs if settled.kind != "tool"),
    ]


def _outcomes(result: canonical.Result, inputs: Iterable[Settled]) -> list[canonical.Event]:
    calls = [
        (settled, call)
        for settled in inputs
        if settled.kind == "tool" and (call := _call_at(result, settled.position)) is not None
    ]
    return [_outcome(item, settled, call) for item, (settled, call) in enumerate(calls)]


def _call_at(result: canonical.Result, position: int) -> canonical.ToolCallItem | None:
    item = result.output[position] if position < len(result.output) else None
    return item if isinstance(item, canonical.ToolCallItem) else None


def _outcome(item: int, settled: Settled, call: canonical.ToolCallItem) -> canonical.Event:
    if settled.is_error:
        return canonical.ToolCallFailure(
            item=item,
            reason=settled.output,
            metadata=canonical.FailureMetadata(
                type="execution_failed",
                tool_name=call.tool,
                arguments=call.arguments,
                provider_info=call.provider_info,
            ),
            call_id=call.call_id,
            arguments_raw=call.arguments_raw,
        )
    return canonical.ToolCallSuccess(
        item=item,
        tool=call.tool,
        arguments=call.arguments,
        output=settled.output,
        provider_info=call.provider_info,
        call_id=call.call_id,
    )


def _note(result: canonical.Result, settled: Settled) -> canonical.Event:
    """A reply, for whoever reads the answer: what was said, and by whom."""
    ask = result.ext.asks[settled.position] if settled.position < len(result.ext.asks) else {}
    said = in_words(ask, text=settled.text, selected=settled.selected, fields=settled.fields)
    words = _VERBS[settled.kind, settled.outcome].format(by=settled.by or "somebody")
    label = f"{words}: {said}" if said else words
    return canonical.ActivityStep(
        family="question",
        step=settled.outcome,
        phase="note",
        label=label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…",
        ref=str(ask.get("ask_id", "")) or None,
        detail={
            "question": ask.get("question"),
            "text": settled.text,
            "selected": list(settled.selected),
            "fields": settled.fields,
        },
    )


_VERBS: dict[tuple[Kind, Outcome], str] = {
    ("ask", "answered"): "Answered by {by}",
    ("ask", "declined"): "{by} declined to answer",
    ("ask", "not_run"): "Went on without an answer",
    ("approval", "answered"): "Approved by {by}",
    ("approval", "declined"): "Declined by {by}",
    ("approval", "not_run"): "Went on without an approval",
}
