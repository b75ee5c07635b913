"""Output items of the Responses API while they arrive: messages, reasoning and other items that are
no calls."""

from collections.abc import Callable, Mapping
from typing import Literal

from chat.dialects.items import Item, ItemTracker
from chat.dialects.openai_responses.values import Received, citation_of, indexes_of
from chat.dialects.reading import as_text
from chat.dialects.stream import StreamParser, object_of, objects_of, text_of
from chat.dialects.thinking import Mode, ThinkSplitter, has_lone_closing
from chat.events import (
    ActivityStep,
    CitationAdd,
    Json,
    JsonObject,
    LogprobsAdd,
    ReasoningKind,
    ReplayData,
)

Phase = Literal["start", "progress", "done", "failed", "note"]
# The details view only counts further ones.
_MOST_DIFFERENCES = 20
# Whole texts that are compared with what came; each comparison costs as much as the text is long.
_MOST_WHOLES = 20


class Surroundings:
    """The state shared by all items of one answer."""

    def __init__(self, parser: StreamParser, think_mode: Mode) -> None:
        self.parser = parser
        self.think_mode = think_mode
        # The content of reasoning items, if the response announces it.
        self.shows_summary = True
        self.has_reasoning = False
        self.differences: list[JsonObject] = []

    @property
    def tracker(self) -> ItemTracker:
        return self.parser.tracker

    def differ(self, item: "OutputItem", member: str) -> None:
        """Reports a final value that differs from the stream; the stream is the record."""
        difference = {"item": item.id, "type": item.kind, "member": member}
        if len(self.differences) < _MOST_DIFFERENCES and difference not in self.differences:
            self.differences.append(difference)


class OutputItem:
    """One item of ``output``: announced, perhaps streamed, done, and repeated at the end.

    Subclasses implement ``on_added``, ``on_whole`` (which may be called more than once and then
    adds only what is missing) and ``on_end``.
    """

    # True if its announcement is complete already.
    is_announced_whole = False

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        self.around = around
        self.kind = kind
        self.id = identity
        self.index = index
        self.is_done = False
        # True if an item of the object at the end was matched with this one.
        self.is_matched = False
        self._wire: JsonObject = {}
        self._has_ended = False
        self._is_growing = False
        self._step: tuple[str, str, str] | None = None

    @property
    def tracker(self) -> ItemTracker:
        return self.around.parser.tracker

    @property
    def ref(self) -> str | None:
        """The id that steps about this item refer to."""
        return self.id or None

    def add(self, item: JsonObject) -> None:
        self._wire = item
        self.on_added(item)

    def grow(self, item: JsonObject) -> None:
        """The item so far, from servers without deltas: its texts are the whole so far, or only
        what is new."""
        self._is_growing = True
        self.add(item)
        self._is_growing = False

    def finish(self, item: JsonObject) -> None:
        """``output_item.done``, or the item of the object at the end."""
        self.on_whole(item)
        self.close_step()
        if not self.is_done:
            self._wire = item
            self.is_done = True

    def close_item(self, *, is_complete: bool) -> None:
        """Ends the item; missing parts stay missing."""
        if not self._has_ended:
            self._has_ended = True
            self.on_end(is_complete=is_complete)
            if is_complete:
                self.close_step()

    def native(self) -> JsonObject | None:
        """The item as the next request may send it back; ``None`` if that has no use."""
        if self.is_done:
            return self._wire
        grown = self.grown()
        if not grown and not (self.is_announced_whole and self._wire):
            return None
        return {**self._wire, "type": self.kind, **grown}

    def agrees_with(self, item: JsonObject) -> bool:
        """Returns whether an item of the same type could be this one with another id."""
        return True

    def step(self, family: str, step: str, phase: Phase, label: str, detail: Json = None) -> None:
        self._step = (family, step, label) if phase in ("start", "progress") else None
        self.tracker.emit(
            ActivityStep(
                family=family, step=step, phase=phase, label=label, ref=self.ref, detail=detail
            )
        )

    def close_step(self) -> None:
        if self._step is not None:
            family, step, label = self._step
            self.step(family, step, "done", label)

    # --- for subclasses ------------------------------------------------------------------

    def on_added(self, item: JsonObject) -> None:
        """The item was announced, often empty."""

    def on_whole(self, item: JsonObject) -> None:
        """The item as a whole."""

    def on_end(self, *, is_complete: bool) -> None:
        """The answer has ended; an item that is not done ends with what it has."""

    def grown(self) -> JsonObject:
        """Members that were streamed, for an item that was never sent as a whole."""
        return {}


class MessageState(OutputItem):
    """Text and refusals. The message starts with its first text: the first thing may be a reasoning
    tag, and a part without text is no item."""

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        self.phase: str | None = None
        self.message: Item | None = None
        self._thought: Item | None = None
        self._refusal: Item | None = None
        self._texts: dict[int, Received] = {}
        self._refusals: dict[int, Received] = {}
        self._splitter = ThinkSplitter(around.think_mode)
        if around.has_reasoning:
            self._splitter.be_strict()
        self._wholes_left = _MOST_WHOLES
        self._cited: set[tuple[int, int]] = set()
        self._with_logprobs: set[int] = set()
        self._early_logprobs: list[Json] = []

    # --- text --------------------------------------------------------------------------

    def received(self, index: int) -> Received:
        return self._texts.setdefault(index, Received())

    @property
    def is_plain(self) -> bool:
        """True if a delta is only text of the open message."""
        item = self.message
        return item is not None and item.is_open and self._splitter.is_transparent

    def text(self, index: int, text: str) -> None:
        self.received(index).pieces.append(text)
        if self._splitter.is_transparent:
            self._say(text)
        else:
            self._split(self._splitter.feed(text))

    def text_whole(self, index: int, whole: str) -> None:
        self._repair(index, whole, self._texts, self.text, "text")

    def logprobs(self, index: int, tokens: Json, *, is_whole: bool = False) -> None:
        """Log probabilities of a whole item only count if none came with the deltas."""
        if not isinstance(tokens, list) or not tokens:
            return
        if is_whole and index in self._with_logprobs:
            return
        self._with_logprobs.add(index)
        if self.message is None:
            self._early_logprobs += tokens
        else:
            self.tracker.emit(LogprobsAdd(item=self.message.number, tokens=tokens))

    def annotation(self, index: int, position: int, annotation: JsonObject) -> None:
        if (index, position) not in self._cited:
            self._cited.add((index, position))
            message = self.message or self._open()
            self.tracker.emit(CitationAdd(item=message.number, citation=citation_of(annotation)))

    def refusal(self, index: int, text: str) -> None:
        if not text:
            return
        self._refusals.setdefault(index, Received()).pieces.append(text)
        if self._refusal is None or not self._refusal.is_open:
            self._refusal = self.tracker.open_block("refusal")
        self.tracker.block_text(self._refusal, text)

    def refusal_whole(self, index: int, whole: str) -> None:
        self._repair(index, whole, self._refusals, self.refusal, "refusal")

    def has_refused(self) -> bool:
        return self._refusal is not None

    def part(self, index: int, part: JsonObject) -> bool:
        """A part as a whole, or as it was announced. Returns whether its type is known."""
        if part.get("type") == "refusal":
            self.refusal_whole(index, text_of(part, "refusal"))
        elif part.get("type") in ("output_text", "text"):
            self.text_whole(index, text_of(part, "text"))
            self.logprobs(index, part.get("logprobs"), is_whole=True)
            for position, annotation in enumerate(objects_of(part, "annotations")):
                self.annotation(index, position, annotation)
        else:
            return False
        return True

    def _repair(
        self,
        index: int,
        whole: str,
        texts: dict[int, Received],
        say: Callable[[int, str], None],
        member: str,
    ) -> None:
        received = texts.get(index)
        rest = whole if received is None else received.rest_of(whole)
        if rest != "" and len(texts) > (received is not None) and self._wholes_left:
            # Some servers number every delta, and this may be the whole of them.
            self._wholes_left -= 1
            if _are_all(texts, whole):
                return
        if rest is None and self._is_growing:
            rest = whole
        if rest is None or (rest and received is not None and index != next(reversed(texts))):
            # After later parts, the rest would be in the wrong position.
            self.around.differ(self, member)
        elif rest:
            say(index, rest)

    def _split(self, pieces: list[tuple[Literal["reasoning", "message"], str]]) -> None:
        for kind, text in pieces:
            if kind == "message":
                self._say(text)
            else:
                self._think(text)

    def _say(self, text: str) -> None:
        if text:
            self.tracker.block_text(self._open(), text)

    def _think(self, text: str) -> None:
        if self._thought is None or not self._thought.is_open:
            if self.tracker.has_reasoned(text):
                return
            self._thought = self.tracker.open_block("reasoning")
        self.tracker.block_text(self._thought, text)

    def _open(self) -> Item:
        if self._thought is not None:
            self.tracker.close(self._thought)
        if self.message is None or not self.message.is_open:
            self.message = self.tracker.open_block("message", phase=self.phase)
            if self._early_logprobs:
                tokens, self._early_logprobs = self._early_logprobs, []
                self.tracker.emit(LogprobsAdd(item=self.message.number, tokens=tokens))
        return self.message

    # --- the item ----------------------------------------------------------------------

    def on_added(self, item: JsonObject) -> None:
        self.phase = text_of(item, "phase") or self.phase
        self._take_parts(item)

    def on_whole(self, item: JsonObject) -> None:
        self.phase = text_of(item, "phase") or self.phase
        self._take_parts(item)
        self._close()

    def on_end(self, *, is_complete: bool) -> None:
        self._split(self._splitter.close())
        if is_complete:
            self._close()
        if self._early_logprobs:
            self.around.parser.raw("logprobs", data=self._early_logprobs)

    def _take_parts(self, item: JsonObject) -> None:
        content = item.get("content")
        if isinstance(content, str):
            self.text_whole(0, content)
            return
        parts = content if isinstance(content, list) else []
        indexes = indexes_of({*self._texts, *self._refusals}, len(parts))
        for index, part in zip(indexes, parts, strict=True):
            if not isinstance(part, dict) or not self.part(index, part):
                self.around.parser.raw(f"content_part:{self.kind}", data=part)

    def _close(self) -> None:
        self._split(self._splitter.close())
        is_auto = self.around.think_mode == "auto"
        if is_auto and any(has_lone_closing(each.joined()) for each in self._texts.values()):
            self.around.parser.suggest("inline_think", "assume_open")
        for item in (self._thought, self.message, self._refusal):
            if item is not None:
                self.tracker.close(item)

    def agrees_with(self, item: JsonObject) -> bool:
        parts = objects_of(item, "content")
        whole = text_of(parts[0], "text") if parts else as_text(item.get("content"))
        first = self._texts[min(self._texts)] if self._texts else Received()
        return not first.pieces or whole.startswith(first.pieces[0])

    def grown(self) -> JsonObject:
        parts: dict[int, JsonObject] = {
            index: {"type": "output_text", "text": received.joined(), "annotations": []}
            for index, received in self._texts.items()
            if received.length()
        }
        for index, received in self._refusals.items():
            parts[index] = {"type": "refusal", "refusal": received.joined()}
        content = [part for _, part in sorted(parts.items())]
        return {"role": "assistant", "content": content} if content else {}


class ReasoningState(OutputItem):
    """Reasoning: a summary in paragraphs, the full text, or only data to be sent back.

    It is shown from its announcement on. The announcement hints at the kind; an item that is still
    empty takes whatever kind comes first.
    """

    def __init__(self, around: Surroundings, kind: str, identity: str, index: int | None) -> None:
        super().__init__(around, kind, identity, index)
        around.has_reasoning = True
        self._items: dict[ReasoningKind, Item] = {}
        self._announced: Item | None = None
        self._guessed: ReasoningKind = "hidden"
        self._texts: dict[tuple[ReasoningKind, int], Received] = {}
        self._newest: dict[ReasoningKind, int] = {}
        # Parts of the full text that were announced, and those that have ended.
        self._announced_parts: set[int] = set()
        self._ended_parts: set[int] = set()
        self._has_replay = False

    def received(self, kind: ReasoningKind, index: int) -> Received:
        return self._texts.setdefault((kind, self._part(kind, index)), Received())

    def _part(self, kind: ReasoningKind, index: int) -> int:
        """The number of the part that a delta belongs to. Some servers number every delta: a part of the
        full text that nobody announced is the one before, unless that has ended."""
        newest = self._newest.get(kind, index)
        is_new = index in self._announced_parts or newest in self._ended_parts
        return newest if kind == "full" and not is_new else index

    def announce_part(self, index: int) -> None:
        self._announced_parts.add(index)

    def open_item(self, kind: ReasoningKind) -> Item | None:
        item = self._items.get(kind)
        return item if item is not None and item.is_open else None

    def text(self, kind: ReasoningKind, index: int, text: str) -> None:
        if not text:
            return
        received = self.received(kind, index)
        item = self.open(kind)
        if not received.pieces and item.pieces:
            self.tracker.block_text(item, "\n\n")
        self._newest[kind] = self._part(kind, index)
        received.pieces.append(text)
        self.tracker.block_text(item, text)

    def text_whole(self, kind: ReasoningKind, index: int, whole: str) -> None:
        newest = self._newest.get(kind, index)
        received = self._texts.get((kind, newest))
        if received and (kind, index) not in self._texts and received.joined() == whole:
            # Some servers number the whole otherwise than its deltas.
            index = newest
        if whole and kind == "full":
            self._ended_parts.add(index)
        rest = self._texts.setdefault((kind, index), Received()).rest_of(whole)
        if rest is None and self._is_growing:
            rest = whole
        # After later parts, the rest would be in the wrong position.
        if rest is None or (rest and index < self._newest.get(kind, index)):
            self.around.differ(self, "summary" if kind == "summary" else "content")
        else:
            self.text(kind, index, rest)

    def open(self, kind: ReasoningKind) -> Item:
        found = self.open_item(kind)
        if found is None:
            found, self._announced = self._announced, None
            if found is not None and found.is_open and kind != self._guessed:
                self.tracker.name_reasoning(found, kind)
        if found is None or not found.is_open:
            found = self.tracker.open_block("reasoning", reasoning=kind)
        self._items[kind] = found
        return found

    def on_added(self, item: JsonObject) -> None:
        if not self._items and self._announced is None:
            self._guessed = self._guess(item)
            self._announced = self.tracker.open_block("reasoning", reasoning=self._guessed)
        self._take_texts(item)

    def _guess(self, item: JsonObject) -> ReasoningKind:
        if "content" in item:
            # For servers of open models; OpenAI's items have no such member until it has content.
            return "full"
        return "summary" if self.around.shows_summary or item.get("summary") else "hidden"

    def on_whole(self, item: JsonObject) -> None:
        self._take_texts(item)
        encrypted = item.get("encrypted_content")
        if not self._items and self._announced is None:
            self._guessed = "hidden"
            self._announced = self.tracker.open_block("reasoning", reasoning=self._guessed)
        if encrypted and not self._has_replay:
            self._has_replay = True
            self.tracker.emit(
                ReplayData(
                    kind="reasoning_encrypted",
                    data={"id": item.get("id"), "encrypted_content": encrypted},
                    item=self._shown()[0].number,
                )
            )
        self._close()

    def _take_texts(self, item: JsonObject) -> None:
        self._take_parts("summary", objects_of(item, "summary"))
        content = item.get("content")
        if isinstance(content, str):
            self.text_whole("full", 0, content)
        self._take_parts("full", objects_of(item, "content"))

    def _take_parts(self, kind: ReasoningKind, parts: list[JsonObject]) -> None:
        streamed = {
            number for (of, number), each in self._texts.items() if of == kind and each.pieces
        }
        for index, part in zip(indexes_of(streamed, len(parts)), parts, strict=True):
            self.text_whole(kind, index, text_of(part, "text"))

    def on_end(self, *, is_complete: bool) -> None:
        if is_complete:
            self._close()

    def _shown(self) -> list[Item]:
        announced = [] if self._announced is None else [self._announced]
        return [*announced, *self._items.values()]

    def _close(self) -> None:
        for item in self._shown():
            self.tracker.close(item)

    def grown(self) -> JsonObject:
        grown: JsonObject = {"summary": [], "content": []}
        for (kind, _), received in sorted(self._texts.items()):
            name = "summary" if kind == "summary" else "content"
            wire_type = "summary_text" if kind == "summary" else "reasoning_text"
            grown[name].append({"type": wire_type, "text": received.joined()})
        return {"summary": grown["summary"], **({} if not grown["content"] else grown)}


def _are_all(texts: Mapping[int, Received], whole: str) -> bool:
    length = sum(received.length() for received in texts.values())
    return length == len(whole) and whole == "".join(map(Received.joined, texts.values()))


def error_of(item: JsonObject) -> Json:
    """The error of an item: directly, or inside the ``mcp`` member of some servers."""
    return item.get("error") or object_of(item, "mcp").get("error")
