"""Runs that continue an answer: what they are given, and how their logs begin."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat import events as canonical
from chat.dialects.base import Parser, Reply
from chat.events import Cause
from chat.models import Run, User
from chat.result.asks import in_words
from chat.result.deferred_tools import has_deferred
from chat.result.settled import Kind, Outcome, Settled
from chat.runs.admission import Trigger, queue_run
from chat.wire.sse import Frame

# A note is one line of the transcript; the whole reply is in its details.
LABEL_LENGTH = 200

# The family and the phase of the step in the log that is such a note.
NOTE_OF_REPLY: tuple[str, Literal["note"]] = ("question", "note")


def read_inputs(run: Run) -> list[Settled]:
    return msgspec.convert(run.inputs, list[Settled])


def queue_follow_up(
    run: Run, inputs: Sequence[Settled], trigger: Trigger, *, requested_by: User | None
) -> Run:
    """Queues the next run of the same answer: `queue_run`."""
    follow_up = Run(
        conversation=run.conversation,
        message_id=run.message_id,
        position=run.position + 1,
        upstream_id=run.upstream_id,
        model=run.model,
        preset_version_id=run.preset_version_id,
        system_prompt=run.system_prompt,
        parameters=run.parameters,
        tools=run.tools,
        inputs=msgspec.to_builtins(list(inputs)),
        requested_by=requested_by,
        # No client sends this key; the position makes the run unique.
        idempotency_key=uuid.uuid4(),
    )
    return queue_run(follow_up, trigger)


def sources_of(run: Run) -> tuple[canonical.Citation, ...]:
    """The sources that the tools found since the last text of the answer, in their order."""
    every = {source.url: source for source in _sources_in(run.inputs)}
    rows = Run.objects.filter(message_id=run.message_id)
    for position in range(run.position - 1, -1, -1):
        # Inputs and results can be megabytes, so they are read one by one, and only back to the last text.
        before = rows.filter(position=position).values_list("inputs", "result").first()
        if before is None or _has_text(before[1]):
            break
        every = {source.url: source for source in _sources_in(before[0])} | every
    return tuple(every.values())


def _sources_in(inputs: object) -> list[canonical.Citation]:
    given = msgspec.convert(inputs, list[Settled])
    return [source for each in given for source in each.sources]


def _has_text(result: str) -> bool:
    output = canonical.decode_result(result).output
    return any(isinstance(item, canonical.MessageItem) and item.content.strip() for item in output)


def run_before(run: Run) -> Run | None:
    if run.position == 0:
        return None
    return Run.objects.filter(message_id=run.message_id, position=run.position - 1).first()


# --- the beginning of a log --------------------------------------------------------------


def opening(run: Run) -> list[canonical.Event]:
    """The first events of a run that continues an answer; empty for the first run of one. They say
    what the run before waited for and got, and are in the log before anything is sent."""
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
            defers_tools=has_deferred(run.tools),
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
            execution=settled.execution,
        )
    return canonical.ToolCallSuccess(
        item=item,
        tool=call.tool,
        arguments=call.arguments,
        output=settled.output,
        provider_info=call.provider_info,
        call_id=call.call_id,
        execution=settled.execution,
    )


def _note(result: canonical.Result, settled: Settled) -> canonical.Event:
    """A reply for people who read the answer: what was said, and by whom."""
    ask = result.ext.asks[settled.position] if settled.position < len(result.ext.asks) else {}
    family, phase = NOTE_OF_REPLY
    return canonical.ActivityStep(
        family=family,
        step=settled.outcome,
        phase=phase,
        label=note_label(ask, settled, by=settled.by),
        ref=str(ask.get("ask_id", "")) or None,
        detail={
            "question": ask.get("question"),
            "text": settled.text,
            "selected": list(settled.selected),
            "fields": settled.fields,
        },
    )


def note_label(ask: canonical.JsonObject, settled: Settled, *, by: str) -> str:
    """``by`` is the name of the person; empty if it is not known."""
    said = in_words(ask, text=settled.text, selected=settled.selected, fields=settled.fields)
    words = _VERBS[settled.kind, settled.outcome] % {"by": by or gettext("someone")}
    label = f"{words}: {said}" if said else words
    return label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…"


_VERBS: dict[tuple[Kind, Outcome], Promise] = {
    ("ask", "answered"): gettext_lazy("Answered by %(by)s"),
    ("ask", "declined"): gettext_lazy("%(by)s declined to answer"),
    ("ask", "not_run"): gettext_lazy("Continued without an answer"),
    ("approval", "answered"): gettext_lazy("Approved by %(by)s"),
    ("approval", "declined"): gettext_lazy("Declined by %(by)s"),
    ("approval", "not_run"): gettext_lazy("Continued without approval"),
}


# --- how the log of a continuing run begins, and how its stream joins it -------------------

_OUTCOMES = (canonical.ToolCallSuccess, canonical.ToolCallFailure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How the log of a continuing run begins: what an earlier attempt has committed, or else what
    is to be committed."""

    committed: tuple[canonical.Event, ...]
    opening: tuple[canonical.Event, ...]
    # Sources that the tools of the answer found, and that no text of it cites yet.
    sources: tuple[canonical.Citation, ...] = ()

    @property
    def item_count(self) -> int:
        """The number of items in the log before the upstream's first."""
        return sum(isinstance(event, _OUTCOMES) for event in (*self.committed, *self.opening))


class ContinuingParser(Parser):
    """A dialect's parser whose events continue a log.

    ``first_item`` is the number of the first item of the upstream's answer; further choices have
    nothing before them, and keep their numbers. The parser's own ``chat.start`` is left out, but a
    model other than ``model`` is reported. The first text cites the ``sources``.
    """

    def __init__(
        self,
        parser: Parser,
        *,
        first_item: int,
        model: str,
        sources: Sequence[canonical.Citation] = (),
    ) -> None:
        self._parser = parser
        self._first_item = first_item
        self._model = model
        self._sources = sources
        # The messages that have words.
        self._texts: set[int] = set()

    def feed(self, frame: Frame) -> list[canonical.Event]:
        return self._joined(self._parser.feed(frame))

    def feed_body(self, body: bytes) -> list[canonical.Event]:
        return self._joined(self._parser.feed_body(body))

    def wait_seconds(self) -> float:
        return self._parser.wait_seconds()

    def close(
        self, cause: Cause = "eof", *, error: canonical.ErrorInfo | None = None
    ) -> list[canonical.Event]:
        return self._joined(self._parser.close(cause, error=error))

    def _joined(self, events: list[canonical.Event]) -> list[canonical.Event]:
        self.is_done = self._parser.is_done
        self.ending = self._parser.ending
        joined = (self._join(event) for event in events)
        return [made for event in joined if event is not None for made in self._with_sources(event)]

    def _with_sources(self, event: canonical.Event) -> Iterator[canonical.Event]:
        if isinstance(event, canonical.MessageDelta) and event.choice == 0:
            if self._sources and not event.content.isspace():
                self._texts.add(event.item)
        elif isinstance(event, canonical.MessageEnd) and self._is_cited_in(event):
            for citation in self._sources:
                yield canonical.CitationAdd(item=event.item, citation=citation)
            self._sources = ()
        yield event

    def _is_cited_in(self, end: canonical.MessageEnd) -> bool:
        return end.choice == 0 and end.item in self._texts

    def _join(self, event: canonical.Event) -> canonical.Event | None:
        if isinstance(event, canonical.ChatStart):
            if event.model_instance_id in ("", self._model):
                return None
            return canonical.MetaUpdate(values={"model": event.model_instance_id})
        if isinstance(event, canonical.ItemEvent) and event.choice == 0:
            event.item += self._first_item
        elif isinstance(event, canonical.ReplayData) and event.choice == 0:
            event.item = None if event.item is None else event.item + self._first_item
        return event


# --- what was given, in the next prompt ---------------------------------------------------


def filled_output(result: canonical.Result, given: Iterable[Settled]) -> list[canonical.OutputItem]:
    """The output of a run with the calls that were answered since."""
    output: list[canonical.OutputItem] = list(result.output)
    for settled in given:
        call = output[settled.position] if settled.position < len(output) else None
        if settled.kind == "tool" and isinstance(call, canonical.ToolCallItem):
            output[settled.position] = msgspec.structs.replace(
                call, output=settled.output, status="failed" if settled.is_error else "done"
            )
    return output


def replies_in(result: canonical.Result, given: Iterable[Settled]) -> Iterator[Reply]:
    """The replies to a run's questions."""
    asks = result.ext.asks
    for settled in given:
        if settled.kind != "tool" and settled.position < len(asks):
            ask = asks[settled.position]
            yield Reply(
                ask_id=str(ask.get("ask_id", "")),
                call_id=ask.get("call_id"),
                style=ask.get("style"),
                text=settled.text,
                selected=settled.selected,
                fields=settled.fields,
                is_declined=settled.outcome != "answered",
            )
