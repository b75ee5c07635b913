"""The time of an answer by kind of work, from the times of its events.

A run spends each moment on one thing: the one that its last event began. The time before the
request (the queue, our own work) is in no event; `Share` has it in the run's details.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_noop

from chat import events
from chat.events import EventBase
from chat.rendering.figures import duration, percentage

# Kind -> label, in the order of the bar. The kind is also a CSS class.
KINDS: dict[str, str] = {
    "queue": gettext_noop("Queued"),
    "attempts": gettext_noop("Rejected attempts"),
    "overhead": gettext_noop("Tributary overhead"),
    "first": gettext_noop("Waiting for the model"),
    "load": gettext_noop("Loading the model"),
    "prompt": gettext_noop("Reading the prompt"),
    "reasoning": gettext_noop("Thinking"),
    "tools": gettext_noop("Tools"),
    "work": gettext_noop("Research and other steps"),
    "person": gettext_noop("Waiting for input"),
    "writing": gettext_noop("Writing"),
    "idle": gettext_noop("Idle"),
}
# Width of the bar in units that are smaller than a pixel.
WIDTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A segment of the bar at ``x``, in units of `WIDTH`. A width of 0 is too short to be drawn."""

    kind: str
    name: str
    duration: str
    percent: str
    x: int
    width: int


def shares(spent: Iterable[tuple[str, int]]) -> list[Share]:
    """The bar of milliseconds by kind, without kinds that took no time."""
    known: dict[str, int] = {}
    for kind, milliseconds in spent:
        if milliseconds > 0:
            known[kind] = known.get(kind, 0) + milliseconds
    total, begun = sum(known.values()), 0
    made: list[Share] = []
    for kind in sorted(known, key=list(KINDS).index):
        x = round(WIDTH * begun / total)
        begun += known[kind]
        made.append(
            Share(
                kind=kind,
                name=gettext(KINDS[kind]),
                duration=duration(known[kind]),
                percent=_percent(known[kind] / total),
                x=x,
                width=round(WIDTH * begun / total) - x,
            )
        )
    return made


def _percent(share: float) -> str:
    """A share of the whole; a positive one is never shown as 0."""
    whole = round(100 * share)
    return percentage(whole) if whole else f"< {percentage(1)}"


class Latency:
    """Sums up milliseconds by kind, in constant time per event."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self._kind = "first"
        self._t = 0
        self._last_t = 0
        self._has_token = False

    def add(self, event: EventBase) -> None:
        self.reach(event.t)
        begins = _BEGINS.get(type(event))
        if begins is None:
            return
        kind = begins if isinstance(begins, str) else begins(event)
        if not kind:
            return
        if kind == "idle" and not self._has_token:
            kind = "first"
        elif kind in _TOKENS and event.t:
            # The first events of a continuing run repeat those of the run before it.
            self._has_token = True
        if kind != self._kind:
            self._move(event.t)
            self._kind = kind

    def reach(self, t: int) -> None:
        """Extends the current kind to ``t``, for an event that begins no other."""
        if t > self._last_t:
            self._last_t = t

    def _move(self, t: int) -> None:
        # The end of a run whose runner was lost is not known.
        t = t or self._last_t
        if t > self._t:
            self._spent[self._kind] = self._spent.get(self._kind, 0) + t - self._t
            self._t = t

    def spent(self, t: int) -> list[tuple[str, int]]:
        """Kinds and milliseconds up to ``t``, after which nothing more is added.

        A ``t`` of 0: the end is unknown, and the last event ends the time.
        """
        self._move(t)
        return list(self._spent.items())


_TOKENS = ("reasoning", "tools", "writing")
# Notes do not change the current kind.
_STEPS = {"start": "work", "progress": "work", "done": "idle", "failed": "idle", "note": ""}
_Begins = str | Callable[..., str]

# Event type -> the kind of work that it begins. Other types change nothing; deltas begin their item
# if it has no start.
_BEGINS: dict[type[EventBase], _Begins] = {
    events.ChatStart: "idle",
    events.ModelLoadStart: "load",
    events.ModelLoadProgress: "load",
    events.ModelLoadEnd: "idle",
    events.PromptProcessingStart: "prompt",
    events.PromptProcessingProgress: "prompt",
    events.PromptProcessingEnd: "idle",
    events.ReasoningStart: "reasoning",
    events.ReasoningDelta: "reasoning",
    events.ReasoningEnd: "idle",
    events.ToolCallStart: "tools",
    events.ToolCallDelta: "tools",
    events.ToolCallArguments: "tools",
    events.ToolCallSuccess: "idle",
    events.ToolCallFailure: "idle",
    events.MessageStart: "writing",
    events.MessageDelta: "writing",
    events.MessageEnd: "idle",
    events.RefusalDelta: "writing",
    events.MediaUpdate: "writing",
    events.ArtifactUpdate: "writing",
    events.MockupUpdate: lambda event: "work" if event.op == "calling" else "writing",
    events.ActivityStep: lambda event: _STEPS[event.phase],
    events.AskQuestion: "person",
}
