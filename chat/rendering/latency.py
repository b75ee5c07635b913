"""Where the time of an answer went, measured by the times of its own events.

A run spends each moment on one thing: the one that its last event began. What happened before the
request was sent (the line, our own work) is in no event; `Share` holds it in the run's details.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chat import events
from chat.events import EventBase
from chat.rendering.figures import duration

# Kind -> what people call it, in the order of the bar. The kind is a class of the style sheet too.
KINDS: dict[str, str] = {
    "queue": "waiting in line",
    "attempts": "refused attempts",
    "overhead": "our own work",
    "first": "until the first token",
    "load": "loading the model",
    "prompt": "reading the prompt",
    "reasoning": "thinking",
    "tools": "tools",
    "work": "research and other steps",
    "person": "waiting for a person",
    "writing": "writing",
    "idle": "between, with nothing said",
}
# Units of the bar's width: fine enough that rounding is below a pixel.
WIDTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One piece of the bar: from ``x``, ``width`` wide, in units of `WIDTH`; a width of 0 is too
    short to be drawn."""

    kind: str
    name: str
    duration: str
    percent: str
    x: int
    width: int


def shares(spent: Iterable[tuple[str, int]]) -> list[Share]:
    """The bar of kinds and milliseconds. What took no time is left out."""
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
                name=KINDS[kind],
                duration=duration(known[kind]),
                percent=_percent(known[kind] / total),
                x=x,
                width=round(WIDTH * begun / total) - x,
            )
        )
    return made


def _percent(share: float) -> str:
    """Something that took time never is nothing."""
    return f"{round(100 * share) or '< 1'} %"


class Latency:
    """Adds up milliseconds by what was going on; each event costs one look and one addition."""

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
            # What a follow-up run begins with was said by the run before it, at no time of this.
            self._has_token = True
        if kind != self._kind:
            self._move(event.t)
            self._kind = kind

    def reach(self, t: int) -> None:
        """At ``t`` the run was still at what it was at: an event that begins nothing came."""
        if t > self._last_t:
            self._last_t = t

    def _move(self, t: int) -> None:
        # Whoever closes what a lost runner left open cannot know when it ended.
        t = t or self._last_t
        if t > self._t:
            self._spent[self._kind] = self._spent.get(self._kind, 0) + t - self._t
            self._t = t

    def spent(self, t: int) -> list[tuple[str, int]]:
        """Kinds and milliseconds up to ``t``, after which nothing more is added.

        A ``t`` of 0: nobody saw the end, and what is told ends with the last event.
        """
        self._move(t)
        return list(self._spent.items())


_TOKENS = ("reasoning", "tools", "writing")
# A note says something about what is going on, and changes nothing.
_STEPS = {"start": "work", "progress": "work", "done": "idle", "failed": "idle", "note": ""}
_Begins = str | Callable[..., str]

# Event type -> what is going on from there. Types that are not here change nothing: deltas come
# after the start of their item, and begin it where nobody said so.
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
