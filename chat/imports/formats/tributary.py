"""Tributary's own JSON export (`chat.exports.format`), which is restored completely.

The file may come from anybody. A conversation that does not follow the format, or refers to
something outside the file, is unreadable. Data for the next request and unfinished work are not
restored: a run in progress is ended, an open claim is released, and nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from uuid import UUID

import msgspec
from msgspec import Struct

from chat import events
from chat.artifacts.paths import path_problem
from chat.dialects.base import ToolDefinition
from chat.dialects.reading import repair_text
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop
from chat.exports import format as form
from chat.imports.conversations import Unreadable
from chat.imports.formats.tributary_files import read_contents
from chat.imports.limits import current
from chat.imports.reading import id_in, objects_in, text_in
from chat.imports.tree import MOST_MESSAGES
from chat.imports.words import gettext
from chat.result import Fold, close_open
from chat.result.settled import Settled

LABEL = "Tributary"

# Turns, runs, questions, attempts, versions and files, each a row.
MOST_RECORDS = 200_000
# Events of one run. The log of an answer of 64 MB in tiny pieces has about as many.
MOST_EVENTS = 1_000_000
# No log nests deeper than `chat.dialects.reading.MAX_DEPTH`, in a result in an event of a run.
MOST_LEVELS = 80

# The states of a run that has not ended (`chat.models.run.LIVE_STATUSES`, which needs a database).
_LIVE_STATUSES = ("queued", "running")
# Stored in English, and translated when it is shown.
NOT_IN_EXPORT = gettext_noop("The imported export doesn’t contain this file.")
_TWICE = gettext_noop("An ID or a number occurs twice.")
_MISSING = gettext_noop("Something refers to a record that the file doesn’t contain before it.")
_SIDES = gettext_noop("An answer needs a run, and a message has none.")
_LOG = gettext_noop("The events of an answer aren’t a log: %(reason)s.")


class Reply(Struct):
    """The members of an answer to a question."""

    text: str = ""
    selected: list[str] = []
    fields: dict[str, str] = {}
    is_approved: bool = False
    reason: str = ""
    output: str = ""
    is_error: bool = False


# The subject of a question: a call of the result, or the members of an event.
_BODIES: dict[str, Json] = {
    "tool": events.ToolCallItem,
    "ask": events.AskQuestion,
    "approval": events.AskQuestion,
}
_TAGS = {
    "tool": {"type": "tool_call"},
    "ask": {"type": "ask.question"},
    "approval": {"type": "ask.question"},
}


class _Version(Struct):
    """The versions of an artifact or a mockup in an answer."""

    versions: list[JsonObject] = []


class Log(Struct, frozen=True, kw_only=True):
    """``entries`` end with ``chat.end``, or are empty because the log is no longer stored. With
    ``is_ended_here`` the run was in progress when it was exported."""

    entries: list[events.Event]
    result: events.Result
    is_ended_here: bool = False


class Exported(Struct, frozen=True, kw_only=True):
    """A conversation to be restored. The document's references are checked; ``logs`` has the log of
    each run by its id, ``contents`` the bytes of files by their digests."""

    source_id: str
    title: str
    digest: str
    document: form.Export
    logs: dict[UUID, Log]
    contents: dict[str, bytes]
    left_out: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def turns(self) -> list[form.Turn]:
        return self.document.turns


def recognizes(value: JsonObject) -> bool:
    return value.get("format") == form.NAME


def name_of(value: JsonObject) -> tuple[str, str]:
    room = value.get("conversation")
    return id_in(room, "id"), text_in(room, "title")


def read(value: JsonObject, member: Callable[[str], str]) -> Exported:
    version = value.get("version")
    if version != form.VERSION or isinstance(version, bool):
        words = gettext(
            "The file has version %(version)s of the format; this installation reads version %(known)s."
        )
        raise Unreadable(words % {"version": str(version)[:20], "known": form.VERSION})
    if len(objects_in(value, "turns")) > MOST_MESSAGES:
        raise Unreadable(gettext("More than %(count)s messages.") % {"count": f"{MOST_MESSAGES:,}"})
    document = _document(value)
    _check_count(document)
    _check_turns(document)
    _check_runs(document)
    _check_versions(document)
    logs = {run.id: _log(run) for run in _runs(document)}
    contents, left_out = read_contents(document)
    _settle(document)
    return Exported(
        source_id=str(document.conversation.id),
        title=document.conversation.title,
        digest=_digest(document),
        document=document,
        logs=logs,
        contents=contents,
        left_out=tuple(left_out),
    )


def _document(value: JsonObject) -> form.Export:
    try:
        return msgspec.convert(_tidy(value, 0), form.Export)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        words = gettext("The file doesn’t follow the format: %(reason)s.")
        raise Unreadable(words % {"reason": repair_text(str(error))[:300]}) from None


def _tidy(value: Json, level: int) -> Json:
    """The value with texts that databases accept. Raises ``Unreadable`` for values that are nested
    too deeply, and for numbers that no column takes."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        if value.bit_length() > 256:
            raise Unreadable(gettext("A number is too large."))
        return value
    if level > MOST_LEVELS:
        raise Unreadable(gettext("The JSON is nested too deeply."))
    if isinstance(value, dict):
        return {repair_text(key): _tidy(each, level + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_tidy(each, level + 1) for each in value]
    return value


def _digest(document: form.Export) -> str:
    turns = [
        [turn.id, turn.parent, turn.text, [[run.id, run.status] for run in turn.runs]]
        for turn in document.turns
    ]
    return hashlib.sha256(msgspec.json.encode([document.conversation.title, turns])).hexdigest()


# --- references
# -------------------------------------------------------------------------------------


def _runs(document: form.Export) -> Iterator[form.Run]:
    return (run for turn in document.turns for run in turn.runs)


def _check_count(document: form.Export) -> None:
    count = len(document.turns) + len(document.files)
    count += sum(
        1 + len(run.attempts) + len(run.questions) + len(run.files) for run in _runs(document)
    )
    count += sum(1 + len(artifact.versions) for artifact in document.artifacts)
    for mockup in document.mockups:
        for version in mockup.versions:
            count += 1 + len(version.files)
            _require(
                len(version.files) <= current().mockup_files,
                gettext("A mockup has too many files."),
            )
    _require(count <= MOST_RECORDS, gettext("The conversation has too many records."))


def _check_turns(document: form.Export) -> None:
    """Parents come first, so there is no cycle. Questions below questions and answers below answers
    are allowed: imports from other products have them."""
    known: set[UUID] = set()
    for turn in document.turns:
        _require(turn.id not in known, _TWICE)
        _require(turn.parent is None or turn.parent in known, _MISSING)
        _require((turn.role == "assistant") == bool(turn.runs), _SIDES)
        known.add(turn.id)
    shown = document.conversation.visible_turn
    _require(shown is None or shown in known, _MISSING)


def _check_runs(document: form.Export) -> None:
    files = _distinct(file.id for file in document.files)
    _distinct(run.id for run in _runs(document))
    for turn in document.turns:
        _require(files.issuperset(turn.attachments), _MISSING)
        _require(set(turn.attachments).issuperset(each.file for each in turn.documents), _MISSING)
        for run in turn.runs:
            _require(files.issuperset(each.file for each in run.files), _MISSING)
            _distinct((each.choice, each.item, each.position) for each in run.files)
            _distinct(each.number for each in run.attempts)
            _distinct((each.kind, each.ask_id) for each in run.questions)


def _check_versions(document: form.Export) -> None:
    runs = {run.id for run in _runs(document)}
    files = {file.id for file in document.files}
    _distinct(artifact.artifact_id for artifact in document.artifacts)
    _distinct(mockup.bundle_id for mockup in document.mockups)
    made: list[Sequence[form.ArtifactVersion | form.MockupVersion]] = [
        *(artifact.versions for artifact in document.artifacts),
        *(mockup.versions for mockup in document.mockups),
    ]
    for versions in made:
        _distinct(version.number for version in versions)
        _distinct((version.run, version.seq) for version in versions)
        _require(runs.issuperset(version.run for version in versions), _MISSING)
    for version in (version for mockup in document.mockups for version in mockup.versions):
        _distinct(file.path for file in version.files)
        _require(files.issuperset(file.file for file in version.files if file.file), _MISSING)


def _distinct(keys: Iterable[Hashable]) -> set[Hashable]:
    listed = list(keys)
    found = set(listed)
    _require(len(found) == len(listed), _TWICE)
    return found


def _require(is_fine: bool, reason: str) -> None:
    """``reason`` may be one of the constants above, which are not translated yet."""
    if not is_fine:
        raise Unreadable(gettext(reason))


# --- logs -------------------------------------------------------------------------------------------


def _log(run: form.Run) -> Log:
    """The log of a run, ended if it is not. The events are removed from the document to be held
    only once."""
    _require(len(run.events) <= MOST_EVENTS, _log_problem(gettext("too many events")))
    found = [_event(number, data) for number, data in enumerate(run.events, start=1)]
    run.events = []
    if not found and run.result is not None and run.status not in _LIVE_STATUSES:
        return Log(entries=[], result=_public(_converted(run.result, events.Result)))
    ends = [event for event in found if isinstance(event, events.ChatEnd)]
    if ends:
        _require(ends[0] is found[-1], _log_problem(gettext("events after the end")))
        is_ended_here = run.status in _LIVE_STATUSES
        return Log(entries=found, result=ends[0].result, is_ended_here=is_ended_here)
    return _ended(run, found)


def _log_problem(reason: str) -> str:
    return gettext(_LOG) % {"reason": reason}


def _event(number: int, data: JsonObject) -> events.Event:
    """A typed event; an unknown type is read as the log itself reads it."""
    _require(data.get("seq") == number, _log_problem(gettext("seq isn’t the next number")))
    kind = data.get("type")
    if isinstance(kind, str) and kind not in events.EVENT_TYPES:
        return events.VendorRaw(seq=number, dialect="tributary", event=kind[:100], data=data)
    event: events.Event = _converted(data, events.Event)
    if isinstance(event, events.ReplayData):
        event.data = None
    elif isinstance(event, events.ChatEnd):
        event.result = _public(event.result)
    return event


def _converted(data: JsonObject, kind: Json) -> Json:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise Unreadable(_log_problem(str(error)[:300])) from None


def _public(result: events.Result) -> events.Result:
    """The result without data for another installation's next request. Raises ``Unreadable`` if
    members that are events don't have the form of events."""
    ext = msgspec.structs.replace(result.ext, native=None)
    for ask in ext.asks:
        _converted(ask | _TAGS["ask"], events.AskQuestion)
    for step in ext.activity:
        _converted(step | {"type": "activity.step"}, events.ActivityStep)
    for made in (*ext.artifacts, *ext.mockups):
        _converted(made, _Version)
    return msgspec.structs.replace(result, ext=ext)


def _ended(run: form.Run, found: list[events.Event]) -> Log:
    fold = Fold()
    fold.extend(found)
    closing = close_open(fold, "interrupted", model=run.model)
    for seq, event in enumerate(closing, start=len(found) + 1):
        event.seq = seq
    end = closing[-1]
    assert isinstance(end, events.ChatEnd)
    return Log(entries=[*found, *closing], result=end.result, is_ended_here=True)


# --- unfinished work
# --------------------------------------------------------------------------------


def _settle(document: form.Export) -> None:
    """Questions and results of tools in the form that the pages and the next run expect."""
    for turn in document.turns:
        for place, run in enumerate(turn.runs):
            inputs = _typed(run.inputs, list[Settled])
            _typed(run.tools, list[ToolDefinition])
            if place:
                _give_back(turn.runs[place - 1], inputs)
            for question in run.questions:
                _typed(question.body | _TAGS[question.kind], _BODIES[question.kind])
                _typed(question.answer, Reply)
                known = [name for name in Reply.__struct_fields__ if name in question.answer]
                question.answer = {name: question.answer[name] for name in known}
                if question.status == "claimed":
                    question.status, question.claimed_by, question.claimed_at = "open", None, None
    for mockup in document.mockups:
        for version in mockup.versions:
            for file in version.files:
                _refuse_missing(file)


def _typed(value: Json, kind: Json) -> Json:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        words = gettext("The file doesn’t follow the format: %(reason)s.")
        raise Unreadable(words % {"reason": str(error)[:300]}) from None


def _give_back(run: form.Run, inputs: list[Settled]) -> None:
    """Restores the results of tools, which the export has as inputs of the next run."""
    outputs = {
        given.position: given.output
        for given in inputs
        if given.kind == "tool" and given.outcome == "answered"
    }
    for question in run.questions:
        if question.kind == "tool" and question.position in outputs:
            question.answer["output"] = outputs[question.position]


def _refuse_missing(file: form.MockupFile) -> None:
    """A file without bytes is never downloaded: the server that had it is another installation's."""
    problem = path_problem(file.path)
    if problem:
        file.status, file.file, file.reason = "refused", None, problem
    elif file.file is None:
        if file.status != "refused":
            file.reason = NOT_IN_EXPORT
        file.status = "refused"
    else:
        file.status = "stored"
