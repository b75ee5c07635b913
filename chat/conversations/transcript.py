"""The visible part of a conversation, read with a bounded number of queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.utils.translation import gettext

from chat.conversations.change_lines import MOST_SINGLE, ChangeLine
from chat.conversations.context_start import ContextOfPath
from chat.conversations.measures import Measures, measure
from chat.conversations.page_parts import PageCard, cards_of, feedback_on
from chat.conversations.paths import Path
from chat.core.prepared import Prepared
from chat.live.snapshot import RenderedAnswer, render_answers
from chat.models import (
    OPEN_STATUSES,
    UNSETTLED_STATUSES,
    AccessReason,
    CallStatus,
    Comparison,
    Message,
    Role,
    Run,
    RunStatus,
    User,
)
from chat.models.conversation import name_of
from chat.models.imports import name_imported
from chat.models.run import model_label
from chat.models.tree import Place, path_to
from chat.rendering.components import name_of as name_in_line
from chat.rendering.tool_calls import NAMED_TOOLS
from chat.runs.outcomes import SERVER_IS_GONE, TOO_MANY_PAUSES
from chat.runs.tool_calls import NEEDS_SCOPE, with_account

# Turns of a new page; earlier ones are loaded when the reader scrolls up.
PAGE_TURNS = 20
# A page that is opened at a turn shows all from there to the end, if they are not more.
MOST_TURNS = 100
TURNS_ABOVE = 2
FAILED_STATUSES = (RunStatus.FAILED, RunStatus.CUT, RunStatus.INTERRUPTED)
_TONES = {RunStatus.COMPLETED: "good", RunStatus.WAITING: "wait"} | dict.fromkeys(
    FAILED_STATUSES, "bad"
)
PAUSES = (TOO_MANY_PAUSES, SERVER_IS_GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """One run of an answer with its questions. ``answer`` is ``None`` if the page already shows it; ``is_last``
    means that no other run continues it."""

    run: Run
    answer: RenderedAnswer | None = None
    asked: tuple[PageCard, ...] = ()
    is_last: bool = False

    @property
    def model_label(self) -> str:
        return model_label(self.run)

    @property
    def hex(self) -> str:
        return self.run.public_id.hex

    @property
    def open_count(self) -> int:
        return sum(one.is_open for one in self.asked)

    @property
    def settled_count(self) -> int:
        return sum(one.is_settled for one in self.asked)

    @property
    def has_work(self) -> bool:
        """True if Tributary works on what it waits for."""
        return any(not one.is_open and not one.is_settled for one in self.asked)

    @property
    def may_skip(self) -> bool:
        """True if a person is offered to continue it without what is open, which the card itself may offer, or
        because it doesn't continue by itself."""
        opened = [one for one in self.asked if one.is_open]
        if not opened:
            return not self.has_work
        return len(opened) > 1 or not opened[0].has_own_way_on

    @property
    def may_go_on(self) -> bool:
        """True if a person may continue it: without the open questions, or after a pause."""
        if not self.is_last:
            return False
        if self.run.status == RunStatus.WAITING:
            return True
        # A note says why it did not continue by itself after a pause.
        return self.run.status == RunStatus.INCOMPLETE and any(
            note in PAUSES for note in self.run.notes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """The version of a turn that newcomers see, for a reader who keeps another one, and who wrote it, or
    has continued it since (``is_continued``)."""

    message: Message
    author: User | None
    is_continued: bool = False

    @property
    def is_person(self) -> bool:
        return self.message.role == Role.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The person who wrote a version of a message, or asked for a version of an answer, and the time."""

    name: str
    at: datetime
    is_person: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn on the page: ``number`` counts along the visible path, from 1."""

    message: Message
    place: Place
    number: int
    runs: tuple[ShownRun, ...] = ()
    newer: Newer | None = None
    # Administrators who opened the conversation before the next turn came, and what was changed.
    openings: Sequence[AccessReason] = ()
    changes: Sequence[ChangeLine] = ()
    # The maker of a version that isn't the first.
    maker: Maker | None = None
    # The comparison that the answer belongs to. Until somebody chooses, its answers stand side by side in ``columns``,
    # each a turn of its own with ``is_column``.
    comparison: Comparison | None = None
    columns: Sequence[Turn] = ()
    is_column: bool = False
    # The line about feedback on an answer, if anybody gave any.
    feedback: object = None
    # Below it begins what the next answer is sent.
    context: ContextOfPath | None = None

    @property
    def is_person(self) -> bool:
        return self.message.role == Role.USER

    @property
    def actions_template(self) -> str:
        """The template of the footer."""
        if self.columns:
            return "compare/_lines.html"
        return f"{'compare/_column' if self.is_column else 'conversations/_turn'}_actions.html"

    @property
    def footer_id(self) -> str:
        return f"{'l' if self.columns else 'a'}{self.message.public_id.hex}"

    @property
    def choice_value(self) -> str:
        """The option of the model picker with the model of the answer; empty without its server."""
        run = self.last.run if self.last else None
        if run is None or run.upstream is None:
            return ""
        return f"{run.upstream.public_id.hex}:{run.model}"

    @property
    def tone(self) -> str:
        """The tone of the badge with its state."""
        return _TONES.get(self.state, "")

    @property
    def measures(self) -> Measures:
        return measure([shown.run for shown in self.runs])

    @property
    def has_many_changes(self) -> bool:
        return len(self.changes) > MOST_SINGLE

    @property
    def has_words(self) -> bool:
        """True if there is any text that could be copied."""
        return any(run.answer is not None and run.answer.has_words for run in self.runs)

    @property
    def name(self) -> str:
        """The author of a message, or the model of an answer."""
        if self.is_person:
            return self.message.author_name
        return (self.last.model_label if self.last else "") or gettext("no model")

    @property
    def full_model_name(self) -> str:
        run = self.last.run if self.last else None
        if run is None or (run.upstream is None and not run.imported_server):
            return run.model if run else ""
        return gettext("%(model)s on %(server)s") % {
            "model": run.model,
            "server": name_of(run.upstream, run.imported_server),
        }

    @property
    def last(self) -> ShownRun | None:
        return self.runs[-1] if self.runs else None

    @property
    def is_live(self) -> bool:
        return self.last is not None and self.last.run.is_live

    @property
    def has_failed(self) -> bool:
        """True if the last card of the answer tells of an error, with the button to try again."""
        return self.last is not None and self.last.run.status in FAILED_STATUSES

    @property
    def is_too_long(self) -> bool:
        """True if the answer failed because the conversation is too long for the model."""
        return (
            self.has_failed
            and self.last is not None
            and self.last.run.error_kind == "context_length"
        )

    @property
    def is_open(self) -> bool:
        """True if the answer may still grow: it is live or waits for a person."""
        return self.is_live or (self.last is not None and self.last.may_go_on)

    @property
    def state(self) -> str:
        return self.last.run.status if self.last else ""

    @property
    def retry_key(self) -> UUID:
        """The idempotency key of *Try again*: a double click has one effect; the next page has another key."""
        return uuid4()


def read_turns(path: Path, indices: Sequence[int]) -> list[Turn]:
    """The turns at these positions of the path, with texts, authors, runs and rendered answers."""
    if not indices:
        return []
    full = Message.objects.filter(pk__in=_keys_at(path, indices)).select_related("author").in_bulk()
    answers = [message.pk for message in full.values() if message.role == Role.ASSISTANT]
    runs = list(
        Run.objects.filter(message_id__in=answers)
        .select_related("upstream")
        .defer("result")
        .order_by("message_id", "position")
    )
    name_imported(path.conversation.pk, messages=full.values(), runs=runs)
    return _turns(path, indices, full, _shown(runs, render_answers(runs)))


def _keys_at(path: Path, indices: Sequence[int]) -> list[int]:
    """The messages of the turns at these positions, with all columns of a comparison."""
    keys = [path.places[index].message.pk for index in indices]
    if path.undecided is None or path.tail is None or path.tail.pk not in keys:
        return keys
    return [*keys[:-1], *(each.pk for each in path.answers_of(path.undecided))]


def _turns(
    path: Path,
    indices: Sequence[int],
    messages: Mapping[int, Message],
    shown: Mapping[int, Sequence[ShownRun]],
) -> list[Turn]:
    """The turns at these positions whose message is in ``messages``, with the runs of each."""
    places = [path.places[index] for index in indices]
    newer = _newer(path, places)
    makers = _makers(
        [
            place.message
            for place in places
            if place.number > 1 and place.message.pk not in path.comparisons
        ]
    )
    feedback = feedback_on(place.message for place in places)
    return [
        Turn(
            message=messages[place.message.pk],
            place=place,
            number=index + 1,
            runs=tuple(shown.get(place.message.pk, ())),
            newer=newer.get(place.message.pk),
            openings=path.openings.get(place.message.pk, ()),
            changes=path.changes.get(place.message.pk, ()),
            maker=makers.get(place.message.pk),
            comparison=path.comparisons.get(place.message.pk),
            columns=_columns(path, place, index + 1, messages, shown),
            feedback=feedback.get(place.message.pk),
            context=path.context if path.context and path.context.below == index else None,
        )
        for index, place in zip(indices, places, strict=True)
        if place.message.pk in messages
    ]


def read_compared(path: Path, comparison: Comparison) -> tuple[Turn, Turn]:
    """A message and its compared answers in columns, whether or not somebody has chosen one."""
    answers = [key for key, each in path.comparisons.items() if each.pk == comparison.pk]
    full = Message.objects.select_related("author").in_bulk([comparison.question_id, *answers])
    runs = list(
        Run.objects.filter(message__in=answers)
        .select_related("upstream")
        .defer("result")
        .order_by("message_id", "position")
    )
    name_imported(path.conversation.pk, messages=full.values(), runs=runs)
    shown = _shown(runs, render_answers(runs))
    number = len(path_to(path.messages[comparison.question_id], path.messages))
    columns = [
        Turn(
            message=full[key],
            place=_only(full[key]),
            number=number + 1,
            runs=tuple(shown.get(key, ())),
            comparison=comparison,
            is_column=True,
        )
        for key in answers
    ]
    question = full[comparison.question_id]
    return (
        Turn(message=question, place=_only(question), number=number),
        replace(columns[0], is_column=False, columns=columns),
    )


def _only(message: Message) -> Place:
    return Place(message=message, number=1, count=1, previous=None, next=None)


def _columns(
    path: Path,
    place: Place,
    number: int,
    messages: Mapping[int, Message],
    shown: Mapping[int, Sequence[ShownRun]],
) -> Sequence[Turn]:
    comparison = path.undecided
    if comparison is None or path.tail is None or place.message.pk != path.tail.pk:
        return ()
    return [
        Turn(
            message=messages[each.pk],
            place=place,
            number=number,
            runs=tuple(shown.get(each.pk, ())),
            comparison=comparison,
            is_column=True,
        )
        for each in path.answers_of(comparison)
        if each.pk in messages
    ]


def turns_of(path: Path, run: Run) -> list[Turn]:
    """The two turns that a message has just added (the message and the queued answer), without reading
    them again. Empty if they are not the last of the path."""
    ends = path.places[-2:]
    words, answer = run.message.parent, run.message
    if words is None or [place.message.pk for place in ends] != [words.pk, answer.pk]:
        return []
    return _new_turns(run, ends, len(path.places) - 1)


def turns_below(run: Run, number: int) -> list[Turn]:
    """The same for a page that ends with the turn of this number, below which they stand alone, without
    reading the path."""
    words, answer = run.message.parent, run.message
    assert words is not None
    return _new_turns(run, [_only(words), _only(answer)], number + 1)


def _new_turns(run: Run, places: Sequence[Place], number: int) -> list[Turn]:
    shown = ShownRun(
        run=run,
        answer=render_answers([run])[run.pk],
        is_last=True,
    )
    words, answer = places
    assert run.message.parent is not None
    return [
        Turn(message=run.message.parent, place=words, number=number),
        Turn(message=run.message, place=answer, number=number + 1, runs=(shown,)),
    ]


def read_changed(path: Path, indices: Sequence[int], *, known_runs: Collection[str]) -> list[Turn]:
    """Turns that the page shows already: without their texts, and of their runs only the answers
    of those are rendered that follow ``known_runs``, which it shows. None of a turn of which it
    does not say which it shows."""
    keys = _keys_at(path, indices)
    answers = [key for key in keys if path.messages[key].role == Role.ASSISTANT]
    runs = _runs_of(answers)
    name_imported(path.conversation.pk, runs=runs)
    shown = _shown(runs, render_answers(_later(runs, known_runs)))
    return _turns(path, indices, path.messages, shown)


def _makers(versions: Sequence[Message]) -> dict[int, Maker]:
    """The makers of these versions; unknown for imported ones. No query if there are none."""
    written = [each.pk for each in versions if each.role == Role.USER]
    asked = [each.pk for each in versions if each.role == Role.ASSISTANT]
    makers: dict[int, Maker] = {}
    if written:
        rows = Message.objects.filter(pk__in=written, author__isnull=False)
        for pk, name, at in rows.values_list("pk", "author__name", "created_at"):
            makers[pk] = Maker(name=name, at=at, is_person=True)
    if asked:
        runs = Run.objects.filter(message__in=asked, position=0, requested_by__isnull=False)
        for pk, name, at in runs.values_list("message", "requested_by__name", "queued_at"):
            makers[pk] = Maker(name=name, at=at, is_person=False)
    return makers


def _newer(path: Path, places: Sequence[Place]) -> dict[int, Newer]:
    """The current versions of turns of which the reader keeps another one."""
    kept = [place.message for place in places if path.choices.get(place.message.pk)]
    found = {message.pk: path.current_version(message) for message in kept}
    return {pk: _newer_than(pk, one, path) for pk, one in found.items() if one.pk != pk}


def _newer_than(pk: int, version: Message, path: Path) -> Newer:
    is_continued = version.pk < pk
    made = path.newest_below(version) if is_continued else version
    return Newer(message=version, author=maker_of(made), is_continued=is_continued)


def maker_of(message: Message) -> User | None:
    """The author of a message, or who requested the answer; ``None`` if the account was deleted."""
    if message.role == Role.USER:
        author: User | None = Message.objects.select_related("author").get(pk=message.pk).author
        return author
    runs = Run.objects.filter(message=message).select_related("requested_by")
    first = runs.order_by("position").first()
    return first.requested_by if first is not None else None


_runs_of_one = Prepared(
    lambda answer: Run.objects.filter(message=answer).defer("result").order_by("position")
)


def _runs_of(answers: Sequence[int]) -> list[Run]:
    """All runs of these answers in order. Most often it is one answer that has just ended."""
    if len(answers) == 1:
        return _runs_of_one.all(answer=answers[0])
    rows = Run.objects.filter(message_id__in=answers).defer("result")
    return list(rows.order_by("message_id", "position"))


def _shown(
    runs: Sequence[Run], rendered: Mapping[int, RenderedAnswer]
) -> dict[int, list[ShownRun]]:
    """The runs, which are all of their answers, by answer and in order."""
    asked = cards_of(runs)
    last = {run.message_id: run.pk for run in runs}
    shown: dict[int, list[ShownRun]] = {}
    for run in runs:
        shown.setdefault(run.message_id, []).append(
            ShownRun(
                run=run,
                answer=rendered.get(run.pk),
                asked=tuple(asked.get(run.pk, ())),
                is_last=last[run.message_id] == run.pk,
            )
        )
    return shown


def _later(runs: Sequence[Run], known_runs: Collection[str]) -> list[Run]:
    """The runs that follow the known ones of their answer."""
    newest = {run.message_id: run.position for run in runs if run.public_id.hex in known_runs}
    return [run for run in runs if run.position > newest.get(run.message_id, run.position)]


def last_page(path: Path, since: UUID | None = None) -> range:
    """The turns at the end; if it is not far, those ``since`` a message of the path, too."""
    count = len(path.places)
    start = count - PAGE_TURNS
    index = path.index_of(since.hex) if since else None
    if index is not None and index >= count - MOST_TURNS:
        start = min(start, index - TURNS_ABOVE)
    return range(max(0, start), count)


def page_before(path: Path, public_id: UUID, after: UUID | None = None) -> range | None:
    """The turns before a message of the path, and ``after`` another; ``None`` if one is not on it."""
    end = path.index_of(public_id.hex)
    known = path.index_of(after.hex) if after else -1
    if end is None or known is None:
        return None
    return range(max(0, end - PAGE_TURNS, known + 1), end)


def page_around(path: Path, public_id: UUID) -> Message | None:
    """For a turn that is too far from the end for the page of the conversation: the one for which
    `page_before` is the page with it in the middle."""
    index = path.index_of(public_id.hex)
    if index is None or index >= len(path.places) - MOST_TURNS:
        return None
    return path.places[index + PAGE_TURNS // 2].message


def page_after(path: Path, indices: range) -> Message | None:
    """The one for which `page_before` is the page after these turns; ``None`` if that is the last
    page of the conversation."""
    last = last_page(path).start
    if indices.stop >= last:
        return None
    return path.places[min(indices.stop + PAGE_TURNS, last)].message


def last_run(path: Path, turns: Iterable[Turn] = ()) -> Run | None:
    """The newest run of the last answer of the path; not read again if it is among the turns."""
    if path.tail is None:
        return None
    for turn in turns:
        if turn.message.pk == path.tail.pk and turn.last is not None:
            return turn.last.run
    return Run.objects.filter(message=path.tail).defer("result").order_by("-position").first()


def compared_runs(path: Path, turns: Iterable[Turn] = ()) -> list[Run]:
    """The newest runs of the answers that stand side by side at the end of the path, in their order; empty if it ends
    with an ordinary answer."""
    if path.undecided is None:
        return []
    known = {turn.message.pk: turn.last.run for turn in turns if turn.is_column and turn.last}
    keys = [each.pk for each in path.answers_of(path.undecided)]
    if not all(key in known for key in keys):
        rows = Run.objects.filter(message__in=keys).defer("result").order_by("position")
        known = {run.message_id: run for run in rows}
    return [known[key] for key in keys if key in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsFor:
    """The cause of a waiting answer: people, or only calls of these tools, which run. ``person`` is the key of the one
    person who alone can reply; ``server`` the one where they are to sign in, with its name if it is one."""

    people: bool
    # People are asked for nothing but approvals, or but to sign in.
    only_approvals: bool = False
    only_sign_in: bool = False
    person: int | None = None
    person_name: str = ""
    server: str = ""
    tools: Sequence[str] = ()

    @property
    def tool_names(self) -> str:
        names = [name_in_line(name) for name in self.tools[:NAMED_TOOLS]]
        return ", ".join(names) + ("…" if len(self.tools) > NAMED_TOOLS else "")


def waits_for(run: Run | None) -> WaitsFor | None:
    """``None`` for a run that waits for nothing."""
    if run is None or run.status != RunStatus.WAITING:
        return None
    left = run.questions.filter(status__in=UNSETTLED_STATUSES).order_by("position")
    rows = list(with_account(left).values("status", "body__tool", "has_account", *_OF_CALL))
    if not rows:
        return None
    asked = [row for row in rows if row["status"] in OPEN_STATUSES]
    if asked:
        return _waits_for_people(asked)
    tools = dict.fromkeys(str(row["body__tool"] or "") for row in rows)
    return WaitsFor(people=False, tools=list(tools))


_OF_CALL = (
    *("tool_call__status", "tool_call__error", "tool_call__is_personal", "tool_call__server_name"),
    *("tool_call__executor", "tool_call__executor__name"),
)


def _waits_for_people(asked: Sequence[Mapping[str, Any]]) -> WaitsFor:
    only_approvals = all(row["tool_call__status"] == CallStatus.APPROVAL for row in asked)
    only_sign_in = only_approvals and all(_needs_sign_in(row) for row in asked)
    people = {row["tool_call__executor"] for row in asked}
    is_one = len(people) == 1 and all(row["tool_call__is_personal"] for row in asked)
    servers = {row["tool_call__server_name"] for row in asked}
    return WaitsFor(
        people=True,
        only_approvals=only_approvals,
        only_sign_in=only_sign_in,
        person=asked[0]["tool_call__executor"] if is_one else None,
        person_name=(asked[0]["tool_call__executor__name"] or "") if is_one else "",
        server=servers.pop() if only_sign_in and len(servers) == 1 else "",
    )


def _needs_sign_in(row: Mapping[str, Any]) -> bool:
    lacks_some = not row["has_account"] or row["tool_call__error"] == NEEDS_SCOPE
    return bool(row["tool_call__is_personal"] and lacks_some)
