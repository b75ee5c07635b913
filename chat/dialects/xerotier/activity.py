"""The steps that Xerotier's agents report: what each event means, and which step it ends."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from chat.dialects.reading import read_object, write_json
from chat.dialects.stream import count_of, text_of
from chat.events import ActivityStep, Event, Json, JsonObject
from chat.events.translation import gettext_noop

FAMILIES = ("research", "deep_think", "analyst")

# A step is one line of a timeline; longer text is in the details of the step.
_LABEL_CHARACTERS = 240
_SAFE_LINKS = ("http://", "https://")

# How often each step was seen, and the first number that a part had.
Memory = dict[str, int]
Phase = Literal["start", "progress", "done", "failed", "note"]
Label = Callable[[JsonObject, Memory], str]
Keys = Callable[[JsonObject], tuple[str, ...]]


# --- labels -------------------------------------------------------------------------


def plain_words(name: str) -> str:
    """``web_search`` or ``x_web_search`` as words: ``Web search``."""
    words = " ".join(_snake(bare_name(name)).replace(".", "_").split("_")).strip()
    return words[:1].upper() + words[1:]


def _snake(name: str) -> str:
    """``memoryCount`` as ``memory_count``, because both styles occur."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def bare_name(tool: str) -> str:
    """A tool's name without the prefix that newer servers give it."""
    return tool.removeprefix("x_")


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_CHARACTERS else line[: _LABEL_CHARACTERS - 1] + "…"


def _fixed(text: str) -> Label:
    return lambda detail, memory: text


def _about(text: str, *names: str) -> Label:
    """``text: value`` with the first argument found; arguments that are not JSON are the value."""

    def label(detail: JsonObject, memory: Memory) -> str:
        arguments = detail.get("arguments")
        found = arguments if isinstance(arguments, str) else _first_text(arguments, *names)
        value = short(found or _first_text(detail, *names))
        return f"{text}: {value}" if value else text

    return label


def _words(fallback: str, *names: str) -> Label:
    """The text of a member, or else ``fallback``."""
    return lambda detail, memory: short(_first_text(detail, *names)) or fallback


def _first_text(value: Json, *names: str) -> str:
    if not isinstance(value, dict):
        return ""
    return next((found for name in names if (found := text_of(value, name).strip())), "")


def _summary(detail: JsonObject, memory: Memory) -> str:
    return short(_first_text(detail.get("metadata"), "summary"))


def _using(detail: JsonObject, memory: Memory) -> str:
    name = text_of(detail, "name")
    return f"Using {plain_words(name).lower()}" if name else gettext_noop("Using a tool")


def _deeper(detail: JsonObject, memory: Memory) -> str:
    return f"Digging deeper, round {memory['deepening_round']}"


def _plan(detail: JsonObject, memory: Memory) -> str:
    title = short(text_of(detail, "title"))
    parts = count_of(detail, "total_subtasks")
    counted = "" if parts is None else f"{parts} part" if parts == 1 else f"{parts} parts"
    said = ", ".join(text for text in (title, counted) if text)
    return f"Plan: {said}" if said else gettext_noop("Plan ready")


def _part_number(detail: JsonObject, memory: Memory) -> str:
    """``2``, counted from 1. A 0 tells that the server counts from 0; until then, in parts that start out of
    order, it counts as one that begins with 1."""
    index = count_of(detail, "subtask_index")
    if index is None:
        return ""
    if index == 0:
        memory["counts_from_0"] = 1
    return str(index + 1 if "counts_from_0" in memory else index)


def _part(detail: JsonObject, memory: Memory) -> str:
    """``Part 2 of 5: query``, as far as it is known."""
    query = short(text_of(detail, "subtask_query"))
    number, total = _part_number(detail, memory), count_of(detail, "total_subtasks")
    place = f"Part {number}".rstrip()
    if number and total is not None:
        place = f"{place} of {total}"
    return f"{place}: {query}" if query else place


def _part_was(said: str) -> Label:
    def label(detail: JsonObject, memory: Memory) -> str:
        return " ".join(filter(None, ("Part", _part_number(detail, memory), said)))

    return label


def _counts(detail: JsonObject, memory: Memory) -> str:
    """All counts under any names, also one level down."""
    nested = [value for value in detail.values() if isinstance(value, dict)]
    counted = [
        f"{_counted(name)} {count:,}"
        for owner in (detail, *nested)
        for name in owner
        if (count := count_of(owner, name)) is not None
    ]
    return short(
        f"Context gathered: {', '.join(counted)}" if counted else gettext_noop("Context gathered")
    )


def _counted(name: str) -> str:
    """The counted thing, in words."""
    return _snake(name).removesuffix("_count").removesuffix("_items").replace("_", " ").strip()


def _failure(text: str) -> Label:
    def label(detail: JsonObject, memory: Memory) -> str:
        error = detail.get("error")
        message = _first_text(detail, "message", "error", "reason") or _first_text(error, "message")
        return f"{text}: {short(message)}" if message else text

    return label


# --- which step an event belongs to -----------------------------------------------------


def _tool_keys(detail: JsonObject) -> tuple[str, ...]:
    """Name and arguments: nothing else connects a result with its step."""
    name = bare_name(text_of(detail, "name"))
    arguments = detail.get("arguments")
    return (f"{name} {_canonical(arguments)}",) if name or arguments else ()


def _canonical(value: Json) -> str:
    """The same text for objects whose members come in another order."""
    if isinstance(value, dict):
        value = dict(sorted(value.items()))
    return write_json(value)


def _part_keys(detail: JsonObject) -> tuple[str, ...]:
    keys = [f"index:{index}"] if (index := count_of(detail, "subtask_index")) is not None else []
    identity = detail.get("subtask_id")
    if isinstance(identity, str | int) and identity != "":
        keys.insert(0, str(identity))
    return tuple(keys)


def _no_keys(detail: JsonObject) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The meaning of one event for the timeline of its family.

    ``done`` and ``failed`` end the oldest open step of the name ``step`` (of any name, if it is
    empty) that shares a key with the event; without such a step they are steps of their own.
    ``outcome`` is added to the label of the step that ends; without one, ``label`` replaces it.
    ``names_itself`` says that the first key is the step's ``ref``. ``ends`` names another step that
    the event ends as well.
    """

    step: str
    phase: Phase
    label: Label
    keys: Keys = _no_keys
    outcome: Label | None = None
    names_itself: bool = False
    ends: str = ""


def _rules(
    phase: Phase, labels: Mapping[str, str | Label], keys: Keys = _no_keys
) -> dict[str, Rule]:
    """Rules of events that are named after their step, with a label for each."""
    return {
        name: Rule(
            step=name.partition(".")[2],
            phase=phase,
            label=_fixed(label) if isinstance(label, str) else label,
            keys=keys,
        )
        for name, label in labels.items()
    }


# Tools that the agent runs; ``x_research.result`` ends them.
_TOOLS: Mapping[str, str | Label] = {
    "x_research.searching": _about(gettext_noop("Searching"), "query", "q"),
    "x_research.reading": _about(gettext_noop("Reading"), "url"),
    "x_research.code_searching": _about(gettext_noop("Searching code"), "query", "q"),
    "x_research.calculating": _about(gettext_noop("Calculating"), "expression"),
    "x_research.querying_decisions": gettext_noop("Looking up decisions"),
    "x_research.querying_timeline": gettext_noop("Reading the timeline"),
    "x_research.briefing": gettext_noop("Preparing a briefing"),
    "x_research.relating": gettext_noop("Comparing documents"),
    "x_research.creating_mockup": gettext_noop("Creating a mockup"),
    "x_research.updating_mockup": gettext_noop("Updating a mockup"),
    "x_research.tool_call": _using,
}
_NOTES: Mapping[str, str | Label] = {
    "x_research.gap_analysis": gettext_noop("Looking for gaps"),
    "x_research.deepening_round": _deeper,
    "x_research.context_compacted": gettext_noop("Conversation summarized to free up context"),
    "x_research.tracking_decision": gettext_noop("Recording a decision"),
    "x_research.tracking_milestone": gettext_noop("Recording a milestone"),
    "x_deep_think.subtask_planned": _part_was("planned"),
    "x_deep_think.subtask_retried": _part_was("tried again"),
    "x_deep_think.cross_reference": gettext_noop("Comparing findings"),
    "x_deep_think.claim_emitted": _words(
        gettext_noop("Finding"), "claim", "text", "statement", "content", "summary"
    ),
    "x_deep_think.memory_extracted": gettext_noop("Memory suggested"),
    "x_deep_think.artifact_created": _about(gettext_noop("Artifact"), "title"),
    "x_deep_think.memories_created": gettext_noop("Memories saved"),
    "x_deep_think.artifact_saved": gettext_noop("Artifact saved"),
    "x_deep_think.subtask_artifact_saved": gettext_noop("Artifact of a subtask saved"),
    "x_analyst.context_refreshed": gettext_noop("Context refreshed"),
}
_DONE: Mapping[str, str | Label] = {
    "x_research.complete": gettext_noop("Research finished"),
    "x_deep_think.plan_critiqued": gettext_noop("Plan reviewed"),
    "x_deep_think.deepening_round_completed": gettext_noop("Round finished"),
    "x_deep_think.completed": gettext_noop("Deep think finished"),
    "x_analyst.context_brief_created": gettext_noop("Brief ready"),
}
# Events that begin or end a step of another name, or know which one they end.
_STEPS: Mapping[str, Rule] = {
    "x_research.result": Rule(
        step="", phase="done", label=_summary, outcome=_summary, keys=_tool_keys
    ),
    "x_deep_think.planning_started": Rule(
        step="planning", phase="start", label=_fixed(gettext_noop("Planning"))
    ),
    "x_deep_think.plan_created": Rule(step="planning", phase="done", label=_plan),
    "x_deep_think.discovery_started": Rule(
        step="discovery", phase="start", label=_words(gettext_noop("Exploring"), "message")
    ),
    "x_deep_think.discovery_completed": Rule(
        step="discovery", phase="done", label=_words(gettext_noop("Explored"), "message")
    ),
    "x_deep_think.subtask_started": Rule(
        step="subtask", phase="start", label=_part, keys=_part_keys, names_itself=True
    ),
    "x_deep_think.subtask_completed": Rule(
        step="subtask",
        phase="done",
        label=_part,
        outcome=_fixed(""),
        keys=_part_keys,
        names_itself=True,
    ),
    "x_deep_think.synthesizing": Rule(
        step="synthesizing", phase="start", label=_fixed(gettext_noop("Writing the answer"))
    ),
    "x_deep_think.structured_synthesis": Rule(
        step="structured_synthesis",
        phase="done",
        label=_fixed(gettext_noop("Synthesis ready")),
        ends="synthesizing",
    ),
    "x_deep_think.synthesis_failed": Rule(
        step="synthesizing", phase="failed", label=_failure(gettext_noop("Synthesis failed"))
    ),
    "x_deep_think.error": Rule(
        step="error", phase="failed", label=_failure(gettext_noop("Deep think failed"))
    ),
    "x_analyst.context_gathering": Rule(
        step="context", phase="start", label=_fixed(gettext_noop("Gathering context"))
    ),
    "x_analyst.context_completed": Rule(step="context", phase="done", label=_counts),
}
RULES: Mapping[str, Rule] = {
    **_rules("start", _TOOLS, keys=_tool_keys),
    **_rules("note", _NOTES),
    **_rules("done", _DONE),
    **_STEPS,
}


def family_of(name: str) -> str:
    """The family of ``x_research.reading`` and the like; empty for unknown families."""
    family, _, step = name.removeprefix("x_").partition(".")
    return family if family in FAMILIES and step else ""


def unknown_rule(name: str) -> Rule:
    """A new event of a known family: a note with its name."""
    step = name.partition(".")[2]
    label = short(plain_words(step)) or gettext_noop("Step")
    return Rule(step=step, phase="note", label=_fixed(label))


# --- the timeline -----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenStep:
    family: str
    step: str
    ref: str
    label: str
    detail: JsonObject
    is_open: bool = True


class Timeline:
    """The steps of one run. Every start is ended, by its event or by ``close``.

    A step is one entry in the result under its family, name and ``ref``, so every step but a note
    has a ``ref`` of its own.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._open: dict[tuple[str, str], _OpenStep] = {}
        # The open steps by every key that may end them, oldest first. Ended ones are skipped, so
        # finding one costs the same however many there are.
        self._waiting: dict[tuple[str, str], deque[_OpenStep]] = {}
        self._memory: Memory = {}

    def report(self, family: str, rule: Rule, data: JsonObject) -> None:
        detail = detail_of(data)
        step = rule.step or "result"
        self._memory[step] = self._memory.get(step, 0) + 1
        if rule.phase == "start":
            self._begin(family, rule, detail)
        elif rule.phase == "note":
            self._step(family, step, "note", rule.label(detail, self._memory), None, detail)
        else:
            self._end_other(family, rule.ends)
            self._end(family, rule, detail)

    def close(self, *, is_complete: bool) -> None:
        """Ends the steps that no event has ended: as done, unless the run failed or was stopped."""
        phase: Phase = "done" if is_complete else "failed"
        for opened in self._open.values():
            self._step(opened.family, opened.step, phase, opened.label, opened.ref, opened.detail)
        self._open.clear()
        self._waiting.clear()

    def _begin(self, family: str, rule: Rule, detail: JsonObject) -> None:
        keys = rule.keys(detail)
        counted_from_1 = "counts_from_0" not in self._memory
        opened = _OpenStep(
            family=family,
            step=rule.step,
            ref=keys[0] if rule.names_itself and keys else self._next_ref(rule.step),
            label=rule.label(detail, self._memory),
            detail=detail,
        )
        if counted_from_1 and "counts_from_0" in self._memory:
            self._number_again(rule)
        before = self._open.pop((family, opened.ref), None)
        if before is not None:
            # The same part again: its line starts anew.
            before.is_open = False
        self._open[family, opened.ref] = opened
        for key in (*keys, f"any {rule.step}", "any"):
            self._waiting.setdefault((family, key), deque()).append(opened)
        self._step(family, opened.step, "start", opened.label, opened.ref, detail)

    def _number_again(self, rule: Rule) -> None:
        """Open parts that were counted from 1 get another number."""
        for opened in self._open.values():
            if opened.step == rule.step:
                opened.label = rule.label(opened.detail, self._memory)
                self._step(
                    opened.family, opened.step, "progress", opened.label, opened.ref, opened.detail
                )

    def _end(self, family: str, rule: Rule, detail: JsonObject) -> None:
        keys = rule.keys(detail)
        opened = self._find(family, keys or (f"any {rule.step}".rstrip(),))
        if opened is None:
            step = rule.step or "result"
            ref = keys[0] if rule.names_itself and keys else self._next_ref(step)
            label = rule.label(detail, self._memory) or plain_words(step)
            self._step(family, step, rule.phase, label, ref, detail)
            return
        label = rule.label(detail, self._memory)
        if rule.outcome is not None:
            outcome = rule.outcome(detail, self._memory)
            label = " · ".join(text for text in (opened.label, outcome) if text)
        whole = {**opened.detail, **detail}
        self._step(family, opened.step, rule.phase, label, opened.ref, whole)

    def _end_other(self, family: str, step: str) -> None:
        opened = self._find(family, (f"any {step}",)) if step else None
        if opened is not None:
            self._step(family, step, "done", opened.label, opened.ref, opened.detail)

    def _find(self, family: str, keys: tuple[str, ...]) -> _OpenStep | None:
        """The oldest open step under the first key that has one. It is not open any more."""
        for key in keys:
            waiting = self._waiting.get((family, key))
            while waiting:
                opened = waiting.popleft()
                if opened.is_open:
                    opened.is_open = False
                    del self._open[family, opened.ref]
                    return opened
        return None

    def _next_ref(self, step: str) -> str:
        return f"{step}:{self._memory[step]}"

    def _step(
        self, family: str, step: str, phase: Phase, label: str, ref: str | None, detail: JsonObject
    ) -> None:
        self._emit(
            ActivityStep(
                family=family, step=step, phase=phase, label=label, ref=ref, detail=detail or None
            )
        )


def detail_of(data: JsonObject) -> JsonObject:
    """The members of an event. ``arguments``, which is JSON in a string, is parsed if it is an
    object. The address of a page is also stored as ``url``, which may become a link."""
    detail = {name: value for name, value in data.items() if name != "type"}
    arguments = detail.get("arguments")
    if isinstance(arguments, str):
        parsed = read_object(arguments)
        detail["arguments"] = arguments if parsed is None else parsed
    url = _first_text(detail.get("arguments"), "url")
    if url.lower().startswith(_SAFE_LINKS):
        detail.setdefault("url", url)
    return detail
