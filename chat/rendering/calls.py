"""Tool calls in a row: one line for all of them, which opens to their cards."""

from collections import Counter

from django.utils.safestring import SafeString

from chat.rendering import figures
from chat.rendering.anatomy import Entry, fill, safe
from chat.rendering.parts import Patches, Slot, Stack
from chat.rendering.tools import Tool

# Names of tools in the line; a reader of more of them opens it.
NAMED_TOOLS = 4
# States of a call in which the upstream is at work on it, and those in which a person is.
_AT_WORK = ("writing", "running", "called")
_WAITING = ("waiting",)


class CallsHead(Slot):
    """How many calls, of which tools, how long, and what went wrong. Empty for a single one, whose
    card says all that."""

    tag = "summary"
    classes = "calls-head"

    def __init__(self, id: str, seq: int, calls: "Calls") -> None:
        super().__init__(id, seq)
        self._calls = calls

    def content(self) -> str:
        return self._calls.summary()


class Calls(Entry):
    """The cards of calls that follow each other: open while they are the news, then folded.

    As the list of steps, its inside is sent a second time when it folds.
    """

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.head = CallsHead(f"{id}-head", seq, self)
        self.cards = Stack(f"{id}-list", seq, classes="call-list")
        self.hold(self.head, self.cards)
        self._is_folded = False
        self._folded_seq = -1
        # Kept as the calls change: looking through all of them at each change would be quadratic.
        self._states: Counter[str] = Counter()
        self._known: dict[Tool, str] = {}
        self._names: dict[str, None] = {}
        self._began_t = self._ended_t = 0

    def add(self, tool: Tool, seq: int) -> None:
        if not self.cards.children:
            self._began_t = self._ended_t = tool.started_t
        tool.on_state = self._note
        self.cards.add(tool, seq)
        self._note(tool, seq)

    def _note(self, tool: Tool, seq: int) -> None:
        """A call is new, or has another state."""
        before = self._known.get(tool)
        if before is not None:
            self._states[before] -= 1
        self._known[tool] = tool.state
        self._states[tool.state] += 1
        self._names.setdefault(tool.tool)
        self._ended_t = max(self._ended_t, tool.ended_t)
        if len(self._known) > 1:
            self.head.touch(seq)

    def fold(self, seq: int) -> None:
        """Something else follows. A single call is a line already."""
        if not self._is_folded and len(self._known) > 1:
            self._is_folded = True
            self._folded_seq = seq
            self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        for tool in self.cards.children:
            if isinstance(tool, Tool):
                tool.conclude(seq, t, status)
        # Calls that wait for people stay in sight.
        if status != "waiting":
            self.fold(seq)

    def summary(self) -> str:
        count = len(self._known)
        if count < 2:
            return ""
        failed = self._states["failed"]
        at_work = sum(self._states[state] for state in _AT_WORK)
        waiting = sum(self._states[state] for state in _WAITING)
        milliseconds = self._ended_t - self._began_t
        names = [name for name in self._names if name != Tool.UNNAMED]
        return fill(
            "calls_head",
            count=figures.count(count),
            names=", ".join(names[:NAMED_TOOLS]) + ("…" if len(names) > NAMED_TOOLS else ""),
            is_live=bool(at_work),
            waiting=figures.count(waiting) if waiting else "",
            failed=figures.count(failed) if failed else "",
            duration=figures.duration(milliseconds) if milliseconds and not at_work else "",
        )

    def frame(self, contents: list[SafeString]) -> str:
        return f'<div id="{self.id}" class="item calls">{self._inside(contents)}</div>'

    def _inside(self, contents: list[SafeString]) -> str:
        head, cards = contents
        return fill("calls", is_open=not self._is_folded, head=head, cards=cards)

    def patch(self, since: int, patches: Patches) -> None:
        if self._folded_seq > since:
            patches.replace(self.id, self._inside([safe(part.html()) for part in self.parts]))
            return
        super().patch(since, patches)
