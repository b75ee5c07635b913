"""Growing Markdown, block by block.

The end of a block depends only on the text of each event, never on time or frames, so that all
viewers get the same page. HTML is rendered on demand.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from html import escape
from itertools import islice
from uuid import UUID

from django.utils.safestring import SafeString

from chat.events.text_buffer import add_piece
from chat.rendering import figures
from chat.rendering.components import fill, safe
from chat.rendering.markdown.blocks import (
    OPEN_CHARACTERS,
    OPEN_FORMULA,
    SECTION_BLOCKS,
    Block,
    Fence,
    Mark,
    OpenBlock,
    Whole,
    closed_blocks,
)
from chat.rendering.markdown.cuts import Cut, behind, head_of, place_to_tear
from chat.rendering.markdown.parser import References
from chat.rendering.markdown.renderer import Outline, Span, clean_source, outline
from chat.rendering.parts import PIECE_CHARACTERS, Part, Patches, Piece

# Characters of a text in a page; the rest comes on request, in slices. A block is cut as well: a
# table of 50,000 characters takes a second. Code takes a tenth of that, and is better whole.
PAGE_CHARACTERS = 150_000
SLICE_CHARACTERS = 100_000
BLOCK_CHARACTERS = 50_000
CODE_CHARACTERS = 100_000
# Sources may arrive after the end of a text, each with a mark in it. At most this many characters
# are rendered again for them: 100 marks in an answer of three pages, 6 in the longest text.
LATE_CHARACTERS = 1_000_000
# Characters of a block's source that are repeated at the beginning of a slice that continues it.
_HEAD_CHARACTERS = 4096


class Unrendered:
    """Characters of which HTML is made when somebody asks for it."""

    def __init__(self) -> None:
        self.characters = 0


class OpenPart:
    """The front of a long open block, which does not change until the block closes."""

    def __init__(self, block: OpenBlock) -> None:
        text, self._content = block.settle()
        is_torn = block.kind in ("", "paragraph_open") and not text.endswith("\n\n")
        self._classes = "part run-on" if is_torn else "part"

    @cached_property
    def html(self) -> str:
        return f'<div class="{self._classes}">{self._content.html()}</div>'


class Flow(Part):
    """The element that holds one growing Markdown text, up to ``limit`` characters of it; without
    one, as much as a page shows."""

    # True if a file with the text of the whole answer has this text in it.
    is_in_download = True

    def __init__(self, item_id: str, seq: int, limit: int = 0) -> None:
        super().__init__(f"{item_id}-flow", seq)
        self._prefix = item_id
        self._limit = limit or PAGE_CHARACTERS
        self._taken = 0
        self._cut: Cut | None = None
        # If true, the rest is dropped, because nobody can ask for it.
        self.is_inline = False
        # True if what is behind the cut is kept, for `slice`.
        self.keeps_rest = True
        self._source: list[str] = []
        self._length = 0
        self._marks: list[Mark] = []
        self._ends_in_return = False
        self._references = References()
        self._blocks: list[Block | Whole] = []
        self._block_seqs: list[int] = []
        self._open = OpenBlock(self._references.scope())
        self._open_seq = seq
        self._fence: Fence | None = None
        self._line: list[str] = []
        self._is_after_blank = False
        # Parts of a long open block: what they show, and since when they are there.
        self._parts: list[OpenPart] = []
        self._part_seqs: list[int] = []
        self._parts_reset_seq = seq
        self._ended_seq = 0
        self._replaced_seq = 0
        self._is_compared = True
        self._late_characters = 0
        self.unrendered = Unrendered()

    # --- events -------------------------------------------------------------------------

    def feed(self, text: str, seq: int) -> None:
        text = self._whole_newlines(text)
        if text:
            self._add_source(text)
            self._take_what_is_shown(text, seq)
        self.touch(seq)

    def finish(self, seq: int) -> None:
        """Closes open blocks. May be called again after further text."""
        if self._ends_in_return:
            self._ends_in_return = False
            self._add_source("\n")
            self._take_what_is_shown("\n", seq)
        self._close_all(seq)
        self._start_over("", seq)
        self._ended_seq = seq
        self._will_compare()
        self.touch(seq)

    def words(self) -> int:
        return len("".join(self._source).split())

    def length(self) -> int:
        return self._length

    def mark(self, offset: int, html: str, seq: int) -> bool:
        """Puts our own HTML after this many characters once the text is complete, so that closed
        blocks are not sent again for each mark. A complete text is sent once more. False if there
        is no such place, or if too much was already rendered again."""
        if not 0 < offset <= self._length:
            return False
        if self._ended_seq:
            self._late_characters += self._length
            if self._late_characters > LATE_CHARACTERS:
                return False
            self._ended_seq = seq
            self._will_compare()
            self.touch(seq)
        self._marks.append((offset, html))
        return True

    def has_text(self) -> bool:
        return bool(self._source)

    def _add_source(self, text: str) -> None:
        self._length += len(text)
        if self._cut is None or self.keeps_rest:
            add_piece(self._source, text)
        else:
            self._leave_out(text)

    def _leave_out(self, text: str) -> None:
        """Takes text that is not kept."""

    def _whole_newlines(self, text: str) -> str:
        """The text with one kind of newline, also if CR and LF come in different events."""
        if self._ends_in_return:
            text = "\r" + text
        self._ends_in_return = text.endswith("\r")
        return clean_source(text[:-1] if self._ends_in_return else text)

    def _take_what_is_shown(self, text: str, seq: int) -> None:
        """Takes the text up to the possible end of the shown part, so that the end doesn't depend
        on how the text is split into events."""
        while text and self._cut is None:
            room = min(self._limit - self._taken, self._block_limit - self.open_length)
            self._taken += len(text[:room])
            self._take(text[:room], seq)
            text = text[room:]
            if self._is_full and self._fence is None:
                self._search(seq)
            if self._is_full:
                self._end_here(seq)

    @property
    def open_length(self) -> int:
        """Characters that are not in a closed block yet."""
        return self._open.length if self._fence is None else self._fence.length

    @property
    def unsettled_length(self) -> int:
        """Characters of the open block that each change renders again."""
        return self._open.html.unsettled_length if self._fence is None else 0

    @property
    def is_in_code(self) -> bool:
        """True if what comes next is inside a block of code."""
        return self._fence is not None

    @property
    def _is_full(self) -> bool:
        return self._taken >= self._limit or self.open_length >= self._block_limit

    @property
    def _block_limit(self) -> int:
        return BLOCK_CHARACTERS if self._fence is None else CODE_CHARACTERS

    def _end_here(self, seq: int) -> None:
        """Moves text that does not fit to the rest: a whole block if there are others before it."""
        text = self._open_text()
        is_torn = not self._blocks or len(text) >= self._block_limit
        shown = text[: place_to_tear(text)] if is_torn else ""
        start = self._taken - len(text)
        found = outline(shown, self._references.scope())
        self._cut = Cut(start + len(shown), *head_of(found, start))
        self._close_spans(found, found.spans, len(found.lines), seq)
        self._start_over("", seq)

    def _open_text(self) -> str:
        return self._open.text() if self._fence is None else "".join(self._fence.source)

    def _take(self, text: str, seq: int) -> None:
        if self._fence is None:
            self._take_lines(text, seq)
            return
        self._take_fence(self._fence, text, seq)

    def _take_fence(self, fence: Fence, text: str, seq: int) -> None:
        rest = fence.feed(text, seq)
        if rest is None:
            return
        self._close_source("".join(fence.source), seq)
        self._start_over("", seq)
        if rest:
            self._take_lines(rest, seq)

    def _take_lines(self, text: str, seq: int) -> None:
        self._open.add(text)
        self._open_seq = seq
        if "\n" not in text:
            self._line.append(text)
        elif self._should_search(text):
            self._search(seq)
        if self._fence is None and self._open.loose_length > OPEN_CHARACTERS:
            self._parts.append(OpenPart(self._open))
            self._part_seqs.append(seq)

    def _should_search(self, text: str) -> bool:
        head, _, tail = text.rpartition("\n")
        lines = ("".join(self._line) + head).split("\n")
        self._line = [tail]
        may_end = is_sure = False
        for line in lines:
            is_blank = not line.strip()
            if self._open.may_end(line, self._is_after_blank):
                may_end = True
                is_sure = is_sure or self._is_after_blank
            if is_blank and self._open.kind == "paragraph_open":
                may_end = True
            self._is_after_blank = is_blank
        if self._open.length >= self._open.next_search:
            return True
        is_due = self._open.next_short_search <= self._open.length <= OPEN_CHARACTERS
        return (may_end and is_due) or (is_sure and not self._open.has_failed)

    def _search(self, seq: int) -> None:
        """Closes all blocks but the last, which further lines may still change."""
        text = self._open.text()
        whole = text.rfind("\n") + 1
        found = outline(text[:whole], self._references.scope())
        last = found.spans[-1] if found.spans and not found.spans[-1].is_sealed else None
        closed = found.spans[:-1] if last else found.spans
        is_fence = last is not None and last.kind == "fence"
        if last is not None:
            self._open.kind, self._open.markup = last.kind, last.markup
        if found.sure_lines < len(found.lines):
            closed = [span for span in closed if span.end <= found.sure_lines]
            last = Span(found.sure_lines, len(found.lines), OPEN_FORMULA, "", False)
            is_fence = False
            self._open.kind = OPEN_FORMULA
        if not closed and not is_fence:
            self._open.search_failed()
            return
        end = last.start if last is not None and is_fence else closed[-1].end
        self._close_spans(found, closed, end, seq)
        rest = "\n".join(found.lines[end:]) + text[whole:]
        self._start_over("" if is_fence else rest, seq, last)
        if last is not None and is_fence:
            self._open_fence(rest, last.markup, seq)

    def _open_fence(self, text: str, markup: str, seq: int) -> None:
        opening, _, inside = text.partition("\n")
        self._fence = Fence(opening, markup, seq)
        self._take_fence(self._fence, inside, seq)

    def _start_over(self, text: str, seq: int, last: Span | None = None) -> None:
        """A fresh tail, without parts."""
        line = self._line if text else []
        self._open.html.close()
        kind, markup = (last.kind, last.markup) if last else ("", "")
        self._open = OpenBlock(self._references.scope(), text, kind, markup)
        self._open_seq = seq
        self._fence = None
        self._line = line
        self._is_after_blank = self._is_after_blank if text else False
        if self._parts:
            self._parts, self._part_seqs, self._parts_reset_seq = [], [], seq

    def _close_all(self, seq: int) -> None:
        text = self._open_text()
        line = text.rpartition("\n")[2]
        # A last line of nothing but spaces is left out, and the parser says which is one.
        if self._fence is not None and (not line or line.strip()):
            self._close_source(f"{text}\n" if line else text, seq)
            return
        found = outline(text, self._references.scope())
        self._close_spans(found, found.spans, len(found.lines), seq)

    def _close_spans(self, found: Outline, spans: list[Span], end: int, seq: int) -> None:
        for line, label, definition in found.definitions:
            if line <= end:
                self._references.add(label, definition)
        for span in spans:
            self._close_source(found.source(span), seq)

    def _close_source(self, source: str, seq: int) -> None:
        self.unrendered.characters += len(source)
        self._blocks.append(Block(source, self._references.scope()))
        self._block_seqs.append(seq)

    def _will_compare(self) -> None:
        self._is_compared = False
        self.unrendered.characters += self._taken

    def _compare(self) -> None:
        """At the end: a link that was defined after its use changes earlier blocks, notes find
        their marks, and marks of ours are put in. Then the text is rendered once as a whole, and
        sent once more if it is different."""
        if self._is_compared:
            return
        self._is_compared = True
        text = self._shown_source()
        marks = [mark for mark in self._marks if mark[0] <= len(text)]
        if "]:" not in text and not marks:
            return
        whole = closed_blocks(text, self._prefix, marks)
        if [block.html for block in whole] != [block.html for block in self._blocks]:
            self._blocks = [*whole]
            self._block_seqs = [self._ended_seq] * len(whole)
            self._replaced_seq = self._ended_seq

    def _shown_source(self) -> str:
        return "".join(self._source)[: self._cut.at if self._cut else None]

    # --- the rest of a long text ------------------------------------------------------------

    def slice(self, name: str) -> SafeString | None:
        """The text behind a cut, up to the next one. ``name`` is the id of the part, as the page asks
        for it. ``None`` if it is not of this text. Links whose addresses are defined elsewhere in the
        text stay as they are written."""
        asked = re.fullmatch(rf"{re.escape(self.id)}-(\d{{1,9}})-(\d{{1,9}})-(\d{{1,9}})", name)
        if asked is None:
            return None
        cut = Cut(*map(int, asked.groups()))
        if not cut.head <= cut.head_end <= cut.at <= self._length:
            return None
        html, after = self._slice(cut)
        return safe(html + (self._rest(after) if after else ""))

    def slices(self) -> Iterator[str]:
        cut = self._cut
        while cut is not None:
            html, cut = self._slice(cut)
            yield html

    def _slice(self, cut: Cut) -> tuple[str, Cut | None]:
        source = "".join(self._source)
        head = source[cut.head : min(cut.head_end, cut.head + _HEAD_CHARACTERS)]
        part = Flow(f"{self._prefix}-m{cut.at}", 0, SLICE_CHARACTERS)
        part.feed(head + source[cut.at :], 0)
        part.finish(0)
        part._compare()
        return part._sections_from(0), part._cut and behind(cut, len(head), part._cut)

    def _rest(self, cut: Cut) -> str:
        run = UUID(self.id[1:33])
        left = self._length - cut.at
        return fill(
            "rest",
            is_open=not self._ended_seq,
            left=left,
            left_shown=figures.count(left),
            address="" if self.is_inline else f"/r/{run}/part/{self.id}-{cut.name}/",
            download=f"/r/{run}/text/" if self.is_in_download else "",
        )

    # --- the whole ------------------------------------------------------------------------

    def html(self) -> str:
        return self._wrap(self.inside())

    def inside(self) -> str:
        self._compare()
        sections = self._sections_from(0)
        parts = "".join(part.html for part in self._parts)
        return self._fill(sections, parts, self._open_html())

    def _wrap(self, inside: str) -> str:
        return f'<div id="{self.id}" class="flow">{inside}</div>'

    def _fill(self, sections: str, parts: str, opened: str) -> str:
        return (
            f'<div id="{self._prefix}-closed" class="closed">{sections}</div>'
            f'<div id="{self._prefix}-parts" class="parts">{parts}</div>'
            f'<div id="{self._prefix}-open" class="open">{opened}</div>'
        )

    def _html_of(self, first: int, last: int) -> str:
        return "".join(block.html for block in self._blocks[first:last])

    def _section(self, first: int) -> str:
        number = first // SECTION_BLOCKS
        content = self._html_of(first, first + SECTION_BLOCKS)
        return f'<section id="{self._prefix}-s{number}" class="blocks">{content}</section>'

    def _sections_from(self, first: int) -> str:
        starts = range(first, len(self._blocks), SECTION_BLOCKS)
        return "".join(self._section(start) for start in starts)

    def _open_html(self) -> str:
        if self._fence is not None:
            return self._fence.html(f"{self._prefix}-tail", self._fence.shown.since(-1))
        return self._open_blocks_html()

    def _open_blocks_html(self) -> str:
        if self._cut is not None:
            return self._rest(self._cut)
        return self._open.html.html()

    # --- the difference -------------------------------------------------------------------

    def patch(self, since: int, patches: Patches) -> None:
        self._compare()
        self._patch_closed(since, patches)
        self._patch_parts(since, patches)
        self._patch_open(since, patches)

    def _patch_closed(self, since: int, patches: Patches) -> None:
        if self._replaced_seq > since:
            patches.replace(f"{self._prefix}-closed", self._sections_from(0))
            return
        if not self._block_seqs or self._block_seqs[-1] <= since:
            return
        first = bisect_right(self._block_seqs, since)
        # A block that closes was open until now, and its HTML begins as it did.
        like = f"{self._prefix}-open"
        number, inside = divmod(first, SECTION_BLOCKS)
        if inside:
            end = (number + 1) * SECTION_BLOCKS
            patches.append(f"{self._prefix}-s{number}", self._html_of(first, end), like=like)
            first = end
        patches.append(f"{self._prefix}-closed", self._sections_from(first), like=like)

    def _patch_parts(self, since: int, patches: Patches) -> None:
        target = f"{self._prefix}-parts"
        if self._parts_reset_seq > since:
            patches.replace(target, "".join(part.html for part in self._parts))
            return
        if not self._part_seqs or self._part_seqs[-1] <= since:
            return
        new = self._parts[bisect_right(self._part_seqs, since) :]
        html = "".join(part.html for part in new)
        patches.append(target, html, like=f"{self._prefix}-open")

    def _patch_open(self, since: int, patches: Patches) -> None:
        target = f"{self._prefix}-open"
        if self._fence is None:
            if self._open_seq <= since:
                return
            if self._cut is not None:
                patches.replace(target, self._open_blocks_html())
            else:
                patches.morph(target, self._open.html)
        elif self._fence.opened_seq > since:
            patches.replace(target, self._open_html())
        else:
            patches.append(f"{self._prefix}-tail", self._fence.shown.since(since))

    # --- in pieces --------------------------------------------------------------------------

    def shell(self) -> str:
        return self._wrap(self._fill("", "", ""))

    def pieces(self) -> Iterator[Piece]:
        self._compare()
        for first in range(0, len(self._blocks), SECTION_BLOCKS):
            yield from self._section_pieces(first)
        for part in self._parts:
            yield f"{self._prefix}-parts", part.html
        if self._fence is None:
            yield f"{self._prefix}-open", self._open_blocks_html()
            return
        yield f"{self._prefix}-open", self._fence.html(f"{self._prefix}-tail", "")
        text = self._fence.shown.text()
        for start in range(0, len(text), PIECE_CHARACTERS):
            yield (
                f"{self._prefix}-tail",
                escape(text[start : start + PIECE_CHARACTERS], quote=False),
            )

    def _section_pieces(self, first: int) -> Iterator[Piece]:
        section = self._section(first)
        if len(section) <= PIECE_CHARACTERS:
            yield f"{self._prefix}-closed", section
            return
        id = f"{self._prefix}-s{first // SECTION_BLOCKS}"
        yield f"{self._prefix}-closed", f'<section id="{id}" class="blocks"></section>'
        for block in islice(self._blocks, first, first + SECTION_BLOCKS):
            yield id, block.html
