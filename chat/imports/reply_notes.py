"""Notes about replies ("Answered by Bob: Yes") in the log of an imported run: names of other people are
marked like those of authors, in the log and in the result."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from django.utils.translation import gettext

from chat import events
from chat.exports import format as form
from chat.imports.formats.tributary import Log
from chat.models.conversation import name_of
from chat.result.settled import Settled
from chat.runs.resume import NOTE_OF_REPLY, note_label


def mark_names(
    log: Log,
    run: form.Run,
    *,
    before: form.Run,
    asked: Log,
    is_own: Callable[[form.Person | None], bool],
) -> None:
    """Marks the names. ``before`` is the run that asked, with the log ``asked``. Notes about
    replies of the importing user (``is_own``) stay unchanged."""
    own = {each.ask_id for each in before.questions if is_own(each.answered_by)}
    labels = _labels(run, asked.result.ext.asks)

    def label_for(ref: str, label: str) -> str:
        return label if ref in own else labels.get(ref) or _marked(label)

    for event in log.entries:
        if isinstance(event, events.ActivityStep) and (event.family, event.phase) == NOTE_OF_REPLY:
            event.label = label_for(event.ref or "", event.label)
        elif isinstance(event, events.ToolCallSuccess | events.ToolCallFailure):
            _mark_people(event.execution)
    for item in log.result.output:
        if isinstance(item, events.ToolCallItem):
            _mark_people(item.execution)
    for step in log.result.ext.activity:
        if (step.get("family"), step.get("phase")) == NOTE_OF_REPLY:
            step["label"] = label_for(str(step.get("ref") or ""), str(step.get("label", "")))


def _mark_people(execution: events.ToolExecution | None) -> None:
    if execution is not None and execution.approved_by:
        execution.approved_by = name_of(None, execution.approved_by)
    for each in execution.inputs if execution is not None else ():
        each.answered_by = name_of(None, each.answered_by) if each.answered_by else ""


def _labels(run: form.Run, asks: list[events.JsonObject]) -> dict[str, str]:
    """The texts of the notes, by the id of their question."""
    found = {}
    for settled in msgspec.convert(run.inputs, list[Settled]):
        if settled.kind != "tool" and settled.position < len(asks):
            ask = asks[settled.position]
            by = name_of(None, settled.by) if settled.by else ""
            found[str(ask.get("ask_id", ""))] = note_label(ask, settled, by=by)
    return found


def _marked(label: str) -> str:
    """The marked note of a question that the file doesn't have, and that may name anybody."""
    mark = gettext("%(name)s (imported)")
    is_marked = label.endswith(mark % {"name": ""})
    return label if is_marked else mark % {"name": label}
