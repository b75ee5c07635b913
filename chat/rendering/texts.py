"""Messages, refusals and reasoning: growing Markdown with sources, marks and headings."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from chat.events import Citation, Json
from chat.rendering import figures
from chat.rendering.components import (
    INLINE_CHARACTERS,
    SHOWN_ENTRIES,
    Entry,
    Foldable,
    TextSlot,
    fill,
    more_note,
    name_of,
    safe,
)
from chat.rendering.logprobs import Odds
from chat.rendering.markdown.flow import Flow
from chat.rendering.parts import Patches, Piece
from chat.rendering.safety import host_of, is_safe_link

# Characters of thinking in the preview of the last line.
PREVIEW_CHARACTERS = 120


# A text whose last character is one of these can go on in a paragraph of its own.
_SENTENCE_ENDS = '\n.:!?…。：！？)”"*`'


class Text(Entry):
    """A message: Markdown and its sources."""

    kind: ClassVar[str] = "message"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq)
        self.phase = ""
        self.is_open = True
        # True if a card follows this text. The next words are a text of their own below it.
        self.is_above_card = False
        # The part of the same message above a card, and where in the message this part begins.
        self.above: Text | None = None
        self.starts_at = self.length = 0
        self._last_character = ""
        self.flow: Flow = Flow(id, seq)
        self.cites = TextSlot(f"{id}-cites", seq, classes="citations")
        self.odds = Odds(f"{id}-odds", seq)
        self.sources: dict[tuple[str, str], Source] = {}
        self.citations = 0
        self.left_out = 0
        self.hold(self.flow, self.cites, self.odds)

    def frame(self, contents: list[SafeString]) -> str:
        flow, cites, odds = contents
        return fill("message", id=self.id, phase=self.phase, flow=flow, cites=cites, odds=odds)

    def add(self, text: str, seq: int, t: int = 0) -> None:
        self.flow.feed(text, seq)
        self.length += len(text)
        self._last_character = text[-1:] or self._last_character
        if not self.is_open:
            # After the end of the message the list is complete, also for pages that load later.
            self.flow.finish(seq)

    def can_part(self, text: str) -> bool:
        """Returns whether ``text`` can follow as a text of its own: not within a sentence or code."""
        if self.flow.is_in_code or not self._last_character:
            return False
        return text.startswith("\n") or self._last_character in _SENTENCE_ENDS

    def finish(self, seq: int, t: int = 0) -> None:
        if self.is_open:
            self.is_open = False
            self.flow.finish(seq)
            self.odds.finish(seq)

    def cite(self, citation: Citation, seq: int) -> None:
        self.citations += 1
        if self.citations > SHOWN_ENTRIES:
            self.left_out += 1
        else:
            self._cite(citation, seq)
        self.cites.set_content(
            "citations",
            sources=list(self.sources.values()),
            total=figures.count(len(self.sources) + self.left_out),
            more=more_note(self.left_out),
        )
        self.cites.touch(seq)

    def _cite(self, citation: Citation, seq: int) -> None:
        """A source that is cited several times has one number."""
        made = _source(citation, f"{self.id}-src{len(self.sources) + 1}", len(self.sources) + 1)
        source = self.sources.setdefault((made.url, made.title), made)
        text = name_of(citation.cited_text or "")
        if text and text not in source.texts:
            source.texts.append(text)
        if citation.end is not None:
            mark = f"{self.id}-m{self.citations}"
            if self.flow.mark(citation.end - self.starts_at, _mark(mark, source), seq):
                source.marks.append(mark)

    def conclude(self, seq: int, t: int, status: str) -> None:
        self.finish(seq, t)


@dataclass(slots=True, kw_only=True)
class Source:
    """One source of a text, and the ids of the marks that refer to it."""

    id: str
    number: int
    url: str
    title: str
    host: str
    texts: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


def _mark(id: str, source: Source) -> str:
    """The number in the text, a link to the list of sources."""
    words = gettext("Source %(number)d: %(title)s")
    name = words % {"number": source.number, "title": source.title}
    return fill("mark", id=id, source=source, name=name)


def _source(citation: Citation, id: str, number: int) -> Source:
    url = citation.url if citation.url and is_safe_link(citation.url) else ""
    title = citation.title or host_of(url) or citation.url or citation.kind
    host = name_of(host_of(url))
    return Source(id=id, number=number, url=url, title=name_of(title), host=host)


class Refusal(Text):
    """A refusal: Markdown in a card with the category, if it is known."""

    kind = "refusal"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq, t=t)
        self.head = TextSlot(f"{id}-head", seq, classes="card-line")
        self.head.set_content("refusal_head", category="")
        self.hold(self.head, self.flow, self.cites)

    def name_category(self, category: str | None, seq: int) -> None:
        if category:
            self.head.set_content("refusal_head", category=name_of(category).replace("_", " "))
            self.head.touch(seq)

    def frame(self, contents: list[SafeString]) -> str:
        head, flow, cites = contents
        return fill("refusal", id=self.id, head=head, flow=flow, cites=cites)


class FoldedFlow(Foldable, Flow):
    """Markdown inside a fold. Complete long text leaves the page and is loaded on request."""

    is_in_download = False
    _folded_seq = 0
    # The number of words in the text that is not kept.
    _words_behind = 0
    _last_character = ""

    @property
    def is_folded(self) -> bool:
        return bool(self._folded_seq) and not self.is_inline

    def finish(self, seq: int) -> None:
        super().finish(seq)
        if self.length() > INLINE_CHARACTERS:
            self._folded_seq = seq

    def words(self) -> int:
        return super().words() + self._words_behind

    def _leave_out(self, text: str) -> None:
        before = self._last_character or self._source[-1][-1]
        is_within_word = not (before.isspace() or text[0].isspace())
        self._words_behind += len(text.split()) - is_within_word
        self._last_character = text[-1]

    def inside(self) -> str:
        return self._later() if self.is_folded else super().inside()

    def whole(self) -> SafeString:
        return safe(super().inside())

    def _later(self) -> SafeString:
        words = ngettext(
            "Show the text (%(count)s character)",
            "Show the text (%(count)s characters)",
            self.length(),
        )
        return self.later(words % {"count": figures.count(self.length())})

    def patch(self, since: int, patches: Patches) -> None:
        if not self.is_folded:
            super().patch(since, patches)
        elif self._folded_seq > since:
            patches.replace(self.id, self._later())

    def shell(self) -> str:
        return self.html() if self.is_folded else super().shell()

    def pieces(self) -> Iterator[Piece]:
        return iter(()) if self.is_folded else super().pieces()


class Reasoning(Text):
    """Reasoning: a fold whose head shows how long it took."""

    kind = "reasoning"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq, t=t)
        self.started_t = self.last_t = t
        self.reasoning_kind = "full"
        self._sealed_bytes = 0
        # The line that is being written, and the last one that is complete.
        self._line = self._whole_line = ""
        self.flow = FoldedFlow(id, seq)
        self.head = TextSlot(f"{id}-head", seq, tag="summary")
        self.aside = TextSlot(f"{id}-aside", seq, classes="aside")
        self.hold(self.head, self.aside, self.flow, self.cites)
        self._show_head()

    def name_kind(self, kind: str, seq: int) -> None:
        self.reasoning_kind = kind
        self._show_aside()
        self.aside.touch(seq)
        self._show_head()
        self.head.touch(seq)

    def frame(self, contents: list[SafeString]) -> str:
        head, aside, flow, cites = contents
        return fill("reasoning", id=self.id, head=head, aside=aside, flow=flow, cites=cites)

    def add(self, text: str, seq: int, t: int = 0) -> None:
        super().add(text, seq, t)
        before, self.last_t = self.last_t, max(t, self.last_t)
        was_empty = not self._preview()
        *whole, line = (self._line + text).split("\n")
        self._whole_line = next(filter(str.strip, reversed(whole)), self._whole_line)
        self._line = line[-PREVIEW_CHARACTERS:]
        # The preview is updated at most once a second.
        if was_empty or (self.last_t - self.started_t) // 1000 != (before - self.started_t) // 1000:
            self._show_head()
            self.head.touch(seq)

    def _preview(self) -> str:
        """The last line of the thinking, or the end of a long one."""
        line = self._line if self._line.strip() else self._whole_line
        return name_of(line[-PREVIEW_CHARACTERS:].strip("*#>`- \t"))

    def finish(self, seq: int, t: int = 0) -> None:
        if not self.is_open:
            return
        super().finish(seq, t)
        self.last_t = max(t, self.last_t)
        self._show_head()
        self.head.touch(seq)

    def seal(self, data: Json, seq: int) -> None:
        """The size of encrypted reasoning that was received."""
        texts = [data] if isinstance(data, str) else []
        if isinstance(data, dict):
            texts = [value for value in data.values() if isinstance(value, str)]
        self._sealed_bytes += max(map(len, texts), default=0)
        if self.reasoning_kind == "hidden":
            self._show_aside()
            self.aside.touch(seq)

    def _show_aside(self) -> None:
        sealed = figures.size(self._sealed_bytes) if self._sealed_bytes else ""
        self.aside.set_content("reasoning_aside", kind=self.reasoning_kind, sealed=sealed)

    def _show_head(self) -> None:
        milliseconds = self.last_t - self.started_t
        words = 0 if self.is_open else self.flow.words()
        self.head.set_content(
            "reasoning_head",
            is_live=self.is_open,
            kind=self.reasoning_kind,
            preview=self._preview() if self.is_open else "",
            duration=figures.duration(milliseconds) if milliseconds else "",
            words=words,
            words_shown=figures.count(words),
        )
