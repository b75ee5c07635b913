"""Markdown to safe HTML: one `render` for every screen, and its two halves for streaming.

`outline` finds the top-level blocks, `render_block` turns one of them into HTML. `render` is
nothing but both, so a text that streams block by block gives the same HTML as a reload.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html import escape, unescape
from typing import Any
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from chat.rendering.addresses import host_of, is_safe_link
from chat.rendering.formulas import UNCLOSED, with_formulas
from chat.rendering.highlight import file_name, highlight
from chat.rendering.notes import DEFINITION, Marks, Notes, with_notes
from chat.rendering.visible import one_newline, reveal, reveal_direction, storable

# Deeper than any person writes; the parser drops what lies deeper, which `is_complete` catches.
MAX_NESTING = 100
# One run of inline text beyond this is shown without emphasis and links: the inline parser's
# bracket and delimiter searches are not linear.
MAX_INLINE_CHARACTERS = 64 * 1024
# The search for a link's end is quadratic in open brackets; characters times brackets beyond this
# (a sixth of a second) is no text that anybody wrote.
MAX_BRACKET_WORK = 100_000_000
# One block (a list, a table) beyond this is shown as its source.
MAX_BLOCK_CHARACTERS = 1024 * 1024


# --- link references --------------------------------------------------------------------


class References:
    """The link definitions of one text, in the order in which they were met."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, dict[str, Any]]] = {}

    def add(self, label: str, definition: dict[str, Any]) -> None:
        """The first definition of a label wins."""
        self._entries.setdefault(label, (len(self._entries), definition))

    def find(self, label: str, size: int) -> dict[str, Any] | None:
        number, definition = self._entries.get(label, (size, None))
        return definition if number < size else None

    def scope(self) -> "Scope":
        return Scope(self, len(self._entries))


@dataclass(slots=True)
class Scope:
    """The definitions known at one moment. What comes later never changes what it answers,
    so a block may be rendered late. It has the part of a dict that the parser uses."""

    references: References
    size: int
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Of a block of a complete text; without, marks of notes stay as they are written.
    marks: Marks | None = None

    def fork(self) -> "Scope":
        return replace(self, own=dict(self.own))

    def of_block(self, notes: Notes) -> "Scope":
        return replace(self, marks=notes.marks())

    def get(self, label: str, default: dict[str, Any] | None = None) -> dict[str, Any] | None:
        return self.own.get(label) or self.references.find(label, self.size) or default

    def __contains__(self, label: str) -> bool:
        return self.get(label) is not None

    def __setitem__(self, label: str, definition: dict[str, Any]) -> None:
        self.own[label] = definition


# --- the parser --------------------------------------------------------------------------


_TASK = re.compile(r"\[([ xX])\][ \u00a0]")
_DOMAIN = re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b", re.IGNORECASE)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _is_too_much(content: str) -> bool:
    size = len(content)
    return size > MAX_INLINE_CHARACTERS or size * content.count("[") > MAX_BRACKET_WORK


def _parse_inline(state: StateCore) -> None:
    for token in state.tokens:
        if token.type != "inline":
            continue
        if _is_too_much(token.content):
            token.children = [_text(token.content)]
            continue
        token.children = []
        state.md.inline.parse(token.content, state.md, state.env, token.children)


def _mark_tasks(state: StateCore) -> None:
    """``[x]`` at the start of a list item becomes a checkbox that cannot be changed."""
    for before, paragraph, inline in zip(
        state.tokens, state.tokens[1:], state.tokens[2:], strict=False
    ):
        if before.type != "list_item_open" or paragraph.type != "paragraph_open":
            continue
        first = inline.children[0] if inline.children else None
        match = _TASK.match(first.content) if first is not None and first.type == "text" else None
        if first is None or match is None or inline.children is None:
            continue
        first.content = " " + first.content[match.end() :]
        box = Token("task", "input", 0, attrs={"type": "checkbox", "disabled": ""})
        if match.group(1) != " ":
            box.attrs["checked"] = ""
        inline.children.insert(0, box)


# Digits of a list's numbers: what the style sheet has room for without being told, and the most that
# there are. The parser takes numbers of nine digits; further entries may make it ten.
USUAL_DIGITS = 2
MOST_DIGITS = 10


def _note_long_numbers(state: StateCore) -> None:
    """An ordered list says how long its numbers are: what stands left of an answer is cut off, so
    the list needs room for them, and no style sheet can count digits."""
    open_lists: list[Token] = []
    entries: list[int] = []
    for token in state.tokens:
        if token.type == "ordered_list_open":
            open_lists.append(token)
            entries.append(0)
        elif token.type == "ordered_list_close":
            opened = open_lists.pop()
            digits = len(str(int(opened.attrs.get("start", 1)) + max(entries.pop(), 1) - 1))
            if digits > USUAL_DIGITS:
                opened.attrs["class"] = f"digits-{digits}"
        elif token.type == "list_item_open" and token.info:
            entries[-1] += 1


# The class of a link to a picture that can be shown on request. Nothing else has it.
_ELSEWHERE = "elsewhere"


def _link_of_image(image: Token, depth: int) -> list[Token]:
    """Remote pictures are never loaded: a link that says so, or its text inside another link. On
    request the server fetches it; the browser asks nobody but us."""
    alt = "".join(child.content for child in image.children or ())
    source = str(image.attrs.get("src", ""))
    if depth:
        return [_text(f"Image: {alt} ({source})")]
    label = _text(f"Image: {alt} ({host_of(source)})")
    attrs: dict[str, str | int | float] = {"href": source, "class": _ELSEWHERE}
    if image.attrs.get("title"):
        attrs["title"] = image.attrs["title"]
    return [Token("link_open", "a", 1, attrs=attrs), label, Token("link_close", "a", -1)]


def _replace_images(children: list[Token]) -> list[Token]:
    depth = 0
    result: list[Token] = []
    for token in children:
        depth += token.nesting if token.tag == "a" else 0
        result.extend(_link_of_image(token, depth) if token.type == "image" else [token])
    return result


def _host_note(href: str, label: str) -> list[Token]:
    """The true host, where the label looks like an address of another one."""
    host = host_of(href)
    shown = [name.casefold() for name in _DOMAIN.findall(label)]
    deceives = bool(shown and host) and host.casefold() not in shown
    return [_text(f" ({host})")] if deceives else []


def _note_hosts(children: list[Token]) -> list[Token]:
    result: list[Token] = []
    href = ""
    label: list[str] = []
    for token in children:
        result.append(token)
        if token.type == "link_open":
            href, label = str(token.attrs.get("href", "")), []
        elif token.type == "link_close":
            result.extend(_host_note(href, "".join(label)))
            href = ""
        elif href:
            token.content = reveal_direction(token.content)
            label.append(token.content)
    return result


def _tame_links(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = _replace_images(_note_hosts(token.children))


def _reveal_code(state: StateCore) -> None:
    """Hidden characters in code become visible; a fence's info string becomes its label."""
    for token in state.tokens:
        if token.type == "formula_block":
            token.content = reveal(token.content)
        if token.type in ("fence", "code_block"):
            token.content = reveal(token.content)
            if token.info.strip():
                token.attrs["title"] = reveal(unescapeAll(token.info).strip())
        for child in token.children or ():
            if child.type in ("code_inline", "formula"):
                child.content = reveal(child.content)


def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "store_labels": True}
    md = MarkdownIt("commonmark", {**options, "maxNesting": MAX_NESTING, "xhtmlOut": False})
    md.enable(["table", "strikethrough"])
    md.validateLink = is_safe_link  # type: ignore[method-assign]
    return with_notes(with_formulas(md))


def _full_parser() -> MarkdownIt:
    md = _parser()
    md.core.ruler.at("inline", _parse_inline)
    rules = {
        "tasks": _mark_tasks,
        "links": _tame_links,
        "codes": _reveal_code,
        "numbers": _note_long_numbers,
    }
    for name, rule in rules.items():
        md.core.ruler.push(name, rule)
    md.core.ruler.enable([*rules])
    return md


def _block_parser() -> MarkdownIt:
    """Only the block structure: a fifth of the cost, and all that `outline` needs."""
    md = _parser()
    md.core.ruler.enableOnly(["normalize", "block"])
    return md


_full = _full_parser()
_blocks = _block_parser()


# --- the sanitiser -------------------------------------------------------------------------

_TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br"),
    *(
        "pre",
        "code",
        "em",
        "strong",
        "s",
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "input",
        "span",
        "sup",
    ),
}
# Not their containers: a list's own direction never sees the text of entries that have theirs, but
# browsers look for it through all entries, again at each insertion (9 s for 8,000 rows of a table).
_DIRECTED = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "th", "td")
_LANGUAGE_CLASS = re.compile(r"language-[a-z0-9+#-]{1,30}")
_ALIGNMENT = {"text-align:left": "left", "text-align:right": "right", "text-align:center": "center"}


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if tag == "code" and name == "class":
        value = value.lower()
        return value if _LANGUAGE_CLASS.fullmatch(value) else None
    if tag == "ol" and name == "start":
        return value if value.isdecimal() else None
    if tag == "a" and name == "href":
        # "http:/c/" has a host for the cleaner, and leads into this application for a browser.
        return value if is_safe_link(value) else None
    return value


_cleaner = nh3.Cleaner(
    tags=_TAGS,
    clean_content_tags=set(),
    attributes={"a": {"href", "title"}, "ol": {"start"}, "code": {"class", "title"}},
    tag_attribute_values={
        "a": {"class": {_ELSEWHERE}},
        "ol": {"class": {f"digits-{n}" for n in range(USUAL_DIGITS + 1, MOST_DIGITS + 1)}},
        "span": {"class": {"math", "math display"}},
        "input": {"type": {"checkbox"}, "checked": {""}, "disabled": {""}},
        "th": {"align": {"left", "right", "center"}},
        "td": {"align": {"left", "right", "center"}},
    },
    set_tag_attribute_values={
        **{tag: {"dir": "auto"} for tag in _DIRECTED},
        "a": {"target": "_blank"},
        "span": {"dir": "ltr"},
        # Whether it is done says the box itself.
        "input": {"type": "checkbox", "disabled": "", "aria-label": "Task"},
    },
    attribute_filter=_filter_attribute,
    link_rel="noopener noreferrer nofollow",
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
)


def _align_without_style(tokens: list[Token]) -> None:
    """The parser aligns cells by ``style``, which no content may carry."""
    for token in tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            token.attrs["align"] = _ALIGNMENT.get(str(token.attrs.pop("style")), "left")


# --- dress: our own markup around cleaned code and tables -------------------------------------

# After cleaning, text holds no "<": what this matches is exactly the code elements.
_CODE = re.compile(r"<pre><code([^<>]*)>([^<]*)</code></pre>")
_LANGUAGE = re.compile(r'class="language-([^"]*)"')
_LABEL = re.compile(r'title="([^"]*)"')


def _tool(name: str, word: str, attributes: str = "") -> str:
    return (
        f'<button type="button" class="code-tool {name}"{attributes} aria-label="{word}"'
        f' title="{word}"><svg class="icon" aria-hidden="true">'
        f'<use href="/static/icons.svg#{_TOOL_ICONS[name]}"/></svg></button>'
    )


_TOOL_ICONS = {"wrap": "wrap-text", "download": "download"}
_WRAP_BUTTON = _tool("wrap", "Wrap lines")
_COPY_BUTTON = (
    '<button type="button" class="code-tool copy" data-copy="code">'
    '<svg class="icon" aria-hidden="true"><use href="/static/icons.svg#copy"/></svg>'
    '<span class="copy-word">Copy</span></button>'
)


def code_open(label: str, file: str = "") -> str:
    """The beginning of a code block, up to where the code's own element begins. What is wider than
    the page is scrolled by keyboard as well: here, and in tables.

    ``file``: what it is called when somebody keeps it; without one it is not offered.
    """
    name = f'<span class="language">{escape(label)}</span>'
    keep = _tool("download", "Download", f' data-file="{escape(file)}"') if file else ""
    tools = f'<span class="code-tools">{_WRAP_BUTTON}{keep}{_COPY_BUTTON}</span>'
    bar = f'<div class="code-bar">{name}{tools}</div>'
    return f'<div class="codeblock" dir="ltr">{bar}<pre tabindex="0">'


CODE_CLOSE = "</pre></div>"


def code_block(code: str, language: str = "", label: str = "", file: str = "") -> str:
    """A highlighted code block with its language and what can be done with it."""
    begin = code_open(label or language, file)
    return f"{begin}<code>{highlight(code, language)}</code>{CODE_CLOSE}"


# Drawn in the browser, in a frame of its own.
_DIAGRAM = "mermaid"


def diagram(source: str) -> str:
    """A text that is a diagram as a whole: its source, until the browser has drawn it."""
    return _as_diagram(code_block(reveal(storable(source)), _DIAGRAM, _DIAGRAM))


def _as_diagram(block: str) -> str:
    return block.replace('"codeblock"', '"codeblock diagram"', 1)


def fence_open(label: str) -> str:
    """The same for a block of an answer: whole, so that it can be kept as a file."""
    return code_open(label, file_name(label))


def _dress_code(match: re.Match[str]) -> str:
    attributes, code = match.groups()
    language, label = _LANGUAGE.search(attributes), _LABEL.search(attributes)
    name = unescape(label.group(1)) if label else ""
    kind = language.group(1) if language else ""
    block = code_block(unescape(code), kind, name, file_name(name))
    return _as_diagram(block) if kind == _DIAGRAM else block


_PICTURE_LINK = re.compile(rf'<a href="(https?://[^"]*)" class="{_ELSEWHERE}"[^<>]*>[^<]*</a>')
_SHOW_BUTTON = (
    '<button type="button" class="show-picture" aria-label="Show the picture">'
    '<svg class="icon" aria-hidden="true"><use href="/static/icons.svg#image"/></svg>'
    "<span>Show</span></button>"
)


def picture_addresses(html: str) -> list[str]:
    """The addresses of the pictures that a reader of this HTML can have shown, each once."""
    return list(dict.fromkeys(unescape(match[1]) for match in _PICTURE_LINK.finditer(html)))


def _dress(html: str) -> str:
    html = _CODE.sub(_dress_code, html)
    html = _PICTURE_LINK.sub(lambda link: f"{link[0]} {_SHOW_BUTTON}", html)
    html = html.replace("<table", '<div class="table-scroll" tabindex="0"><table')
    return html.replace("</table>", "</table></div>")


# --- nothing may be lost ----------------------------------------------------------------------

_NOT_LETTERS = re.compile(r"[\W_]+")
_TAG = re.compile(r"<[^>]*>")
_TOLD = re.compile(r'(?:href|title)="([^"]*)"')


def _letters(text: str) -> Counter[str]:
    return Counter(_NOT_LETTERS.sub("", text))


def _shown(html: str) -> str:
    """What a reader can get at: the text, the addresses and the titles."""
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
    if token.type in ("link_open", "image"):
        address = str(token.attrs.get("href", ""))
        return (
            f"{token.meta.get('label', '')} {unquote(address)} {_full.normalizeLinkText(address)}"
        )
    return ""


def _syntax(tokens: list[Token], env: dict[str, Any]) -> str:
    spelled = [_spelled(token) for token in _walk(tokens)]
    defined = [*env["references"].own.items()]
    defined += [(made["label"], made) for made in env.get("duplicate_refs", ())]
    return " ".join([*spelled, *(f"{label} {d['href']} {d['title']}" for label, d in defined)])


def _is_complete(source: str, html: str, tokens: list[Token], env: dict[str, Any]) -> bool:
    """Whether every letter and digit of the source arrived: the parser drops what is nested too
    deep, and cells beyond a table's width, without a word."""
    shown = _shown(html)
    if not _letters(source) - _letters(shown):
        return True
    # Entities (&eacute;) are letters of the source that turn into others.
    needed = _letters(source.casefold()) & _letters(unescape(source).casefold())
    return not needed - _letters(f"{shown} {_syntax(tokens, env)}".casefold())


def plain(source: str) -> str:
    """The source as it is: where Markdown would lose or cost too much."""
    return (
        f'<pre class="source" dir="auto" tabindex="0">{escape(source.rstrip(), quote=False)}</pre>'
    )


# --- words alone --------------------------------------------------------------------------------

# What could mean something, inside a paragraph of one line: marks, entities, HTML, and any white
# space but the usual one. Everything else comes out as it went in.
_MEANS_SOMETHING = re.compile(r"[\\`*_~$\[\]<>&|\x00-\x1f\x7f-\x9f]|[^\S ]")
_BEFORE_WORDS = "\"'(@“„‘«¿¡"


def begins_words(text: str) -> bool:
    """Whether a line that begins like this is a paragraph, whatever comes behind."""
    return text != "" and (text[0].isalpha() or text[0] in _BEFORE_WORDS)


def is_words(text: str) -> bool:
    """Whether Markdown leaves a piece of a line as it is, wherever in the line it stands."""
    return _MEANS_SOMETHING.search(text) is None


def words_paragraph(text: str, id: str = "") -> str:
    """The paragraph that `render` would make of one line of words, for a fiftieth of the cost."""
    name = f' id="{id}"' if id else ""
    return f'<p{name} dir="auto">{text}</p>'


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
    """Whether a line ends the code block that `markup` (three or more of one mark) opened."""
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
    scope = scope.fork()
    env: dict[str, Any] = {"references": scope}
    tokens = _blocks.parse(text, env)
    spans = [_span(token, lines) for token in tokens if token.level == 0 and token.nesting >= 0]
    defined = [(made["map"][1], label, made) for label, made in scope.own.items()]
    return Outline(lines, spans, defined, env.get(UNCLOSED, len(lines)))


def render_block(source: str, scope: Scope) -> str:
    """One top-level block as HTML, with the link definitions of `scope`."""
    if len(source) > MAX_BLOCK_CHARACTERS:
        return plain(source)
    line = source.rstrip(" \n")
    if begins_words(line) and is_words(line):
        return words_paragraph(line)
    env: dict[str, Any] = {"references": scope.fork()}
    tokens = _full.parse(source, env)
    _align_without_style(tokens)
    html = _cleaner.clean(_full.renderer.render(tokens, _full.options, env)).strip()
    if not _is_complete(source, html, tokens, env):
        return plain(source)
    return _dress(scope.marks.put(html) if scope.marks else html)


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
    references = References()
    found = outline(clean_source(text), references.scope())
    return render_whole(
        found, references, prefix, lambda span, scope: render_block(found.source(span), scope)
    )


def render(text: str, prefix: str = "doc") -> str:
    """Markdown as safe HTML: the same for live answers, history, administration and search.

    ``prefix`` begins the ids of notes: another one for each text of a page.
    """
    return "".join(render_blocks(text, prefix))
