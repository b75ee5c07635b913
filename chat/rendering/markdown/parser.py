"""The Markdown parser: markdown-it with our extensions and limits."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_core import StateCore, linkify
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline import linkify as linkify_inline
from markdown_it.token import Token

from chat.rendering.markdown.cjk import Addresses, with_cjk_emphasis
from chat.rendering.markdown.extensions import Marks, Notes, with_formulas, with_notes
from chat.rendering.markdown.tables import IN_CELL, with_tables
from chat.rendering.safety import host_of, is_safe_link, reveal, reveal_direction

# Deeper than any person writes; the parser drops what lies deeper, which `is_complete` catches.
MAX_NESTING = 100
# One run of inline text beyond this is shown without emphasis and links: the inline parser's
# bracket and delimiter searches are not linear.
MAX_INLINE_CHARACTERS = 64 * 1024
# The search for a link's end is quadratic in open brackets, that for addresses in their marks;
# characters times one of them beyond this (up to 0.1 seconds) is no text that anybody wrote.
MAX_LINK_WORK = 10_000_000


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
    """The definitions known at one moment. Later ones never change it, so a block may be rendered
    late. It has the part of a dict that the parser uses."""

    references: References
    size: int
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Set for a block of a complete text; if None, marks of notes stay as they are written.
    marks: Marks | None = None

    @property
    def has_references(self) -> bool:
        """True if brackets may be links or marks of notes."""
        return bool(self.size or self.own or self.marks)

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
    links = max(content.count("["), content.count("://"))
    return size > MAX_INLINE_CHARACTERS or size * links > MAX_LINK_WORK


def _parse_inline(state: StateCore) -> None:
    before = ""
    for token in state.tokens:
        kind, before = before, token.type
        if token.type != "inline":
            continue
        # Text that is parsed without its block is that of a cell.
        state.env[IN_CELL] = state.inlineMode or kind in ("th_open", "td_open")
        if _is_too_much(token.content):
            token.children = [_text(token.content)]
            continue
        token.children = []
        state.md.inline.parse(token.content, state.md, state.env, token.children)


def _link_addresses(state: StateCore) -> None:
    """Addresses in text become links, where the inline parser read the text as well."""
    texts = [token.content for token in state.tokens if token.type == "inline"]
    # The search for addresses costs as much as the rest of the inline parser.
    if any(map(_may_have_address, texts)) and not any(map(_is_too_much, texts)):
        linkify(state)


def _may_have_address(content: str) -> bool:
    """See `_addresses`: each has a scheme, or is one of mail."""
    return ":" in content or "@" in content


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
REMOTE_IMAGE_CLASS = "elsewhere"


def _link_of_image(image: Token, depth: int) -> list[Token]:
    """Remote pictures are never loaded: a link that says so, or its text inside another link. On
    request the server fetches it; the browser asks nobody but us."""
    alt = "".join(child.content for child in image.children or ())
    source = str(image.attrs.get("src", ""))
    if depth:
        return [_text(_image_label(alt, source))]
    label = _text(_image_label(alt, host_of(source)))
    attrs: dict[str, str | int | float] = {"href": source, "class": REMOTE_IMAGE_CLASS}
    if image.attrs.get("title"):
        attrs["title"] = image.attrs["title"]
    return [Token("link_open", "a", 1, attrs=attrs), label, Token("link_close", "a", -1)]


def _image_label(alt: str, source: str) -> str:
    return gettext("Image: %(description)s (%(source)s)") % {"description": alt, "source": source}


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


def _address_in_line(state: StateInline, silent: bool) -> bool:
    """An address with its scheme, whole before its marks are read as Markdown. The library's rule
    reads its options at each mark; most marks are no colon."""
    return state.src[state.pos] == ":" and linkify_inline(state, silent)


def _addresses() -> Addresses:
    """Finds web addresses with their scheme, and mail addresses. Answers are full of names like
    ``README.md`` and ``asyncio.run``, which are no hosts."""
    found = Addresses(options={"fuzzy_link": False, "fuzzy_ip": False, "fuzzy_email": True})
    found.add("//", None).add("ftp:", None)
    return found


def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": True, "typographer": False, "store_labels": True}
    md = MarkdownIt("commonmark", {**options, "maxNesting": MAX_NESTING, "xhtmlOut": False})
    md.enable(["strikethrough", "linkify"])
    md.linkify = _addresses()
    md.inline.ruler.at("linkify", _address_in_line)
    md.validateLink = is_safe_link  # type: ignore[method-assign]
    return with_cjk_emphasis(with_tables(with_notes(with_formulas(md))))


def _full_parser() -> MarkdownIt:
    md = _parser()
    md.core.ruler.at("inline", _parse_inline)
    md.core.ruler.at("linkify", _link_addresses)
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
    """A parser of the block structure: a fifth of the cost, and all that `outline` needs."""
    md = _parser()
    md.core.ruler.enableOnly(["normalize", "block"])
    return md


full_parser = _full_parser()
block_parser = _block_parser()
