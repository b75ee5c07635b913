"""Events to HTML: a whole answer at any moment, and the patches between any two moments."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

from django.utils.safestring import SafeString

from chat import events
from chat.events import Event, EventBase, ItemEvent
from chat.rendering import figures
from chat.rendering.activity import BOOKKEEPING, Activity, Step
from chat.rendering.cards import (
    ITEM_KINDS,
    AlternativeEntry,
    ArtifactCard,
    AskCard,
    Choice,
    Fork,
    Generic,
    MockupCard,
    SettledCard,
)
from chat.rendering.components import Card, Entry, Foldable, TextSlot, safe
from chat.rendering.final_comparison import receipt_of
from chat.rendering.markdown.flow import Flow, Unrendered
from chat.rendering.media import Media
from chat.rendering.messages import (
    ERROR_STATUSES,
    ChoiceEnding,
    ErrorCard,
    choice_notice,
    ending_content,
    suggestions_of,
)
from chat.rendering.parts import Part, Patches, Piece, Stack, packed, partial, pieces_of
from chat.rendering.phases import PHASES, PhaseSlot, goes_on
from chat.rendering.texts import Reasoning, Refusal, Text
from chat.rendering.tool_calls import PROGRAMS, Calls, ToolEntry
from chat.result.deferred_tools import shown_event

# Phases of a message that become a CSS class.
MESSAGE_PHASES = ("commentary", "final_answer")


# Event type -> why it is not visible in the answer.
INVISIBLE: dict[type[EventBase], str] = {
    events.ModelLoadStart: "shown in the phase strip",
    events.ModelLoadProgress: "shown in the phase strip",
    events.ModelLoadEnd: "shown in the phase strip; the time is a figure at the end",
    events.PromptProcessingStart: "shown in the phase strip",
    events.PromptProcessingProgress: "shown in the phase strip",
    events.PromptProcessingEnd: "shown in the phase strip",
    events.UsageUpdate: "the last one is among the figures at the end",
    events.MetaUpdate: "facts for the run's details",
    events.VendorRaw: "unknown to every table; counted here, shown in the run's details",
}

ItemPart = TypeVar("ItemPart", Text, Reasoning, Refusal, ToolEntry, Media)


class Answer:
    """Rendering state of one run: a deterministic function of the events applied.

    ``run_id`` is 32 hex characters; every element id begins with ``r{run_id}``. The page provides
    ``<div id="r{run_id}" class="answer">`` around `snapshot` and an element ``p{run_id}`` around
    `phase`. Without ``keeps_rest``, the text behind what a page shows of a long text is not kept, and
    `part` and `slices` do not have it.
    """

    def __init__(self, run_id: str, *, keeps_rest: bool = True) -> None:
        self.run_id = run_id
        self._keeps_rest = keeps_rest
        self.seq = 0
        self.state = "waiting"
        self.unknown_events = 0
        self._id = f"r{run_id}"
        self._items = Stack(f"{self._id}-items", 0, classes="items")
        self._choices = Stack(f"{self._id}-choices", 0, classes="choices")
        self._phase = PhaseSlot(f"p{run_id}", 0)
        self._ending = TextSlot(f"{self._id}-end", 0)
        self._figures = TextSlot(f"{self._id}-figures", 0)
        self._ending_html: Callable[[], str] = str
        # (choice, item) -> element. Named cards and steps have their own keys.
        self._by_item: dict[tuple[int, int], Entry | Card] = {}
        self._named: dict[tuple[str, str], Part] = {}
        self._stacks: dict[int, Stack] = {0: self._items}
        self._call_ids: set[str] = set()
        # Programs by choice and the id of their call.
        self._programs: dict[tuple[int, str], ToolEntry] = {}
        # The consecutive tool calls at the end of each choice.
        self._calls: dict[int, Calls] = {}
        self._error_card: ErrorCard | None = None
        self._activity: Activity | None = None
        self._last_text: Text | None = None
        # The text of each choice that grows.
        self._texts: dict[int, Text] = {}
        self._unrendered = Unrendered()
        # True if calls are shown as those of the tools that they name.
        self._defers_tools = False

    # --- events ---------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Applies the next event. An event that was applied before changes nothing."""
        seq = event.seq or self.seq + 1
        if seq <= self.seq:
            return
        self.seq = seq
        if self.state == "waiting":
            self.state = "live"
        if self._defers_tools:
            event = shown_event(event)
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        elif type(event) not in INVISIBLE:
            self._add(Generic(self._next_id("x"), seq, event))
        self._move_phase(event)

    def _move_phase(self, event: Event) -> None:
        begin = PHASES.get(type(event))
        phase = self._phase.phase
        if begin is not None and not goes_on(event, phase):
            phase = begin(event)
        self._phase.move(phase, event.t, self.seq)

    def _next_id(self, letter: str) -> str:
        return f"{self._id}-{letter}{self.seq}"

    def _add(self, part: Part, choice: int = 0) -> None:
        if isinstance(part, ToolEntry) and not part.is_given:
            self._calls_here(choice).add(part, self.seq)
            return
        calls = self._calls.pop(choice, None)
        if calls is not None:
            calls.fold(self.seq)
        self._stack(choice).add(part, self.seq)

    def _calls_here(self, choice: int) -> Calls:
        """Consecutive tool calls share one element."""
        if choice not in self._calls:
            prefix = f"{self._id}-c{choice}-g" if choice else f"{self._id}-g"
            calls = Calls(f"{prefix}{self.seq}", self.seq)
            self._stack(choice).add(calls, self.seq)
            self._calls[choice] = calls
        return self._calls[choice]

    def _stack(self, choice: int) -> Stack:
        if choice not in self._stacks:
            if not self._choices.children:
                self._choices.add(Choice(self._id, self.seq, 0), self.seq)
            self._choices.add(Choice(self._id, self.seq, choice), self.seq)
            alternative = AlternativeEntry(f"{self._id}-c{choice}", self.seq, choice)
            self._items.add(alternative, self.seq)
            self._stacks[choice] = alternative.items
        return self._stacks[choice]

    def _item(self, event: ItemEvent, kind: type[ItemPart], **more: Any) -> ItemPart:
        """The element of an item; created with ``more`` if it does not exist yet."""
        key = (event.choice, event.item)
        found = self._by_item.get(key)
        if type(found) is kind:
            return found
        prefix = f"{self._id}-c{event.choice}" if event.choice else self._id
        suffix = "" if found is None else f"-x{self.seq}"
        made = kind(f"{prefix}-i{event.item}{suffix}", self.seq, t=event.t, **more)
        if kind is Text and self._activity is not None:
            self._activity.fold(self.seq)
        self._by_item[key] = made
        if isinstance(made, Text):
            self._begin_text(made, event.choice)
        self._add(made, event.choice)
        return made

    def _begin_text(self, text: Text, choice: int) -> None:
        self._last_text = self._texts[choice] = text
        text.flow.keeps_rest = self._keeps_rest
        text.flow.unrendered = self._unrendered

    def on_reasoning_start(self, event: events.ReasoningStart) -> None:
        self._item(event, Reasoning).name_kind(event.kind, self.seq)

    def on_reasoning_delta(self, event: events.ReasoningDelta) -> None:
        self._item(event, Reasoning).add(event.content, self.seq, event.t)

    def on_reasoning_end(self, event: events.ReasoningEnd) -> None:
        self._item(event, Reasoning).finish(self.seq, event.t)

    def on_message_start(self, event: events.MessageStart) -> None:
        item = self._item(event, Text)
        # The phase is part of the frame of the element, which is sent once.
        if item.opened_seq == self.seq and event.phase in MESSAGE_PHASES:
            item.phase = event.phase

    def on_message_delta(self, event: events.MessageDelta) -> None:
        item = self._item(event, Text)
        if item.is_above_card:
            item.is_above_card = False
            if item.is_open and item.can_part(event.content):
                item = self._below_card(event, item)
        item.add(event.content, self.seq)

    def _below_card(self, event: ItemEvent, above: Text) -> Text:
        """A card stands where it was made: the message goes on below it."""
        prefix = f"{self._id}-c{event.choice}" if event.choice else self._id
        below = Text(f"{prefix}-i{event.item}-x{self.seq}", self.seq, t=event.t)
        below.phase, below.above = above.phase, above
        below.starts_at = above.starts_at + above.length
        above.finish(self.seq, event.t)
        if self._activity is not None:
            self._activity.fold(self.seq)
        self._by_item[(event.choice, event.item)] = below
        self._begin_text(below, event.choice)
        self._add(below, event.choice)
        return below

    def has_begun_below_card(self, event: events.MessageDelta) -> bool:
        """Returns whether this event, the last one, is the first of its message below a card."""
        part = self._by_item.get((event.choice, event.item))
        return isinstance(part, Text) and part.above is not None and part.opened_seq == self.seq

    def on_message_end(self, event: events.MessageEnd) -> None:
        self._item(event, Text).finish(self.seq)

    def on_refusal(self, event: events.RefusalDelta) -> None:
        item = self._item(event, Refusal)
        item.name_category(event.category, self.seq)
        item.add(event.content, self.seq)

    def on_citation(self, event: events.CitationAdd) -> None:
        found = self._by_item.get((event.choice, event.item))
        item = found if isinstance(found, Text) else self._item(event, Text)
        end = event.citation.end
        while item.above is not None and end is not None and end <= item.starts_at:
            item = item.above
        item.cite(event.citation, self.seq)

    def on_replay(self, event: events.ReplayData) -> None:
        """Opaque data for the next request is never sent to a browser, only its size."""
        found = self._by_item.get((event.choice, -1 if event.item is None else event.item))
        if isinstance(found, Reasoning):
            found.seal(event.data, self.seq)

    def on_logprobs(self, event: events.LogprobsAdd) -> None:
        found = self._by_item.get((event.choice, event.item))
        if type(found) is Text and event.target == "message":
            found.odds.add(event.tokens)
            if not found.is_open:
                found.odds.finish(self.seq)

    def on_start(self, event: events.ChatStart) -> None:
        self._defers_tools = event.defers_tools

    def on_tool_start(self, event: events.ToolCallStart) -> None:
        is_program = event.executes == "upstream" and event.tool in PROGRAMS
        program = self._programs.get((event.choice, event.caller or ""))
        tool = self._item(event, ToolEntry, is_program=is_program, program=program)
        tool.start(event, self.seq)
        if event.call_id:
            self._call_ids.add(event.call_id)
            if is_program:
                self._programs.setdefault((event.choice, event.call_id), tool)

    def on_tool_delta(self, event: events.ToolCallDelta) -> None:
        self._item(event, ToolEntry).add(event.fragment, self.seq)

    def on_tool_arguments(self, event: events.ToolCallArguments) -> None:
        tool = self._item(event, ToolEntry)
        tool.name(event.tool, event.provider_info)
        tool.call(event.arguments, event.arguments_raw, self.seq)

    def _called(self, event: ItemEvent) -> ToolEntry:
        """The call that a result belongs to. If this run did not make it, the previous run did, and a person
        has given the result."""
        is_known = (event.choice, event.item) in self._by_item
        return self._item(event, ToolEntry, is_given=not is_known)

    def on_tool_success(self, event: events.ToolCallSuccess) -> None:
        tool = self._called(event)
        tool.name(event.tool, event.provider_info)
        if event.arguments or tool.arguments.final is None:
            tool.call(event.arguments, None, self.seq)
        tool.succeed(event.output, self.seq, event.t)

    def on_tool_failure(self, event: events.ToolCallFailure) -> None:
        self._called(event).fail(event, self.seq)

    def on_media(self, event: events.MediaUpdate) -> None:
        self._item(event, Media).update(event, self.seq)

    def on_error(self, event: events.Error) -> None:
        self._error_card = ErrorCard(self._next_id("e"), self.seq, event.error)
        self._add(self._error_card)

    def on_artifact(self, event: events.ArtifactUpdate) -> None:
        self._card("artifact", event.artifact_id, ArtifactCard).update(event, self.seq)
        self._part_text()

    def on_mockup(self, event: events.MockupUpdate) -> None:
        # A bundle is announced by its identifier; later events also have its id.
        names = [name for name in (event.bundle_id, event.identifier) if name]
        known = [name for name in names if ("mockup", name) in self._named]
        card = self._card("mockup", (known or names or [""])[0], MockupCard)
        for name in names:
            self._named["mockup", name] = card
        card.update(event, self.seq)
        self._part_text()

    def _part_text(self) -> None:
        text = self._last_text
        if type(text) is Text and text.parent is self._items:
            text.is_above_card = True

    def _card(self, family: str, name: str, kind: type["NamedCard"]) -> "NamedCard":
        found = self._named.get((family, name))
        if isinstance(found, kind):
            return found
        card = kind(self._next_id("a"), self.seq)
        self._named[family, name] = card
        self._add(card)
        return card

    def on_question(self, event: events.AskQuestion) -> None:
        self._add(AskCard(self._next_id("q"), self.seq, event))

    def on_fork(self, event: events.ContextFork) -> None:
        self._add(Fork(self._next_id("f"), self.seq, event))

    def on_step(self, event: events.ActivityStep) -> None:
        if event.family == "question":
            self._add(SettledCard(self._next_id("s"), self.seq, event))
            return
        if event.step in BOOKKEEPING and event.phase in ("done", "note"):
            return
        key = (event.family, event.ref or event.step)
        found = self._named.get(key)
        if found is None and event.ref in self._call_ids:
            # The card of the call shows its progress.
            return
        activity = self._activity_here()
        # A note neither begins nor ends a step.
        is_news_of_it = event.phase not in ("start", "note")
        if isinstance(found, Step) and found.is_open and is_news_of_it:
            activity.update(found, event, self.seq)
            return
        if part := activity.takes(event, self.seq):
            if event.phase != "note":
                self._named[key] = part
            return
        step = Step(self._next_id("t"), self.seq, event)
        if event.phase != "note":
            self._named[key] = step
        activity.add(step, event, self.seq)

    def _activity_here(self) -> Activity:
        """The list of all steps of the run, at the place of the first step."""
        if self._activity is None:
            self._activity = Activity(self._next_id("l"), self.seq)
            self._add(self._activity)
        return self._activity

    def on_vendor(self, event: events.VendorRaw) -> None:
        self.unknown_events += 1

    def on_end(self, event: events.ChatEnd) -> None:
        result = event.result
        self.state = result.ext.status
        is_paused = result.ext.stop is not None and result.ext.stop.reason == "pause"
        for part in list(self._items.children):
            if isinstance(part, Entry | Card):
                part.conclude(self.seq, event.t, "paused" if is_paused else self.state)
        for alternative in result.ext.alternatives:
            notice = choice_notice(alternative.stop) if alternative.stop is not None else None
            if notice is not None:
                ending = ChoiceEnding(f"{self._id}-c{alternative.choice}-end", self.seq, notice)
                self._stack(alternative.choice).add(ending, self.seq)
        has_output = any(not isinstance(part, ErrorCard) for part in self._items.children)
        has_error_card = self._error_card is not None
        if self._error_card is not None and self.state in ERROR_STATUSES and result.ext.error:
            self._error_card.offer_retry(self.run_id, self.seq)
        # A copy without the result's text, which would stay in memory as long as the answer.
        ext = events.Extension(
            status=result.ext.status, stop=result.ext.stop, error=result.ext.error
        )
        self._ending_html = lambda: ending_content(
            ext, self.run_id, has_output=has_output, has_error_card=has_error_card
        )
        self._ending.touch(self.seq)
        receipt = receipt_of(result)
        differs = receipt is not None and not receipt.agrees
        self._figures.set_content(
            "figures",
            summary=figures.summary_of(result, event.t, has_output=has_output),
            differs=differs,
            unreadable=result.ext.unreadable_frames,
            suggestions=suggestions_of(result.ext),
            unknown_reason=result.ext.stop.raw if result.ext.stop.reason == "unknown" else "",
        )
        self._figures.touch(self.seq)

    # --- HTML ---------------------------------------------------------------------------------

    @property
    def open_length(self) -> int:
        """The length of the longest open block in characters."""
        return max((text.flow.open_length for text in self._texts.values()), default=0)

    @property
    def unrendered(self) -> int:
        """Characters that the next HTML is made of: the blocks that have closed since `is_rendered`, and what
        is rendered again of the open ones."""
        again = (text.flow.unsettled_length for text in self._texts.values())
        return self._unrendered.characters + max(again, default=0)

    def is_rendered(self) -> None:
        """The HTML of everything was made."""
        self._unrendered.characters = 0

    @property
    def has_words(self) -> bool:
        """True if there is any text that could be copied."""
        return any(isinstance(part, Text) for part in self._by_item.values())

    def phase(self) -> SafeString:
        """The content of the phase strip: icon, label, progress and running time."""
        return safe(self._phase.content())

    def part(self, id: str) -> SafeString | None:
        """The content of a fold that `snapshot` left out; ``None`` if there is no such part."""
        for part in self._parts():
            if isinstance(part, Foldable) and part.id == id:
                return part.whole()
            if isinstance(part, Flow) and (html := part.slice(id)) is not None:
                return html
        return None

    def unfold(self) -> None:
        """Makes `snapshot` contain everything, for pages that cannot load content later."""
        for part in self._parts():
            if isinstance(part, Foldable | Flow):
                part.is_inline = True

    def slices(self) -> Iterator[str]:
        """The HTML of the slices of long texts that a page loads on request."""
        return chain.from_iterable(
            part.slices() for part in self._parts() if isinstance(part, Flow)
        )

    def _parts(self) -> Iterator[Part]:
        waiting: list[Part] = [self._items]
        while waiting:
            part = waiting.pop()
            yield part
            if isinstance(part, Entry):
                waiting += part.parts
            elif isinstance(part, Stack):
                waiting += part.children

    def _frame(self, items: str) -> str:
        id = self._id
        return (
            f"{self._choices.html()}{items}"
            f'<div id="{id}-end" class="ending">{self._ending_html()}</div>'
            f'<div id="{id}-figures" class="figures">{self._figures.content()}</div>'
        )

    def snapshot(self) -> SafeString:
        """The current content of the answer's element."""
        return safe(self._frame(self._items.html()))

    def patches_since(self, seq: int) -> str:
        """The patches that update a page from the snapshot at `seq` to the current one."""
        return self.changes_since(seq).render()

    def changes_since(self, seq: int) -> Patches:
        """The same, not rendered yet."""
        patches = Patches()
        if self._choices.changed_seq > seq:
            self._choices.patch(seq, patches)
        if self._items.changed_seq > seq:
            self._items.patch(seq, patches)
        if self._ending.changed_seq > seq:
            patches.replace(self._ending.id, self._ending_html())
            patches.replace(self._figures.id, self._figures.content())
        if self._phase.changed_seq > seq:
            patches.replace(self._phase.id, self._phase.content())
        return patches

    def replacement(self, limit_bytes: int = 65536) -> list[str]:
        """Frames for a page whose cursor is unknown: the first replaces the answer, the others append to it.
        A block larger than the limit stays whole."""
        first, rest = self._first_frame(limit_bytes)
        return [first, *packed(rest, limit_bytes)]

    def _first_frame(self, limit_bytes: int) -> tuple[str, Iterator[Piece]]:
        """The first frame with as many items as fit, and pieces of the others."""
        room = limit_bytes - len(self._frame("").encode())
        shown: list[str] = []
        children = list(self._items.children)
        while children:
            html = children[0].html()
            room -= len(html.encode())
            if room < 0:
                break
            shown.append(html)
            children.pop(0)
        frame = self._frame(self._items.wrap("".join(shown)))
        text = partial(self._id, "innerHTML", frame)
        text += partial(self._phase.id, "innerHTML", self._phase.content())
        pieces = chain.from_iterable(
            pieces_of(child, self._items.id, limit_bytes) for child in children
        )
        return text, pieces


NamedCard = TypeVar("NamedCard", ArtifactCard, MockupCard)

HANDLERS: dict[type[EventBase], Callable[..., None]] = {
    events.ChatStart: Answer.on_start,
    events.ReasoningStart: Answer.on_reasoning_start,
    events.ReasoningDelta: Answer.on_reasoning_delta,
    events.ReasoningEnd: Answer.on_reasoning_end,
    events.MessageStart: Answer.on_message_start,
    events.MessageDelta: Answer.on_message_delta,
    events.MessageEnd: Answer.on_message_end,
    events.RefusalDelta: Answer.on_refusal,
    events.CitationAdd: Answer.on_citation,
    events.LogprobsAdd: Answer.on_logprobs,
    events.ReplayData: Answer.on_replay,
    events.ToolCallStart: Answer.on_tool_start,
    events.ToolCallDelta: Answer.on_tool_delta,
    events.ToolCallArguments: Answer.on_tool_arguments,
    events.ToolCallSuccess: Answer.on_tool_success,
    events.ToolCallFailure: Answer.on_tool_failure,
    events.MediaUpdate: Answer.on_media,
    events.Error: Answer.on_error,
    events.ArtifactUpdate: Answer.on_artifact,
    events.MockupUpdate: Answer.on_mockup,
    events.AskQuestion: Answer.on_question,
    events.ContextFork: Answer.on_fork,
    events.ActivityStep: Answer.on_step,
    events.VendorRaw: Answer.on_vendor,
    events.ChatEnd: Answer.on_end,
}

__all__ = ["HANDLERS", "INVISIBLE", "ITEM_KINDS", "Answer"]
