"""The list of steps that an upstream reports: research, deep thinking, preparation."""

import re
from collections import Counter

from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from chat.events import ActivityStep, Json
from chat.rendering import figures
from chat.rendering.components import Entry, TextSlot, fill, name_of, safe
from chat.rendering.json_tree import tree_of
from chat.rendering.parts import Patches, Slot, Stack
from chat.rendering.safety import is_safe_link, with_host

_STEP_ICONS = {
    "start": ("loader-circle", gettext_noop("Started"), "live"),
    "progress": ("loader-circle", gettext_noop("In progress"), "live"),
    "done": ("check", gettext_noop("Done"), "good"),
    "failed": ("x", gettext_noop("Failed"), "bad"),
    "note": ("circle", gettext_noop("Note"), "remark"),
    "ended": ("circle-stop", gettext_noop("Incomplete"), "calm"),
}
_PLANNED, _RETRIED = "subtask_planned", "subtask_retried"
_PLANNED_ICON = ("circle-dashed", gettext_noop("Planned"), "calm")
_PARTLY_FAILED_ICON = ("triangle-alert", gettext_noop("Done, partly failed"), "wait")
# Titles of the list by family of steps; with several families the first of them here.
_FAMILIES = {
    "deep_think": gettext_noop("Deep thinking"),
    "research": gettext_noop("Research"),
    "analyst": gettext_noop("Preparation"),
}
_ANY_FAMILY = gettext_noop("Activity")
# Steps of the research family that search nothing.
_OTHER_TOOLS = (
    "tool_call",
    "creating_mockup",
    "updating_mockup",
    "context_compacted",
    "tracking_decision",
    "tracking_milestone",
)
# Steps with details to read.
_READABLE_STEPS = ("structured_synthesis", "context_brief_created", "claim_emitted")
# Bookkeeping of the server, which only the run's details show.
BOOKKEEPING = (
    "artifact_saved",
    "complete",
    "completed",
    "deepening_round_completed",
    "memories_created",
    "memory_extracted",
    "subtask_artifact_saved",
)
# The form of a summary about an unreadable page, if the server sends no status.
_HTTP_FAILURE = re.compile(r"\([45]\d\d\)|\bHTTP(?: status)? [45]\d\d\b")
_READING = "Reading: "
# ASCII signs of arithmetic as people write them.
_SIGNS = str.maketrans({"*": "×", "-": "−"})
# The number of parts of a plan is ignored above this.
MOST_PARTS = 1000


class Step(Slot):
    """One line of the list. Later events with the same reference change it."""

    tag = "li"
    classes = "step"

    def __init__(self, id: str, seq: int, event: ActivityStep) -> None:
        super().__init__(id, seq)
        self.label = ""
        self.detail: dict[str, Json] = {}
        self.started_t = event.t
        self.is_readable = event.step in _READABLE_STEPS
        self.is_part = event.family == "deep_think" and event.step.startswith("subtask")
        # True if the part is planned but not begun; then how often it was begun.
        self.is_planned = event.step == _PLANNED
        self.attempts = 1
        self.update(event, seq)

    @property
    def is_open(self) -> bool:
        return self.phase in ("start", "progress")

    def update(self, event: ActivityStep, seq: int) -> None:
        self.phase: str = event.phase
        self.label = event.label or self.label or f"{event.family}: {event.step}"
        if isinstance(event.detail, dict):
            self.detail |= event.detail
        if self.phase == "done" and event.step == "reading" and _could_not_read(self.detail):
            self.phase = "failed"
            page = self.label.removeprefix(_READING)
            self.label = gettext("Couldn’t read: %(page)s") % {"page": page}
        if self.phase == "done" and event.step == "calculating":
            self.label = _calculation(self.detail) or self.label
        self.ended_t = max(event.t, self.started_t)
        self.touch(seq)

    def begin_planned(self, t: int) -> None:
        self.is_planned = False
        self.started_t = t

    def try_again(self, detail: Json, seq: int) -> None:
        told = detail.get("attempt") if isinstance(detail, dict) else None
        if type(told) is int and self.attempts < told <= MOST_PARTS:
            self.attempts = told
        else:
            self.attempts += 1
        self.touch(seq)

    def give_up(self, seq: int) -> None:
        if self.is_open:
            self.phase = "ended"
            self.touch(seq)

    def content(self) -> str:
        icon, word, tone = _PLANNED_ICON if self.is_planned else _STEP_ICONS[self.phase]
        milliseconds = self.ended_t - self.started_t
        tokens = _tokens_in(self.detail)
        url = _link_in(self.detail)
        # The address if it is part of the label, else its host beside it.
        before, address, after = self.label.partition(url) if url else (self.label, "", "")
        return fill(
            "step",
            icon=icon,
            word=gettext(word),
            tone=tone,
            label=name_of(before),
            url=url,
            page=with_host(name_of(address.partition("://")[2]), url) if url else "",
            after=name_of(after),
            attempts=self.attempts if self.attempts > 1 else 0,
            attempts_shown=figures.count(self.attempts),
            tokens=tokens,
            tokens_shown=figures.count(tokens),
            duration=figures.duration(milliseconds) if milliseconds and not self.is_open else "",
            body=self._body(),
        )

    def _body(self) -> SafeString:
        """The details that the line does not show."""
        told = {name: value for name, value in self.detail.items() if value != self.label}
        return tree_of(told) if self.is_readable and told else safe("")


def _could_not_read(detail: dict[str, Json]) -> bool:
    """Returns whether the server of the page refused it."""
    told = detail.get("metadata")
    if not isinstance(told, dict):
        return False
    status, summary = told.get("status"), told.get("summary")
    if type(status) is int:
        return status >= 400
    return isinstance(summary, str) and _HTTP_FAILURE.search(summary) is not None


def _calculation(detail: dict[str, Json]) -> str:
    """``2.31 − 1.94 = 0.37``; empty unless expression and result are known."""
    arguments, told = detail.get("arguments"), detail.get("metadata")
    if not (isinstance(arguments, dict) and isinstance(told, dict)):
        return ""
    expression, result = arguments.get("expression"), told.get("summary")
    if not (isinstance(expression, str) and isinstance(result, str) and expression and result):
        return ""
    return f"{expression} = {result}".translate(_SIGNS)


def _link_in(detail: dict[str, Json]) -> str:
    """The address of the page that a step reads, if it is safe to link."""
    arguments = detail.get("arguments")
    inner = arguments if isinstance(arguments, dict) else {}
    url = detail.get("url") or inner.get("url")
    return url if isinstance(url, str) and is_safe_link(url) else ""


def _index_in(event: ActivityStep) -> int | None:
    """The part of a plan that an event refers to."""
    is_part = event.family == "deep_think" and event.step.startswith("subtask")
    index = (
        event.detail.get("subtask_index") if is_part and isinstance(event.detail, dict) else None
    )
    return index if type(index) is int else None


def _tokens_in(detail: dict[str, Json]) -> int:
    """The input and output tokens of a part; 0 if unknown."""
    counts = [detail.get(name) for name in ("input_tokens", "output_tokens")]
    return sum(count for count in counts if type(count) is int and count >= 0)


class Activity(Entry):
    """The steps of a run as one vertical list: open while they are the newest part, then folded. A
    single step is one line without a fold.

    The frame is sent again when it folds and with the second step; otherwise it only grows.
    """

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.head = TextSlot(f"{id}-head", seq, tag="summary")
        self.steps = Stack(f"{id}-steps", seq, tag="ol", classes="steps")
        self.is_news = True
        self._is_over = False
        self._framed_seq = -1
        self._families: set[str] = set()
        # Counted incrementally, because counting all steps at each event would be quadratic.
        self._phases: Counter[str] = Counter()
        self._parts = self._parts_done = 0
        self._parts_by_index: dict[int, Step] = {}
        self._first_t = self._last_t = 0
        self._newest = ""
        self.hold(self.head, self.steps)

    def add(self, step: Step, event: ActivityStep, seq: int) -> None:
        if not self.steps.children:
            self._first_t = event.t
        if event.family != "research" or event.step not in _OTHER_TOOLS:
            self._families.add(event.family)
        self._newest = step.label
        index = _index_in(event)
        if step.is_part and index is not None:
            self._parts_by_index[index] = step
        self._count(step, 1)
        self.steps.add(step, seq)
        if len(self.steps.children) == 2:
            self._framed_seq = seq
        self._note(event, seq)

    def part_of(self, event: ActivityStep) -> Step | None:
        """The part of a plan that an event refers to by number."""
        index = _index_in(event)
        return None if index is None else self._parts_by_index.get(index)

    def takes(self, event: ActivityStep, seq: int) -> Step | None:
        """The existing line for this event: a part of the plan that begins or is repeated; ``None``
        for a line of its own."""
        part = self.part_of(event)
        if part is None:
            return None
        if event.step == _RETRIED:
            part.try_again(event.detail, seq)
            return part
        if part.is_planned and event.phase == "start":
            part.begin_planned(event.t)
            self.update(part, event, seq)
            return part
        return None

    def update(self, step: Step, event: ActivityStep, seq: int) -> None:
        self._count(step, -1)
        step.update(event, seq)
        self._count(step, 1)
        self._note(event, seq)

    def _count(self, step: Step, by: int) -> None:
        self._phases[step.phase] += by
        self._parts_done += by if step.is_part and step.phase == "done" else 0

    def _note(self, event: ActivityStep, seq: int) -> None:
        self._last_t = max(event.t, self._last_t)
        # With a plan, the number of parts is known.
        total = event.detail.get("total_subtasks") if isinstance(event.detail, dict) else None
        if type(total) is int and 0 < total <= MOST_PARTS:
            self._parts = total
        self._change_head(seq)

    def fold(self, seq: int) -> None:
        """Folds the list because the text of the answer has begun."""
        if self.is_news:
            self.is_news = False
            self._framed_seq = seq
            self._change_head(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        self._is_over = True
        for step in self.steps.children:
            if isinstance(step, Step) and step.is_open:
                self._count(step, -1)
                step.give_up(seq)
                self._count(step, 1)
        self._change_head(seq)
        self.fold(seq)

    def _change_head(self, seq: int) -> None:
        self._show_head()
        self.head.touch(seq)

    def _show_head(self) -> None:
        icon, word, tone = self._state()
        milliseconds = self._last_t - self._first_t
        failed = self._phases["failed"]
        family = next((_FAMILIES[each] for each in _FAMILIES if each in self._families), "")
        steps = len(self.steps.children)
        self.head.set_content(
            "activity_head",
            icon=icon,
            word=gettext(word),
            tone=tone,
            name=gettext(family or _ANY_FAMILY),
            now=name_of(self._newest) if tone == "live" else "",
            parts=self._parts,
            parts_shown=figures.count(self._parts),
            parts_done_shown=figures.count(min(self._parts_done, self._parts)),
            steps=steps,
            steps_shown=figures.count(steps),
            failed=failed,
            failed_shown=figures.count(failed),
            duration=figures.duration(milliseconds) if milliseconds and tone != "live" else "",
        )

    def _state(self) -> tuple[str, str, str]:
        is_going_on = self._phases["start"] or self._phases["progress"]
        if is_going_on or (self.is_news and not self._is_over):
            return _STEP_ICONS["progress"]
        if self._phases["done"] or self._phases["note"]:
            return _PARTLY_FAILED_ICON if self._phases["failed"] else _STEP_ICONS["done"]
        return _STEP_ICONS["failed" if self._phases["failed"] else "ended"]

    @property
    def _is_one(self) -> bool:
        return len(self.steps.children) == 1

    def frame(self, contents: list[SafeString]) -> str:
        return f'<div id="{self.id}" class="item activity">{self._inside(contents)}</div>'

    def _inside(self, contents: list[SafeString]) -> str:
        head, steps = contents
        return fill("activity", is_one=self._is_one, is_open=self.is_news, head=head, steps=steps)

    def patch(self, since: int, patches: Patches) -> None:
        if self._framed_seq > since:
            patches.replace(self.id, self._inside([safe(part.html()) for part in self.parts]))
            return
        for part in self.parts:
            if part.changed_seq > since and not (self._is_one and part is self.head):
                part.patch(since, patches)
