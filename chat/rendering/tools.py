"""Tool calls: the card, the arguments as they grow, and what came of them."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.utils.safestring import SafeString

from chat.events import FailureMetadata, ProviderInfo, ToolCallFailure, ToolCallStart
from chat.rendering import figures
from chat.rendering.anatomy import (
    SHOWN_CHARACTERS,
    Entry,
    FoldedSlot,
    TextSlot,
    excerpt,
    fill,
    name_of,
    output_excerpt,
    pretty,
)
from chat.rendering.arguments import arguments_of
from chat.rendering.parts import GrowingText, Part, Patches
from chat.rendering.trees import result_of
from chat.rendering.visible import reveal, storable

# One line of a call's arguments, in the card's head.
HINT_CHARACTERS = 90


class Arguments(Part):
    """A call's arguments: text that grows, then, once complete, pretty-printed."""

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
    "invalid_name": "There is no tool of this name.",
    "invalid_arguments": "The arguments are not valid.",
    "execution_failed": "The tool failed.",
    "incomplete": "The call was not finished.",
}

# State -> icon, word, tone.
_TOOL_STATES = {
    "writing": ("loader-circle", "Preparing", "live"),
    "running": ("loader-circle", "Running", "live"),
    "called": ("hourglass", "Called", "wait"),
    "done": ("check", "Done", "good"),
    "failed": ("x", "Failed", "bad"),
    "waiting": ("hourglass", "Waiting for a result", "wait"),
    # The next run goes on with it.
    "paused": ("arrow-down", "Continued below", "calm"),
    "unanswered": ("circle-stop", "No result", "calm"),
}


def _provider(info: ProviderInfo | None) -> str:
    """Who runs it, in words; nothing for a function of ours, which people give the results of."""
    if info is None or info.type == "function":
        return ""
    if info.type == "builtin":
        return "built-in"
    name = name_of(info.plugin_id or info.server_label or info.name or "")
    kind = "MCP server" if "mcp" in info.type else name_of(info.type).replace("_", " ")
    return f"{kind} {name}".strip()


class Tool(Entry):
    """A tool call: name, state and duration in the head, arguments and result in the fold."""

    kind: ClassVar[str] = "tool_call"
    UNNAMED: ClassVar[str] = "tool"

    def __init__(self, id: str, seq: int, *, t: int = 0, is_given: bool = False) -> None:
        super().__init__(id, seq)
        self.started_t = self.ended_t = t
        self.tool = self.UNNAMED
        self.provider = ""
        self.executes = "client"
        self.state = "writing"
        self.hint = ""
        self.is_open = True
        # Part of the element's frame: only its first event decides it.
        self.is_given = is_given
        # The calls in a row of which it is one hear of each state.
        self.on_state: Callable[[Tool, int], None] | None = None
        self.head = TextSlot(f"{id}-head", seq, tag="summary")
        self.arguments = Arguments(f"{id}-args", seq)
        self.outcome = FoldedSlot(f"{id}-outcome", seq, classes="outcome")
        self.hold(self.head, self.arguments, self.outcome)
        self._show_head()

    def frame(self, contents: list[SafeString]) -> str:
        head, arguments, outcome = contents
        return fill(
            "tool",
            id=self.id,
            is_given=self.is_given,
            head=head,
            arguments=arguments,
            outcome=outcome,
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
        """The arguments are complete."""
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
        self.outcome.words = f"Show the result, {figures.count(len(output))} characters"
        self.outcome.show("tool_output", output=partial(result_of, output), is_empty=not output)
        self._finish("done", seq, t)

    def fail(self, event: ToolCallFailure, seq: int) -> None:
        metadata: FailureMetadata = event.metadata
        self.name(metadata.tool_name, metadata.provider_info)
        if metadata.arguments is not None:
            self.call(metadata.arguments, None, seq)
        elif event.arguments_raw:
            self.arguments.settle(excerpt(event.arguments_raw), seq)
        # Nothing of it waits for a fold to open, also behind a result that did.
        self.outcome.size = 0
        self.outcome.show(
            "tool_failure",
            what=_FAILURES.get(metadata.type, "The call failed."),
            reason=reveal(storable(event.reason)),
        )
        self._finish("failed", seq, event.t)

    def conclude(self, seq: int, t: int, status: str) -> None:
        if self.is_open:
            self.is_open = False
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
        self.head.show(
            "tool_head",
            tool=self.tool,
            provider=self.provider,
            hint=self.hint,
            icon=icon,
            word=word,
            tone=tone,
            since=str(self.started_t),
            is_running=is_running,
            duration=figures.duration(milliseconds) if milliseconds else "",
        )
