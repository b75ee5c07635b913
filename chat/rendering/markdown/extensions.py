"""Extensions of the Markdown parser: formulas and footnotes."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from django.utils.translation import gettext
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

# The first line of a displayed formula that the end of the text has left open, in the parser's
# environment: more text may make all that follows it one formula.
UNCLOSED = "unclosed_formula"

# Longer than any formula. Text behind an opening that nothing closes waits no longer than this.
MAX_CHARACTERS = 4096

# Each stops at the next mark of its kind, so that many openings cost no more than their text.
_IN_LINE = {
    "$$": re.compile(r"\$\$((?:[^$\\]|\\.)+)\$\$(?!\$)", re.DOTALL),
    r"\(": re.compile(r"\\\(((?:[^\\]|\\[^()])+?)\\\)", re.DOTALL),
    r"\[": re.compile(r"\\\[((?:[^\\]|\\[^\[\]])+?)\\\](?!\()", re.DOTALL),
    # By the rules that tell it from money: tight inside, and no part of a word.
    "$": re.compile(r"(?<![\w$\\])\$(?![\s$])((?:[^$\\\n`]|\\.)+)(?<![\s\\])\$(?![\w$])"),
}
_CLOSINGS = {"$$": re.compile(r"(?<!\\)\$\$"), r"\[": re.compile(r"(?<!\\)\\\]")}
_TEX_SIGN = re.compile(r"[\\^_={}<>]")
_WORD_BETWEEN_SPACES = re.compile(r"(?:^|\s)[^\W\d_]{2,}(?:\s|$)")


def _is_formula(content: str, opening: str) -> bool:
    """False for "5 and 10" between two prices, and for brackets that somebody escaped."""
    if _TEX_SIGN.search(content):
        return True
    is_prose = _WORD_BETWEEN_SPACES.search(content.strip()) and " " in content.strip()
    return bool(content.strip()) and opening != r"\[" and not is_prose


def _in_line(state: StateInline, silent: bool) -> bool:
    source, pos = state.src, state.pos
    if source[pos] not in "$\\":
        return False
    opening = source[pos : pos + 2]
    if opening not in _IN_LINE:
        opening = source[pos]
    if opening not in _IN_LINE:
        return False
    match = _IN_LINE[opening].match(source, pos, state.posMax)
    if match is None or not _is_formula(match[1], opening):
        return False
    if not silent:
        token = state.push("formula", "span", 0)
        token.content = match[0]
        token.meta = {"is_displayed": opening in _CLOSINGS}
    state.pos = match.end()
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _last_formula_line(state: StateBlock, start: int, end: int, opening: str) -> int | None:
    """The line that closes the formula which this one opens, if one does."""
    closing = _CLOSINGS[opening]
    for number in range(start, end):
        line = _line(state, number)
        is_outside = number > start and state.sCount[number] < state.blkIndent
        is_long = state.eMarks[number] - state.bMarks[start] > MAX_CHARACTERS
        if not line or is_outside or is_long:
            return None
        found = closing.search(line, 2 if number == start else 0)
        if found is not None:
            return None if line[found.end() :].strip() else number
        if number > start and line.startswith(opening):
            return None
    if end == len(state.bMarks) - 1:
        state.env[UNCLOSED] = min(start, state.env.get(UNCLOSED, start))
    return None


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    opening = _line(state, start)[:2]
    if opening not in _CLOSINGS or state.is_code_block(start):
        return False
    last = _last_formula_line(state, start, end, opening)
    if last is None:
        return False
    content = state.getLines(start, last + 1, state.blkIndent, False).strip()
    if not _is_formula(content[2:-2], opening):
        return False
    if not silent:
        token = state.push("formula_block", "p", 0)
        token.content = content
        token.map = [start, last + 1]
        token.meta = {"is_displayed": True}
        state.line = last + 1
    return True


def _span(token: Token) -> str:
    name = "math display" if token.meta["is_displayed"] else "math"
    return f'<span class="{name}">{escape(token.content, quote=False)}</span>'


def _render_formula(
    renderer: RendererProtocol, tokens: list[Token], index: int, options: Any, env: Any
) -> str:
    return _span(tokens[index])


def _render_block(
    renderer: RendererProtocol, tokens: list[Token], index: int, options: Any, env: Any
) -> str:
    return f"<p>{_span(tokens[index])}</p>\n"


def open_formula(source: str) -> str:
    """A displayed formula that is still being written: to be read as it is."""
    content = escape(source.strip(), quote=False)
    return f'<p dir="auto"><span class="math display" dir="ltr">{content}</span></p>'


def with_formulas(md: MarkdownIt) -> MarkdownIt:
    ends: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "formula_block", _block, ends)
    md.inline.ruler.before("escape", "formula", _in_line)
    md.add_render_rule("formula", _render_formula)
    md.add_render_rule("formula_block", _render_block)
    return md


# Footnotes in Markdown: ``text[^1]`` and ``[^1]: what is said about it``.
#
# A definition may come long after its marks, so both stay as they are written while a text grows.
# When it is complete, marks become numbers in the order of their first use, and the definitions
# that they name move into a list at the end. Marks and definitions without a counterpart stay
# unchanged, so nothing is lost. A definition goes on in lines that follow it and in paragraphs that
# are indented.

# The kind of the block that a definition is.
DEFINITION = "note_definition_open"
# Notes in one block of the list, so that a frame stays small however many there are.
NOTES_OF_A_BLOCK = 20
# Marks that a note links back to.
SHOWN_PLACES = 20

_LABEL = r"\[\^([^\s\[\]]{1,100})\]"
_MARK = re.compile(_LABEL)
_DEFINITION = re.compile(rf"[ ]{{0,3}}{_LABEL}:[ \t]*")
_INDENT = re.compile(r"(?m)^(?: {4}| {0,3}\t)")
# The element that `_render` makes of a mark, and of nothing else.
_DRAFT = re.compile(r"<sup>(\d+)</sup>")


# --- the notes of one text ------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Note:
    """``places`` are the ids of its marks, by where they are: asked again, a mark has the same."""

    text: str
    number: int = 0
    places: dict[tuple[int, int], str] = field(default_factory=dict)


class Notes:
    """The definitions of a complete text, and which of them its marks have named so far."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._indexes: dict[str, int] = {}
        self._notes: list[Note] = []
        self._named: list[Note] = []
        self._blocks = 0

    def define(self, source: str) -> Note | None:
        """The note of a definition; none where it is empty, or not the first of its label."""
        match = _DEFINITION.match(source)
        text = _INDENT.sub("", source[match.end() :]) if match else ""
        label = match[1].casefold() if match else ""
        if not text.strip() or label in self._indexes:
            return None
        self._indexes[label] = len(self._notes)
        self._notes.append(Note(text))
        return self._notes[-1]

    def index_of(self, label: str) -> int | None:
        return self._indexes.get(label.casefold())

    def marks(self) -> "Marks":
        """The marks of the next block, which have places of their own."""
        self._blocks += 1
        return Marks(self, self._blocks)

    def mark(self, index: int, place: tuple[int, int]) -> str:
        note = self._notes[index]
        if not note.number:
            self._named.append(note)
            note.number = len(self._named)
        count = len(note.places) + 1
        id = note.places.setdefault(
            place, f"{self._prefix}-ref{note.number}" + (f"-{count}" if count > 1 else "")
        )
        name = escape(gettext("Note %(number)d") % {"number": note.number})
        link = f'<a id="{id}" href="#{self._id_of(note)}" aria-label="{name}">'
        return f'<sup class="note-mark">{link}{note.number}</a></sup>'

    def _id_of(self, note: Note) -> str:
        return f"{self._prefix}-note{note.number}"

    def listed(self, render: Callable[[str], str]) -> list[str]:
        """The list, in blocks. A note may be the first to name another, which then follows it."""
        name = escape(gettext("Notes"))
        bodies = [(note, render(note.text)) for note in self._named]
        entries = [self._entry(note, body) for note, body in bodies]
        return [
            f'<ol class="notes" start="{first + 1}" aria-label="{name}">'
            f"{''.join(entries[first : first + NOTES_OF_A_BLOCK])}</ol>"
            for first in range(0, len(entries), NOTES_OF_A_BLOCK)
        ]

    def _entry(self, note: Note, body: str) -> str:
        words = escape(gettext("Back to the text from note %(number)d") % {"number": note.number})
        back = "".join(
            f' <a class="to-mark" href="#{id}" title="{words}" aria-label="{words}">↑</a>'
            for id in list(note.places.values())[:SHOWN_PLACES]
        )
        is_words = body.endswith("</p>")
        inner = f"{body[:-4]}{back}</p>" if is_words else f"{body}<p>{back}</p>"
        return f'<li id="{self._id_of(note)}">{inner}</li>'


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one block."""

    notes: Notes
    block: int

    def put(self, html: str) -> str:
        """Cleaned HTML with marks instead of their drafts, in the order in which they stand."""
        count = 0

        def made(match: re.Match[str]) -> str:
            nonlocal count
            count += 1
            return self.notes.mark(int(match[1]), (self.block, count))

        return _DRAFT.sub(made, html)


# --- the parser's rules ------------------------------------------------------------------------


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if not line.startswith("[^") or not _DEFINITION.match(line):
        return False
    if silent:
        return True
    # In a quotation or a list it would be moved out of what it belongs to.
    if state.level:
        return False
    last = _last_note_line(state, start, end)
    opened = state.push(DEFINITION, "p", 1)
    opened.map = [start, last]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, last, state.blkIndent, False).strip()
    inline.map = [start, last]
    inline.children = []
    state.push("note_definition_close", "p", -1)
    state.line = last
    return True


def _last_note_line(state: StateBlock, start: int, end: int) -> int:
    """The line behind a definition."""
    last = start + 1
    parent, state.parentType = state.parentType, "paragraph"
    for number in range(start + 1, end):
        if state.isEmpty(number):
            continue
        is_indented = state.sCount[number] - state.blkIndent > 3
        goes_on = last == number and not _begins_block(state, number, end)
        if not is_indented and not goes_on:
            break
        last = number + 1
    state.parentType = parent
    return last


def _begins_block(state: StateBlock, number: int, end: int) -> bool:
    rules = state.md.block.ruler.getRules("paragraph")
    return any(rule(state, number, end, True) for rule in rules)


def _mark(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "[":
        return False
    marks: Marks | None = state.env["references"].marks
    match = _MARK.match(state.src, state.pos, state.posMax) if marks else None
    index = marks.notes.index_of(match[1]) if marks and match else None
    if match is None or index is None:
        return False
    if not silent:
        token = state.push("note_mark", "sup", 0)
        token.content = match[0]
        token.meta = {"index": index}
    state.pos = match.end()
    return True


def _render_note_marks(
    renderer: RendererProtocol, tokens: list[Token], index: int, options: Any, env: Any
) -> str:
    return f"<sup>{tokens[index].meta['index']}</sup>"


def with_notes(md: MarkdownIt) -> MarkdownIt:
    md.block.ruler.before(
        "reference", "note_definition", _definition, {"alt": ["paragraph", "reference"]}
    )
    md.inline.ruler.after("image", "note_mark", _mark)
    md.add_render_rule("note_mark", _render_note_marks)
    return md
