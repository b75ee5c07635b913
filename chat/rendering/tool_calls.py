"""Tool calls: the group of consecutive calls, the card, growing arguments, the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop, ngettext

from chat.events import (
    UNFINISHED_CALL,
    FailureMetadata,
    ProviderInfo,
    ToolCallFailure,
    ToolCallStart,
)
from chat.rendering import figures
from chat.rendering.components import (
    SHOWN_CHARACTERS,
    Entry,
    FoldedSlot,
    TextSlot,
    excerpt,
    excerpt_of_json,
    fill,
    name_of,
    output_excerpt,
    pretty,
    safe,
)
from chat.rendering.json_tree import result_of
from chat.rendering.markdown.highlight import LANGUAGES
from chat.rendering.parts import GrowingText, Part, Patches, Slot, Stack
from chat.rendering.safety import reveal, storable

# At most this many multi-line arguments are shown separately; the others stay in the JSON.
TEXTS = 8
# Languages of arguments that are not named after their language.
_USUAL_LANGUAGES = {"command": "bash", "cmd": "bash", "script": "bash", "query": "sql"}
_LANGUAGES_OF_TOOLS = ("python", "javascript", "bash", "sql")


def arguments_of(arguments: dict[str, Any], tool: str) -> SafeString:
    """The arguments as JSON, and multi-line texts below it one by one, because code with escaped newlines
    cannot be read."""
    texts: dict[str, str] = {}
    left = SHOWN_CHARACTERS
    for name, value in arguments.items():
        if len(texts) < TEXTS and left > 0 and isinstance(value, str) and "\n" in value.strip():
            texts[name] = value
            left -= len(value)
    rest = {name: value for name, value in arguments.items() if name not in texts}
    shown = [excerpt_of_json(rest)] if rest or not texts else []
    for name, text in texts.items():
        block = excerpt(text.strip("\n"), _language(name.lower(), tool.lower()))
        shown.append(fill("argument", name=name_of(name), block=block))
    return safe("".join(shown))


def _language(name: str, tool: str) -> str:
    if name in LANGUAGES:
        return name
    if tool == "code_interpreter":
        return "python"
    if name == "code":
        return next((language for language in _LANGUAGES_OF_TOOLS if language in tool), "")
    return _USUAL_LANGUAGES.get(name, "")


# Characters of the arguments in the head of the card.
HINT_CHARACTERS = 90


class Arguments(Part):
    """The arguments of a call: growing text, pretty-printed when complete."""

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.text = GrowingText()
        self.length = 0
        self.final: SafeString | None = None
        self._shaped_seq = seq

    def add(self, fragment: str, seq: int) -> None:
        if self.final is not None:
            return
        if not self.length:
            self._shaped_seq = seq
        room = max(SHOWN_CHARACTERS - self.length, 0)
        self.text.add(reveal(storable(fragment))[:room], seq)
        self.length += len(fragment)
        self.touch(seq)

    def settle(self, html: SafeString, seq: int) -> None:
        self.final = html
        self._shaped_seq = seq
        self.touch(seq)

    def content(self) -> str:
        if self.final is not None:
            return self.final
        if not self.length:
            return ""
        text = self.text.since(-1)
        return f'<pre class="growing" tabindex="0"><code id="{self.id}-text">{text}</code></pre>'

    def html(self) -> str:
        return f'<div id="{self.id}" class="arguments">{self.content()}</div>'

    def patch(self, since: int, patches: Patches) -> None:
        if self._shaped_seq > since:
            patches.replace(self.id, self.content())
        else:
            patches.append(f"{self.id}-text", self.text.since(since))


_FAILURES = {
    "invalid_name": gettext_noop("This tool doesn’t exist."),
    "invalid_arguments": gettext_noop("The arguments aren’t valid."),
    "execution_failed": gettext_noop("The tool failed."),
    "incomplete": gettext_noop("The call wasn’t completed."),
}
_ANY_FAILURE = gettext_noop("The call failed.")

# Built-in tools of servers that run code, which may call further tools: OpenAI, Anthropic.
PROGRAMS = frozenset(("program", "code_execution"))

# State -> icon, label, tone.
_TOOL_STATES = {
    "writing": ("loader-circle", gettext_noop("Preparing…"), "live"),
    "running": ("loader-circle", gettext_noop("Running…"), "live"),
    "called": ("hourglass", gettext_noop("Called"), "wait"),
    "done": ("check", gettext_noop("Done"), "good"),
    "failed": ("x", gettext_noop("Failed"), "bad"),
    "waiting": ("hourglass", gettext_noop("Waiting for a result"), "wait"),
    # The next run continues it.
    "paused": ("arrow-down", gettext_noop("Continued below"), "calm"),
    "unanswered": ("circle-stop", gettext_noop("No result"), "calm"),
}


def _reason(text: str) -> str:
    """The words of a tool or server, and translated where they are ours."""
    return gettext(text) if text == UNFINISHED_CALL else reveal(storable(text))


def _provider(info: ProviderInfo | None) -> str:
    """A label of who runs the tool; empty for the team's tools, whose results people give."""
    if info is None or info.type == "function":
        return ""
    if info.type == "builtin":
        return gettext("Built-in")
    name = name_of(info.plugin_id or info.server_label or info.name or "")
    kind = gettext("MCP server") if "mcp" in info.type else name_of(info.type).replace("_", " ")
    return f"{kind} {name}".strip()


class ToolEntry(Entry):
    """A tool call: name, state and duration in the head, arguments and result in the fold."""

    kind: ClassVar[str] = "tool_call"
    UNNAMED: ClassVar[str] = "tool"

    def __init__(
        self,
        id: str,
        seq: int,
        *,
        t: int = 0,
        is_given: bool = False,
        is_program: bool = False,
        program: ToolEntry | None = None,
    ) -> None:
        super().__init__(id, seq)
        self.started_t = self.ended_t = t
        # The program whose code made this call, and the calls that this program made.
        self.program = program
        self.called = Stack(f"{id}-called", seq, classes="call-list") if is_program else None
        self.tool = self.UNNAMED
        self.provider = ""
        self.executes = "client"
        self.state = "writing"
        self.hint = ""
        self.is_open = True
        # Part of the frame, so only the first event can set it.
        self.is_given = is_given
        # The group of consecutive calls, which is told of each state.
        self.on_state: Callable[[ToolEntry, int], None] | None = None
        self.head = TextSlot(f"{id}-head", seq, tag="summary")
        self.arguments = Arguments(f"{id}-args", seq)
        self.outcome = FoldedSlot(f"{id}-outcome", seq, classes="outcome")
        self.hold(self.head, self.arguments, self.outcome, *filter(None, (self.called,)))
        self._show_head()

    def frame(self, contents: list[SafeString]) -> str:
        head, arguments, outcome, *called = contents
        return fill(
            "tool",
            id=self.id,
            is_given=self.is_given,
            head=head,
            arguments=arguments,
            outcome=outcome,
            called=called[0] if called else "",
        )

    def name(self, tool: str, provider: ProviderInfo | None) -> None:
        self.tool = name_of(tool) or self.tool
        self.provider = _provider(provider) or self.provider

    def start(self, event: ToolCallStart, seq: int) -> None:
        self.executes = event.executes
        self.name(event.tool, event.provider_info)
        self._change_head(seq)

    def add(self, fragment: str, seq: int, t: int = 0) -> None:
        self.arguments.add(fragment, seq)

    def call(self, arguments: dict[str, Any], raw: str | None, seq: int) -> None:
        """Sets the complete arguments."""
        is_read = bool(arguments) or not raw
        shown = arguments_of(arguments, self.tool) if is_read else output_excerpt(raw or "")
        self.arguments.settle(shown, seq)
        hint = name_of(pretty(arguments, None)) if arguments else ""
        self.hint = hint if len(hint) <= HINT_CHARACTERS else f"{hint[:HINT_CHARACTERS]}…"
        if self.is_open:
            self.state = "running" if self.executes == "upstream" else "called"
        self._change_head(seq)

    def succeed(self, output: str, seq: int, t: int) -> None:
        self.outcome.size = len(output)
        words = ngettext(
            "Show the result (%(count)s character)",
            "Show the result (%(count)s characters)",
            len(output),
        )
        self.outcome.words = words % {"count": figures.count(len(output))}
        self.outcome.set_content(
            "tool_output", output=partial(result_of, output), is_empty=not output
        )
        self._finish("done", seq, t)

    def fail(self, event: ToolCallFailure, seq: int) -> None:
        metadata: FailureMetadata = event.metadata
        self.name(metadata.tool_name, metadata.provider_info)
        if metadata.arguments is not None:
            self.call(metadata.arguments, None, seq)
        elif event.arguments_raw:
            self.arguments.settle(excerpt(event.arguments_raw), seq)
        # An error stands in the page, even if the result is loaded on request.
        self.outcome.size = 0
        self.outcome.set_content(
            "tool_failure",
            what=gettext(_FAILURES.get(metadata.type, _ANY_FAILURE)),
            reason=_reason(event.reason),
        )
        self._finish("failed", seq, event.t)

    def conclude(self, seq: int, t: int, status: str) -> None:
        if self.is_open:
            self.is_open = False
            if status == "waiting" and self.executes == "upstream":
                # The server goes on with it once it has the results of people.
                status = "paused"
            self.state = status if status in ("waiting", "paused") else "unanswered"
            self._change_head(seq)

    def _finish(self, state: str, seq: int, t: int) -> None:
        self.state = state
        self.is_open = False
        self.ended_t = max(t, self.started_t)
        self.outcome.touch(seq)
        self._change_head(seq)

    def _change_head(self, seq: int) -> None:
        self._show_head()
        self.head.touch(seq)
        if self.on_state is not None:
            self.on_state(self, seq)

    def _show_head(self) -> None:
        icon, word, tone = _TOOL_STATES[self.state]
        milliseconds = self.ended_t - self.started_t
        is_running = tone == "live"
        self.head.set_content(
            "tool_head",
            tool=self.tool,
            provider=self.provider,
            hint=self.hint,
            icon=icon,
            word=gettext(word),
            tone=tone,
            since=str(self.started_t),
            is_running=is_running,
            duration=figures.duration(milliseconds) if milliseconds else "",
        )


NAMED_TOOLS = 4
# States in which the upstream works on a call, and in which a person does.
_AT_WORK = ("writing", "running", "called")
_WAITING = ("waiting",)


class CallsHead(Slot):
    """The number of calls, their tools, duration and failures. Empty for a single call, whose card shows
    that."""

    tag = "summary"
    classes = "calls-head"

    def __init__(self, id: str, seq: int, calls: Calls) -> None:
        super().__init__(id, seq)
        self._calls = calls

    def content(self) -> str:
        return self._calls.summary()


class Calls(Entry):
    """The cards of consecutive calls: open while they are the newest part, then folded.

    As the list of steps, its inside is sent a second time when it folds.
    """

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.head = CallsHead(f"{id}-head", seq, self)
        self.cards = Stack(f"{id}-list", seq, classes="call-list")
        self.hold(self.head, self.cards)
        self._is_folded = False
        self._folded_seq = -1
        # Counted incrementally, because counting all calls at each change would be quadratic.
        self._states: Counter[str] = Counter()
        self._known: dict[ToolEntry, str] = {}
        self._names: dict[str, None] = {}
        self._began_t = self._ended_t = 0

    def add(self, tool: ToolEntry, seq: int) -> None:
        """Adds a call, below the program that made it if that is one of this group."""
        if not self.cards.children:
            self._began_t = self._ended_t = tool.started_t
        tool.on_state = self._note
        program = tool.program if tool.program in self._known else None
        stack = self.cards if program is None or program.called is None else program.called
        stack.add(tool, seq)
        self._note(tool, seq)

    def _note(self, tool: ToolEntry, seq: int) -> None:
        """Called for a new call and for each change of state."""
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
        """Folds the group because another part follows. A single call already is one line."""
        if not self._is_folded and len(self._known) > 1:
            self._is_folded = True
            self._folded_seq = seq
            self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        for tool in self._known:
            tool.conclude(seq, t, status)
        # Calls that wait for people stay visible.
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
        names = [name for name in self._names if name != ToolEntry.UNNAMED]
        return fill(
            "calls_head",
            count=count,
            count_shown=figures.count(count),
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
