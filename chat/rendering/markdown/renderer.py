"""Markdown to safe HTML: one `render` for every screen, and its two halves for streaming.

`outline` finds the top-level blocks, `render_block` turns one of them into HTML. `render` is
nothing but both, so a text that streams block by block gives the same HTML as a reload.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape, unescape
from typing import Any
from urllib.parse import unquote

from markdown_it.token import Token

from chat.rendering.markdown.extensions import DEFINITION, UNCLOSED, Notes
from chat.rendering.markdown.html import align_without_style, clean, dress
from chat.rendering.markdown.inline import PARAGRAPH
from chat.rendering.markdown.leaves import render_simple
from chat.rendering.markdown.parser import (
    MAX_INLINE_CHARACTERS,
    References,
    Scope,
    block_parser,
    full_parser,
)
from chat.rendering.safety import one_newline, storable

# One block (a list, a table) beyond this is shown as its source.
MAX_BLOCK_CHARACTERS = 1024 * 1024


# --- nothing may be lost ----------------------------------------------------------------------

_NOT_LETTERS = re.compile(r"[\W_]+")
_TAG = re.compile(r"<[^>]*>")
_TOLD = re.compile(r'(?:href|title)="([^"]*)"')


def _letters(text: str) -> str:
    return _NOT_LETTERS.sub("", text)


def _shown(html: str) -> str:
    """The parts of the HTML that a reader can get at: the text, the addresses and the titles."""
    told = [value for tag in _TAG.findall(html) for value in _TOLD.findall(tag)]
    return unescape(_TAG.sub(" ", html) + " ".join(told))


def _walk(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _walk(token.children or [])


def _spelled(token: Token) -> str:
    """Letters and digits that are syntax, not text: ordinals, task marks, labels, escapes."""
    if token.type == "list_item_open":
        return token.info
    if token.type == "task":
        return "x" if "checked" in token.attrs else ""
    if token.type == "note_mark":
        return token.content
    if token.type == "hardbreak":
        return token.markup
    if token.type in ("link_open", "image"):
        address = str(token.attrs.get("href", ""))
        return f"{token.meta.get('label', '')} {unquote(address)} {full_parser.normalizeLinkText(address)}"
    return ""


def _syntax(tokens: list[Token], env: dict[str, Any]) -> str:
    spelled = [_spelled(token) for token in _walk(tokens)]
    defined = [*env["references"].own.items()]
    defined += [(made["label"], made) for made in env.get("duplicate_refs", ())]
    return " ".join([*spelled, *(f"{label} {d['href']} {d['title']}" for label, d in defined)])


def _is_complete(source: str, html: str, tokens: list[Token], env: dict[str, Any]) -> bool:
    """Returns whether every letter and digit of the source arrived: the parser drops what is nested too
    deep without a word."""
    shown = _shown(html)
    written, arrived = _letters(source), _letters(shown)
    # Comparing comes first: most often all are there in order, and counting costs much more.
    if written == arrived or not Counter(written) - Counter(arrived):
        return True
    # Entities (&eacute;) are letters of the source that turn into others.
    needed = Counter(_letters(source.casefold())) & Counter(_letters(unescape(source).casefold()))
    return not needed - Counter(_letters(f"{shown} {_syntax(tokens, env)}".casefold()))


def plain(source: str) -> str:
    """The source as it is: where Markdown would lose or cost too much."""
    return (
        f'<pre class="source" dir="auto" tabindex="0">{escape(source.rstrip(), quote=False)}</pre>'
    )


# --- the two halves, and the whole ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """One top-level block: its lines, what it is, and whether no later line can change it."""

    start: int
    end: int
    kind: str
    markup: str
    is_sealed: bool


@dataclass(frozen=True, slots=True)
class Outline:
    lines: list[str]
    spans: list[Span]
    # Line behind the definition, label, definition.
    definitions: list[tuple[int, str, dict[str, Any]]]
    # The line from which further text may turn all into one formula; behind the last if none.
    sure_lines: int

    def source(self, span: Span) -> str:
        """The block's whole lines, each with its newline."""
        return "\n".join([*self.lines[span.start : span.end], ""])


def closes_fence(line: str, markup: str) -> bool:
    """Returns whether a line ends the code block that `markup` (three or more of one mark) opened."""
    stripped = line.lstrip(" ")
    marks = stripped.rstrip(" \t")
    is_fence = len(marks) >= len(markup) and not marks.strip(markup[0])
    return is_fence and len(line) - len(stripped) <= 3


def _span(token: Token, lines: list[str]) -> Span:
    start, end = token.map or [0, 0]
    is_sealed = token.type in ("hr", "formula_block") or (
        token.type == "heading_open" and token.markup[0] == "#"
    )
    if token.type == "paragraph_open":
        # A line behind it, which is blank: no heading, no table and no further line can follow.
        is_sealed = end < len(lines) - 1 and not lines[end].strip()
    if token.type == "fence":
        is_sealed = end - start > 1 and closes_fence(lines[end - 1], token.markup)
    return Span(start, end, token.type, token.markup, is_sealed)


def clean_source(text: str) -> str:
    return one_newline(storable(text))


def outline(text: str, scope: Scope) -> Outline:
    """The top-level blocks of a cleaned text. Whatever lies between them is blank or a definition."""
    lines = text.split("\n")
    start = len(text) - len(text.lstrip("\n"))
    if PARAGRAPH.match(text, start) and not any(line.strip(" \t") for line in lines[start + 1 :]):
        span = Span(start, start + 1, "paragraph_open", "", is_sealed=len(lines) > start + 2)
        return Outline(lines, [span], [], len(lines))
    scope = scope.fork()
    env: dict[str, Any] = {"references": scope}
    tokens = block_parser.parse(text, env)
    spans = [_span(token, lines) for token in tokens if token.level == 0 and token.nesting >= 0]
    defined = [(made["map"][1], label, made) for label, made in scope.own.items()]
    return Outline(lines, spans, defined, env.get(UNCLOSED, len(lines)))


def render_block(source: str, scope: Scope, dress: Callable[[str], str] = dress) -> str:
    """One top-level block as HTML, with the link definitions of `scope`. ``dress`` adds what is
    ours: the tools of code, the frames of tables."""
    if len(source) > MAX_BLOCK_CHARACTERS:
        return plain(source)
    simple = _simple(source, scope)
    if simple is not None:
        return simple
    env: dict[str, Any] = {"references": scope.fork()}
    return _finished(source, full_parser.parse(source, env), env, scope, dress)


def _simple(source: str, scope: Scope) -> str | None:
    text = source.rstrip(" \n")
    if len(text) > MAX_INLINE_CHARACTERS:
        return None
    return render_simple(text, has_references=scope.has_references)


def _finished(
    source: str,
    tokens: list[Token],
    env: dict[str, Any],
    scope: Scope,
    dress: Callable[[str], str] = dress,
) -> str:
    align_without_style(tokens)
    html = clean(full_parser.renderer.render(tokens, full_parser.options, env)).strip()
    if not _is_complete(source, html, tokens, env):
        return plain(source)
    return dress(scope.marks.put(html) if scope.marks else html)


@dataclass(frozen=True, slots=True)
class Rendered:
    """HTML of a text, and its tokens; none where the text cannot be continued after them."""

    html: str
    tokens: list[Token]


def render_growing(text: str, scope: Scope) -> Rendered | None:
    """The beginning of a text with one run of the parser. ``None``: it has link definitions, or a
    displayed formula without an end, and its blocks do not stand for themselves."""
    env: dict[str, Any] = {"references": scope.fork()}
    tokens = full_parser.parse(text, env)
    if UNCLOSED in env or env["references"].own != scope.own:
        return None
    lines = text.split("\n")
    blocks: list[str] = []
    first = 0
    for at, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            start, end = tokens[first].map or (0, len(lines))
            source = "\n".join([*lines[start:end], ""])
            inside = tokens[first : at + 1]
            # Code without an end shows the blank lines behind it, which belong to no block yet.
            has_code = any(one.type in ("fence", "code_block") for one in inside)
            blocks.append(
                render_block(source, scope) if has_code else _finished(source, inside, env, scope)
            )
            first = at + 1
    return Rendered("".join(blocks), tokens)


def render_cell(text: str, scope: Scope) -> str | None:
    """The inside of a table's cell; None where the parser drops something."""
    env: dict[str, Any] = {"references": scope.fork()}
    tokens = full_parser.parseInline(text, env)
    html = clean(full_parser.renderer.render(tokens, full_parser.options, env))
    return dress(html) if _is_complete(text, html, tokens, env) else None


# Marks are put into the source as one symbol each, which Markdown treats as the punctuation that a
# mark is for it, and become HTML of ours when everything else is done and cleaned.
_FIRST_MARK = 0x2801
_MARKS = 255
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MARKS - 1)}]")
_ANY_TAG = re.compile(r"(<[^>]*>)")
# In these a mark would be copied with the code, or be a link inside a link.
_UNMARKED = ("a", "pre", "code", "button")


def render_marked(source: str, scope: Scope, marks: list[tuple[int, str]]) -> str:
    """A block with our own HTML at places of its source: `marks`, in their order, as offset and
    HTML. Where one would change what the text means, all of them follow the block."""
    html = render_block(source, scope)
    return _mark(source, scope, marks, html) or (
        f'{html}<p class="marks">{"".join(mark for _, mark in marks)}</p>'
    )


def _mark(source: str, scope: Scope, marks: list[tuple[int, str]], html: str) -> str:
    if len(marks) > _MARKS or _MARK.search(source):
        return ""
    last = len(source.rstrip())
    pieces, at = [], 0
    for number, (offset, _) in enumerate(marks):
        place = max(at, min(offset, last))
        pieces += [source[at:place], chr(_FIRST_MARK + number)]
        at = place
    marked = render_block("".join([*pieces, source[at:]]), scope)
    if _MARK.sub("", marked) != html:
        return ""
    return _with_marks(marked, [mark for _, mark in marks])


def _with_marks(marked: str, marks: list[str]) -> str:
    depth = 0
    done: list[str] = []
    for number, piece in enumerate(_ANY_TAG.split(marked)):
        is_tag = number % 2 == 1
        if is_tag and piece.strip("</>").split(None, 1)[0] in _UNMARKED:
            depth += -1 if piece.startswith("</") else 1
        if (is_tag or depth) and _MARK.search(piece):
            return ""
        done.append(_MARK.sub(lambda found: marks[ord(found.group()) - _FIRST_MARK], piece))
    return "".join(done)


def render_whole(
    found: Outline, references: References, prefix: str, render: Callable[[Span, Scope], str]
) -> list[str]:
    """Each block of a complete text as HTML, and last its notes, with ids that begin with
    ``prefix``. A definition that nothing refers to stays where it is."""
    for _, label, definition in found.definitions:
        references.add(label, definition)
    scope = references.scope()
    notes = Notes(prefix)
    defined = [
        (span, notes.define(found.source(span)) if span.kind == DEFINITION else None)
        for span in found.spans
    ]
    drafts = [
        render(span, scope.of_block(notes)) if span.kind != DEFINITION else ""
        for span in found.spans
    ]
    listed = notes.listed(lambda text: _render_note(text, scope, notes))
    blocks = [
        draft or render(span, scope)
        for draft, (span, note) in zip(drafts, defined, strict=True)
        if note is None or not note.number
    ]
    return [*blocks, *listed]


def _render_note(text: str, scope: Scope, notes: Notes) -> str:
    found = outline(text, scope)
    scopes = [scope if span.kind == DEFINITION else scope.of_block(notes) for span in found.spans]
    return "".join(map(render_block, map(found.source, found.spans), scopes))


def render_blocks(text: str, prefix: str = "doc") -> list[str]:
    """Each top-level block of a text as HTML."""
    source = clean_source(text)
    references = References()
    found = outline(source, references.scope())
    return render_whole(
        found, references, prefix, lambda span, scope: render_block(found.source(span), scope)
    )


def render(text: str, prefix: str = "doc") -> str:
    """Markdown as safe HTML: the same for live answers, history, administration and search.

    ``prefix`` begins the ids of notes: another one for each text of a page.
    """
    return "".join(render_blocks(text, prefix))
