"""Content blocks of a Messages answer: text, reasoning, media, citations and usage."""

from typing import ClassVar

from msgspec import Struct

from chat.dialects.items import Call, Item, ItemTracker
from chat.dialects.reading import write_json
from chat.dialects.stream import StreamParser, count_of, objects_of, text_of
from chat.dialects.thinking import Mode, Piece, ThinkSplitter, has_lone_closing
from chat.events import Citation, CitationAdd, Json, JsonObject, ReplayData
from chat.events.translation import gettext_noop

_NO_REASON = gettext_noop("The server’s tool failed without giving a reason.")


def read_citation(citation: JsonObject) -> Citation:
    """The ``start`` and ``end`` of a citation are positions in the answer; the position in the
    source stays in the citation. Encrypted members are only sent back with the text."""
    source = citation.get("source")
    url = text_of(citation, "url") or (source if isinstance(source, str) else "")
    title = text_of(citation, "title") or text_of(citation, "document_title")
    place = {
        name: value
        for name, value in citation.items()
        if value is not None and name.endswith(("_index", "_number", "file_id"))
    }
    return Citation(
        kind=text_of(citation, "type") or "unknown",
        title=title or None,
        url=url or None,
        cited_text=text_of(citation, "cited_text") or None,
        source=without_secrets(place) or None,
        raw=without_secrets(citation),
    )


def output_text(content: Json) -> str:
    """A tool's result as text: the text of text blocks, and the JSON of everything else."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    if texts and len(texts) == len(blocks) and all(isinstance(text, str) for text in texts):
        return "\n\n".join(str(text) for text in texts)
    return write_json(without_secrets(content))


def without_secrets(value: Json) -> Json:
    """The value without its encrypted members, which are kilobytes that only the upstream can
    read."""
    if isinstance(value, dict):
        return {
            name: without_secrets(member)
            for name, member in value.items()
            if not str(name).startswith("encrypted_")
        }
    if isinstance(value, list):
        return [without_secrets(member) for member in value]
    return value


def failure_reason(content: Json) -> str:
    members: JsonObject = content if isinstance(content, dict) else {}
    named = text_of(members, "error_message") or text_of(members, "error_code")
    if named or isinstance(content, dict):
        return named or output_text(content)
    return output_text(content) if content else _NO_REASON


def read_counts(usage: JsonObject) -> tuple[int | None, int | None]:
    """Input tokens (cached ones included) and output tokens, from the members of a usage object."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [count for name in names if (count := count_of(usage, name)) is not None]
    return (sum(counts) if counts else None), count_of(usage, "output_tokens")


# --- content blocks: what each reports, and how it is sent back --------------------------------


class AnswerState(Struct, kw_only=True, eq=False):
    """The state shared by the blocks of one answer.

    ``calls`` are those that the upstream runs, by id. ``name`` becomes part of generated call ids.
    ``resting`` is a text whose block has ended, and which the next block may continue.
    ``think_mode`` says how marks of reasoning in the text are read.
    ``hides_thinking`` says that the request asked for reasoning without its text.
    """

    parser: StreamParser
    tracker: ItemTracker
    name: str = ""
    calls: dict[str, Call] = {}
    resting: "TextBlock | None" = None
    # A text that may still turn out to begin with reasoning.
    undecided: "TextBlock | None" = None
    think_mode: Mode = "auto"
    hides_thinking: bool = False


class ContentBlock:
    """A content block while it is received. ``data`` is what its start contained.

    ``start`` is called once, then ``delta`` any number of times (``add`` for a delta of its main
    text), then ``stop`` or, at the end of a broken answer, ``break_off``; ``native`` is called
    last.
    """

    # The delta that ``add`` takes, by its wire name.
    text_delta: ClassVar[str] = ""
    text_member: ClassVar[str] = ""
    # The item with the block's text, if it has one.
    item: Item | None = None
    # True if the block can be sent back; some are complete in their start.
    is_whole = False

    def __init__(self, answer: AnswerState, data: JsonObject) -> None:
        self.answer = answer
        self.tracker = answer.tracker
        self.data = data
        # The text in the block's start, which the first delta of some gateways repeats.
        self.opening = ""

    def start(self) -> None:
        """Reports the block, and what its start already contained."""

    def continues(self, resting: "TextBlock") -> bool:
        """Returns whether this block continues the text of the block before."""
        return False

    def add(self, content: str) -> None:
        raise NotImplementedError

    def delta(self, kind: str, delta: JsonObject) -> bool:
        """Returns whether the delta fits this block and could be read."""
        content = delta.get(self.text_member)
        if not self.text_delta or kind != self.text_delta or not isinstance(content, str):
            return False
        if self.opening:
            content, self.opening = content.removeprefix(self.opening), ""
        self.add(content)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        """The block ended, or (``is_complete`` is false) the length limit cut it."""
        self.is_whole = is_complete

    def break_off(self) -> None:
        """Ends a block in which the answer broke off. The tracker closes the items."""

    def native(self) -> JsonObject | None:
        """The block as the upstream would have sent it as a whole; ``None`` if it cannot be sent
        back."""
        return self.data if self.is_whole else None

    def replay(self, kind: str, data: Json, item: Item | None = None) -> None:
        number = None if item is None else item.number
        call_id = item.call_id if isinstance(item, Call) else None
        self.tracker.emit(ReplayData(kind=kind, data=data, item=number, call_id=call_id))


class TextBlock(ContentBlock):
    """Text. A text with citations is sent in several blocks, which begin and end where a cited
    passage does; for a reader they are one message."""

    text_delta = "text_delta"
    text_member = "text"
    item: Item
    citations: list[JsonObject]
    _from: int
    _to: int | None
    _splitter: ThinkSplitter | None = None
    _thought: Item | None = None
    _is_begun = False
    _is_stopped = False

    def start(self) -> None:
        resting, self.answer.resting = self.answer.resting, None
        self.citations = objects_of(self.data, "citations")
        self._to = None
        # Text that came before it was clear that it is no reasoning.
        self._undecided: list[str] = []
        if resting is None and self.answer.think_mode != "off":
            self._splitter = ThinkSplitter(self.answer.think_mode, is_strict=True)
            self.answer.undecided = self
        else:
            self.item = resting.item if resting else self.tracker.open_block("message")
            self._from = self._cut()
        self.opening = text_of(self.data, "text")
        self.add(self.opening)
        for citation in self.citations:
            self._report(citation)

    def continues(self, resting: "TextBlock") -> bool:
        return bool(resting.citations) or isinstance(self.data.get("citations"), list)

    def add(self, content: str) -> None:
        if self._splitter is None:
            self.tracker.block_text(self.item, content)
            return
        self._undecided.append(content)
        self._say(self._splitter.feed(content))
        if self._splitter.is_transparent:
            self.decide()

    def decide(self, *, is_followed: bool = False) -> None:
        """Treats the rest of this block as text."""
        if self._splitter is None:
            return
        self._say(self._splitter.close(is_followed=is_followed))
        self._splitter = self.answer.undecided = None
        if self._thought is None:
            self._open()
            self._undecided, self._from = [], 0
        else:
            self.tracker.close(self._thought)
            self.item = self.item if self._is_begun else self._thought
            self._from = self._cut()
        if self._is_stopped:
            self._rest()

    def _say(self, pieces: list[Piece]) -> None:
        for kind, text in pieces:
            if kind == "message":
                self._open()
                self.tracker.block_text(self.item, text)
            elif self._thought is not None or not self.tracker.has_reasoned(text):
                self._thought = self._thought or self.tracker.open_block("reasoning")
                self.tracker.block_text(self._thought, text)

    def _open(self) -> None:
        if self._thought is not None:
            self.tracker.close(self._thought)
        if not self._is_begun:
            self._is_begun = True
            self.item = self.tracker.open_block("message")

    def delta(self, kind: str, delta: JsonObject) -> bool:
        citation = delta.get("citation")
        if kind != "citations_delta" or not isinstance(citation, dict):
            return super().delta(kind, delta)
        self.citations.append(citation)
        self._report(citation)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        """The item ends with the next block, unless that continues its text."""
        super().stop(is_complete=is_complete)
        self._is_stopped = True
        if self._splitter is None:
            self._rest()
        elif not self._splitter.is_waiting:
            self.decide()

    def _rest(self) -> None:
        if self.answer.resting is not None:
            self.tracker.close(self.answer.resting.item)
        self.answer.resting = self
        if self.item.held or not self.item.is_open:
            # The first half of a surrogate pair, whose second half would have been in this block; or all
            # of the text was reasoning.
            self.tracker.close(self.item)
            self.answer.resting = None
        self._to = self._cut()

    def _cut(self) -> int:
        """The place in the item's pieces where this block begins or ends."""
        self.item.kept_pieces = len(self.item.pieces)
        return self.item.kept_pieces

    def native(self) -> JsonObject | None:
        text = "".join([*self._undecided, *self.item.pieces[self._from : self._to]])
        if self.answer.think_mode == "auto" and has_lone_closing(text):
            self.answer.parser.suggest("inline_think", "assume_open")
        if not text.strip():
            # The API refuses empty text blocks.
            return None
        block = {**self.data, "text": text}
        return {**block, "citations": self.citations} if self.citations else block

    def _report(self, citation: JsonObject) -> None:
        self.decide()
        self.tracker.emit(CitationAdd(item=self.item.number, citation=read_citation(citation)))


class ThinkingBlock(ContentBlock):
    text_delta = "thinking_delta"
    text_member = "thinking"
    item: Item

    def start(self) -> None:
        self._signature: list[str] = []
        text = text_of(self.data, "thinking")
        is_hidden = self.answer.hides_thinking and not text
        self.item = self.tracker.open_block(
            "reasoning", reasoning="hidden" if is_hidden else "full"
        )
        self.opening = text
        self.add(text)
        self._sign(text_of(self.data, "signature"))

    def add(self, content: str) -> None:
        self.tracker.block_text(self.item, content)

    def delta(self, kind: str, delta: JsonObject) -> bool:
        signature = delta.get("signature")
        if kind != "signature_delta" or not isinstance(signature, str):
            return super().delta(kind, delta)
        self._sign(signature)
        return True

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.tracker.close(self.item)

    def native(self) -> JsonObject | None:
        """The API refuses reasoning without a signature, and reasoning without text."""
        text = self.item.joined()
        if not self._signature and not (self.is_whole and text):
            return None
        block = {**self.data, "thinking": text}
        return {**block, "signature": "".join(self._signature)} if self._signature else block

    def _sign(self, signature: str) -> None:
        if signature and [signature] != self._signature:
            self._signature.append(signature)
            self.replay("thinking_signature", signature, self.item)


class RedactedBlock(ContentBlock):
    item: Item
    is_whole = True

    def start(self) -> None:
        self.item = self.tracker.open_block("reasoning", reasoning="hidden")
        self.replay("redacted_thinking", self.data.get("data"), self.item)

    def stop(self, *, is_complete: bool = True) -> None:
        super().stop(is_complete=is_complete)
        self.tracker.close(self.item)
