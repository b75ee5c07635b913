"""The phase strip of a run: what it is doing now."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import escape
from django.utils.translation import get_language, gettext, gettext_noop

from chat import events
from chat.events import EventBase
from chat.rendering import figures
from chat.rendering.components import name_of
from chat.rendering.icons import icon_url
from chat.rendering.parts import Slot


@dataclass(frozen=True, slots=True)
class Phase:
    """``word`` is translated when it is shown: phases are made for every delta."""

    icon: str
    word: str
    detail: str = ""
    percent: int | None = None


WAITING = Phase("loader-circle", gettext_noop("Waiting for the model…"))
WRITING = Phase("pen-line", gettext_noop("Writing…"))
THINKING = Phase("brain", gettext_noop("Thinking…"))
NEEDS_INPUT = Phase("hand", gettext_noop("Needs input"))
BUILDING = Phase("layout-template", gettext_noop("Creating a mockup…"))
# First part of a media type -> the phase while it is incomplete.
_GENERATING = {
    "image": Phase("image", gettext_noop("Generating an image…")),
    "audio": Phase("volume-2", gettext_noop("Generating audio…")),
}
_LOADING = gettext_noop("Loading the model…")
_PROMPT = gettext_noop("Reading the prompt…")
_TOOL = gettext_noop("Using a tool…")
_SEARCHING = gettext_noop("Searching…")
_READING = gettext_noop("Reading…")
_WORKING = gettext_noop("Working…")


class PhaseSlot(Slot):
    """The phase and how long it has lasted, in whole seconds."""

    classes = "phase"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.phase: Phase | None = WAITING
        self.since_t = 0
        self.t = 0

    def move(self, phase: Phase | None, t: int, seq: int) -> None:
        """Marks the card as changed if the phase, its figures or the time have changed."""
        before = self.phase, self._second()
        if phase is None or self.phase is None or phase.word != self.phase.word:
            self.since_t = t
        self.phase, self.t = phase, max(t, self.t)
        if (phase, self._second()) != before:
            self.touch(seq)

    def _second(self) -> int:
        return max(self.t - self.since_t, 0) // 1000

    def content(self) -> str:
        if self.phase is None:
            return ""
        milliseconds = max(self.t - self.since_t, 0)
        # Whole seconds, like the text, so that nothing is sent in between.
        whole = milliseconds // 1000 * 1000
        return (
            f"{_words_of(self.phase, get_language())}"
            f' <time class="elapsed figure" data-elapsed-ms="{whole}"'
            f' data-since-ms="{self.since_t}">{figures.elapsed(milliseconds)}</time>'
        )


@lru_cache(maxsize=1024)
def _words_of(phase: Phase, language: str | None) -> str:
    """Rendered every second for each live answer and twice for each message, so it is built without a
    template, which would take longer than the rest of the answer."""
    spin = " spin" if phase.icon == "loader-circle" else ""
    word = escape(gettext(phase.word))
    parts = [
        f'<svg class="icon{spin}" aria-hidden="true"><use href="{icon_url(phase.icon)}"/></svg>',
        f'<span class="word">{word}</span>',
    ]
    if phase.detail:
        parts.append(f'<span class="detail">{escape(phase.detail)}</span>')
    if phase.percent is not None:
        parts.append(
            f'<progress max="100" value="{phase.percent}" aria-label="{word}"></progress>'
            f' <span class="figure">{escape(figures.percentage(phase.percent))}</span>'
        )
    return " ".join(parts)


def _phase_of_load(event: events.ModelLoadProgress) -> Phase:
    percent = figures.percent(event.progress)
    return Phase("cpu", _LOADING, name_of(event.model_instance_id), percent)


def _phase_of_tool(event: events.ToolCallStart) -> Phase:
    return Phase("wrench", _TOOL, name_of(event.tool))


def _phase_of_call(event: events.ToolCallArguments) -> Phase:
    query = event.arguments.get("query")
    if "search" in event.tool.lower() and isinstance(query, str):
        return Phase("search", _SEARCHING, name_of(query))
    return Phase("wrench", _TOOL, name_of(event.tool))


def _phase_of_media(event: events.MediaUpdate) -> Phase:
    family = event.media_type.partition("/")[0]
    return _GENERATING.get(family, WRITING) if event.state == "partial" else WRITING


# Step of research -> icon, word, and how its label begins, which would repeat the word.
_STEPS = {
    "searching": ("search", _SEARCHING, "Searching: "),
    "search": ("search", _SEARCHING, "Searching: "),
    "reading": ("book-open", _READING, "Reading: "),
}
_ANY_STEP = ("activity", _WORKING, "Working: ")


def _phase_of_step(event: events.ActivityStep) -> Phase:
    icon, word, beginning = _STEPS.get(event.step, _ANY_STEP)
    label = name_of(event.label or event.step)
    return Phase(icon, word, label.removeprefix(beginning))


def goes_on(event: EventBase, phase: Phase | None) -> bool:
    """Returns whether the phase stays: it names the step that began last, and of several steps at once one may end
    before the others."""
    is_news = isinstance(event, events.ActivityStep) and event.phase not in ("start", "progress")
    return is_news and phase is not None and phase.word in (_WORKING, _SEARCHING, _READING)


# Event type -> the phase that it begins. Other types do not change the phase.
PHASES: dict[type[EventBase], Callable[..., Phase | None]] = {
    events.ChatStart: lambda event: WAITING,
    events.ModelLoadStart: lambda event: Phase("cpu", _LOADING, name_of(event.model_instance_id)),
    events.ModelLoadProgress: _phase_of_load,
    events.ModelLoadEnd: lambda event: WAITING,
    events.PromptProcessingStart: lambda event: Phase("book-open", _PROMPT),
    events.PromptProcessingProgress: lambda event: Phase(
        "book-open", _PROMPT, percent=figures.percent(event.progress)
    ),
    events.PromptProcessingEnd: lambda event: WAITING,
    events.ReasoningStart: lambda event: THINKING,
    events.ReasoningDelta: lambda event: THINKING,
    events.ToolCallStart: _phase_of_tool,
    events.ToolCallArguments: _phase_of_call,
    events.ToolCallSuccess: lambda event: WAITING,
    events.ToolCallFailure: lambda event: WAITING,
    events.MessageStart: lambda event: WRITING,
    events.MessageDelta: lambda event: WRITING,
    events.RefusalDelta: lambda event: WRITING,
    events.MediaUpdate: _phase_of_media,
    events.MockupUpdate: lambda event: BUILDING if event.op == "calling" else WRITING,
    events.ActivityStep: _phase_of_step,
    events.AskQuestion: lambda event: NEEDS_INPUT,
    events.ChatEnd: lambda event: None,
}
