"""The phase strip of a run: what it is doing now."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import escape

from chat import events
from chat.events import EventBase
from chat.rendering import figures
from chat.rendering.components import name_of
from chat.rendering.parts import Slot


@dataclass(frozen=True, slots=True)
class Phase:
    icon: str
    word: str
    detail: str = ""
    percent: int | None = None


WAITING = Phase("loader-circle", "Waiting for the first byte")
CONNECTED = Phase("loader-circle", "Waiting for the model")
WRITING = Phase("pen-line", "Writing")
THINKING = Phase("brain", "Thinking")
READ = Phase("loader-circle", "Starting to answer")


class PhaseSlot(Slot):
    """The phase and how long it has lasted, in whole seconds."""

    classes = "phase"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.phase: Phase | None = WAITING
        self.since_t = 0
        self.t = 0

    def move(self, phase: Phase | None, t: int, seq: int) -> None:
        """Whether the phase, its figures or the time have changed."""
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
        # In whole seconds, like the text, so that nothing is sent in between.
        whole = milliseconds // 1000 * 1000
        return (
            f"{_words_of(self.phase)}"
            f' <time class="elapsed figure" data-elapsed-ms="{whole}"'
            f' data-since-ms="{self.since_t}">{figures.elapsed(milliseconds)}</time>'
        )


@lru_cache(maxsize=1024)
def _words_of(phase: Phase) -> str:
    """Rendered every second for each live answer and twice for each message, so it is built without a
    template, which would take longer than the rest of the answer."""
    spin = " spin" if phase.icon == "loader-circle" else ""
    word = escape(phase.word)
    parts = [
        f'<svg class="icon{spin}" aria-hidden="true">'
        f'<use href="/static/icons.svg#{phase.icon}"/></svg>',
        f'<span class="word">{word}</span>',
    ]
    if phase.detail:
        parts.append(f'<span class="detail">{escape(phase.detail)}</span>')
    if phase.percent is not None:
        parts.append(
            f'<progress max="100" value="{phase.percent}" aria-label="{word}"></progress>'
            f' <span class="figure">{phase.percent} %</span>'
        )
    return " ".join(parts)


def _phase_of_load(event: events.ModelLoadProgress) -> Phase:
    percent = figures.percent(event.progress)
    return Phase("cpu", "Loading the model", name_of(event.model_instance_id), percent)


def _phase_of_tool(event: events.ToolCallStart) -> Phase:
    return Phase("wrench", "Preparing a tool call", name_of(event.tool))


def _phase_of_call(event: events.ToolCallArguments) -> Phase:
    query = event.arguments.get("query")
    if "search" in event.tool.lower() and isinstance(query, str):
        return Phase("search", "Searching", name_of(query))
    return Phase("wrench", "Calling a tool", name_of(event.tool))


# Steps of research with their own label.
_STEPS = {
    "searching": ("search", "Searching"),
    "search": ("search", "Searching"),
    "reading": ("book-open", "Reading"),
}

_WORKING = ("Working", "Searching", "Reading")


def _phase_of_step(event: events.ActivityStep) -> Phase:
    icon, word = _STEPS.get(event.step, ("activity", "Working"))
    label = name_of(event.label or event.step)
    return Phase(icon, word, label.removeprefix(f"{word}: "))


def goes_on(event: EventBase, phase: Phase | None) -> bool:
    """Whether the phase stays: it names the step that began last, and of several steps at once one may end
    before the others."""
    is_news = isinstance(event, events.ActivityStep) and event.phase not in ("start", "progress")
    return is_news and phase is not None and phase.word in _WORKING


# Event type -> the phase that it begins. Other types do not change the phase.
PHASES: dict[type[EventBase], Callable[..., Phase | None]] = {
    events.ChatStart: lambda event: CONNECTED,
    events.ModelLoadStart: lambda event: Phase(
        "cpu", "Loading the model", name_of(event.model_instance_id)
    ),
    events.ModelLoadProgress: _phase_of_load,
    events.ModelLoadEnd: lambda event: CONNECTED,
    events.PromptProcessingStart: lambda event: Phase("book-open", "Reading the prompt"),
    events.PromptProcessingProgress: lambda event: Phase(
        "book-open", "Reading the prompt", percent=figures.percent(event.progress)
    ),
    events.PromptProcessingEnd: lambda event: READ,
    events.ReasoningStart: lambda event: THINKING,
    events.ReasoningDelta: lambda event: THINKING,
    events.ToolCallStart: _phase_of_tool,
    events.ToolCallArguments: _phase_of_call,
    events.ToolCallSuccess: lambda event: CONNECTED,
    events.ToolCallFailure: lambda event: CONNECTED,
    events.MessageStart: lambda event: WRITING,
    events.MessageDelta: lambda event: WRITING,
    events.RefusalDelta: lambda event: WRITING,
    events.MediaUpdate: lambda event: (
        Phase("image", "Making a picture") if event.state == "partial" else WRITING
    ),
    events.MockupUpdate: lambda event: (
        Phase("layout-template", "Building a mockup") if event.op == "calling" else WRITING
    ),
    events.ActivityStep: _phase_of_step,
    events.AskQuestion: lambda event: Phase("hand", "Waiting for a person"),
    events.ChatEnd: lambda event: None,
}
