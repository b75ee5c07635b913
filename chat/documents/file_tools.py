"""The tools by which a model reads attached documents: their definitions, and what they answer.

Models read everything here, so it is in English, whatever a person's language.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chat.dialects.base import ToolDefinition
from chat.documents.pages import in_words, parse_pages
from chat.documents.texts import about, tokens_of
from chat.events import JsonObject
from chat.models import Document, DocumentKind, DocumentPage
from chat.result import own_functions
from chat.result.own_functions import FILES, FunctionRefused
from chat.search.tokens import folded

LIST, SEARCH, READ = "list_files", "search_file", "read_file"
# In front of the names where the conversation has a tool with one of them.
PREFIX = "attached_"

# Characters of one answer: about five thousand tokens.
ANSWER_CHARACTERS = 20_000
# A longer line counts as several.
LINE_CHARACTERS = 2_000
# Places that one search tells, and the characters around each.
MOST_FOUND = 20
EXCERPT_CHARACTERS = 300
# More than these are thinned out to the best ones: a text can be of nothing but places.
KEPT_WHILE_SEARCHING = 1000
# Characters that one search looks at; the answer says where the next one goes on.
SEARCHED_CHARACTERS = 5_000_000
QUERY_CHARACTERS = 400
MOST_WORDS = 20

_FILE: JsonObject = {
    "type": "string",
    "description": "The name of the file, or its number in list_files",
}
_SCHEMAS: dict[str, tuple[str, JsonObject]] = {
    LIST: (
        "Lists the documents that are attached in this conversation, with their numbers, pages and lengths.",
        {"type": "object", "properties": {}},
    ),
    SEARCH: (
        "Finds the places of an attached document that have the words of a query. Returns page and line numbers with "
        "excerpts, the places with most of the words first.",
        {
            "type": "object",
            "properties": {
                "file": _FILE,
                "query": {"type": "string", "description": "Words to look for"},
                "from_page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Look from this page on",
                },
            },
            "required": ["file", "query"],
        },
    ),
    READ: (
        "Reads the text of an attached document: all of it, some pages, or from a line on. A long text comes in several "
        "answers; each says how to go on.",
        {
            "type": "object",
            "properties": {
                "file": _FILE,
                "pages": {"type": "string", "description": "Pages such as 1-3, 7; all without it"},
                "from_line": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The first line to read, of the first of these pages",
                },
            },
            "required": ["file"],
        },
    ),
}


def name_for(function: str, taken: Collection[str]) -> str:
    """The name under which a model gets a function: the conversation may have a tool with that name."""
    return own_functions.name_for(function, _SCHEMAS, taken, PREFIX)


def function_of(name: str) -> str:
    return name.removeprefix(PREFIX)


def definitions(taken: Collection[str]) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=name_for(function, taken),
            description=description,
            schema=schema,
            feature=FILES,
        )
        for function, (description, schema) in _SCHEMAS.items()
    ]


def mention(name: str, document: Document, taken: Collection[str]) -> str:
    """The text in a message about a document that the model is to read with the tools."""
    search, read = name_for(SEARCH, taken), name_for(READ, taken)
    return (
        f"[File: {_line(name)}, {extent_of(document)}. Its text is not in this message: look into it with {search} and "
        f"{read}.]"
    )


def extent_of(document: Document, pages: str = "") -> str:
    if document.read_at is None:
        return "not read yet"
    if not document.is_readable:
        return "its text is not available"
    count = document.pages_count
    tokens = about(tokens_of(document.characters))
    word = _WORDS.get(document.kind)
    length = f"about {tokens:,} {'token' if tokens == 1 else 'tokens'}"
    if word is None:
        return length
    extent = f"{count} {word}" if count == 1 else f"{count} {word}s"
    return f"{extent}, {length}" + (f", of which {pages} are attached" if pages else "")


_WORDS: Mapping[str, str] = {
    DocumentKind.PDF: "page",
    DocumentKind.SLIDES: "slide",
    DocumentKind.SHEETS: "sheet",
}


# --- the answers ----------------------------------------------------------------------------------


class Refused(FunctionRefused):
    """A call that names no file, or nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedDocument:
    """A document that a call may read: the chosen pages of a file. ``document`` is ``None`` for a file that can't be
    read."""

    name: str
    document: Document | None
    pages: str = ""

    @property
    def numbers(self) -> Sequence[int]:
        if self.document is None:
            return ()
        try:
            return parse_pages(self.pages, self.document.pages_count)
        except ValueError:
            # As the text that is sent of it.
            return parse_pages("", self.document.pages_count)


def answer(function: str, arguments: JsonObject, files: Sequence[AttachedDocument]) -> str:
    """The result of a call. Raises ``Refused``."""
    if function == LIST:
        return _list(files)
    file = _named(arguments.get("file"), files)
    if file.document is None or not file.document.is_readable:
        raise Refused(f"The text of {_line(file.name)} is not available.")
    if function == SEARCH:
        return _search(file, file.document, arguments)
    if function == READ:
        return _read(file, file.document, arguments)
    raise Refused("There is no such tool.")


def _list(files: Sequence[AttachedDocument]) -> str:
    lines = [
        f"{number}. {_line(file.name)}: "
        + (extent_of(file.document, file.pages) if file.document else "not readable as text")
        for number, file in enumerate(files, start=1)
    ]
    return "\n".join(lines) or "No files are attached."


def _named(given: object, files: Sequence[AttachedDocument]) -> AttachedDocument:
    """The file that a call names. Of several with the name it is the newest."""
    wanted = _line(str(given or ""))
    for file in reversed(files):
        if _line(file.name) == wanted:
            return file
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:6]) <= len(files):
        return files[int(wanted[:6]) - 1]
    raise Refused(
        f"No file named “{wanted[:200]}” is attached in this conversation. Its files:\n{_list(files)}"
    )


def _line(name: str) -> str:
    return " ".join(name.split())


def _integer(value: object, default: int) -> int:
    """A positive number, which some models write as text."""
    if value is None or value == "":
        return default
    try:
        return max(1, int(float(str(value))))
    except (ValueError, OverflowError):
        raise Refused("Page and line numbers must be whole numbers.") from None


def _read(file: AttachedDocument, document: Document, arguments: JsonObject) -> str:
    numbers = _asked_pages(file, document, arguments)
    first_line = _integer(arguments.get("from_line"), 1)
    word = _WORDS.get(document.kind)
    pieces = [f"[File: {_line(file.name)}, {extent_of(document, file.pages)}]"]
    left = ANSWER_CHARACTERS
    shown = 0
    for page, line, text in _numbered(document, numbers):
        if line < first_line and (word is None or page.number == numbers[0]):
            continue
        if len(text) > left:
            rest = in_words(number for number in numbers if number >= page.number)
            pages = f'pages="{rest}", ' if word else ""
            return "\n".join([*pieces, f"[More follows: call with {pages}from_line={line}]"])
        if word and page.number != shown:
            title = f": {page.name}" if page.name else ""
            pieces.append(f"[{word.capitalize()} {page.number}{title}]")
        shown = page.number
        pieces.append(text)
        left -= len(text) + 1
    return "\n".join([*pieces, "[End]"])


def _asked_pages(
    file: AttachedDocument, document: Document, arguments: JsonObject
) -> Sequence[int]:
    """The pages that a call asks for and that are attached; a text without pages has no choice."""
    wanted = arguments.get("pages") if document.kind in _WORDS else ""
    try:
        asked = parse_pages(str(wanted or ""), document.pages_count)
    except ValueError as error:
        raise Refused(str(error)) from None
    allowed = set(file.numbers)
    numbers = [number for number in asked if number in allowed]
    if not numbers:
        raise Refused(f"Of {_line(file.name)} only the pages {in_words(allowed)} are attached.")
    return numbers


def _search(file: AttachedDocument, document: Document, arguments: JsonObject) -> str:
    query = str(arguments.get("query") or "")[:QUERY_CHARACTERS]
    words = list(dict.fromkeys(_folded(query).split()))[:MOST_WORDS]
    if not words:
        raise Refused("The query is empty.")
    first = _integer(arguments.get("from_page"), 1)
    numbers = [number for number in file.numbers if number >= first]
    # How many of the words a line has (below zero), its page and number, and an excerpt.
    found: list[tuple[int, int, int, str]] = []
    count, searched, next_page = 0, 0, 0
    for page, line, text in _numbered(document, numbers):
        if searched > SEARCHED_CHARACTERS and line == 1:
            next_page = page.number
            break
        searched += len(text) + 1
        plain = _folded(text)
        places = [place for word in words if (place := plain.find(word)) >= 0]
        if places:
            count += 1
            found.append((-len(places), page.number, line, _excerpt(text, min(places))))
        if len(found) == KEPT_WHILE_SEARCHING:
            found = sorted(found)[:MOST_FOUND]
    found = sorted(found)[:MOST_FOUND]
    is_paged = document.kind in _WORDS
    lines = [
        (f"Page {page}, line {line}: " if is_paged else f"Line {line}: ") + excerpt
        for _, page, line, excerpt in found
    ]
    if not lines:
        lines.append("No line has any of these words.")
    if count > len(found):
        lines.append(f"{count - len(found)} more lines have some. Use more exact words.")
    if next_page:
        lines.append(
            f"Only the pages before {next_page} were searched. Go on with from_page={next_page}."
        )
    return "\n".join(lines)


def _folded(text: str) -> str:
    """Without case and accents, as the search of conversations; most characters keep their places."""
    return text.lower() if text.isascii() else folded(text)


def _excerpt(line: str, place: int) -> str:
    start = max(0, place - EXCERPT_CHARACTERS // 3)
    end = start + EXCERPT_CHARACTERS
    return f"{'…' * (start > 0)}{line[start:end].strip()}{'…' * (end < len(line))}"


def _numbered(
    document: Document, numbers: Sequence[int]
) -> Iterator[tuple[DocumentPage, int, str]]:
    """The lines of these pages with their numbers, which count through a text without pages."""
    line = 0
    for page in _pages(document, numbers):
        if document.kind in _WORDS:
            line = 0
        for text in _lines(page.text):
            line += 1
            yield page, line, text


def _pages(document: Document, numbers: Iterable[int]) -> Iterator[DocumentPage]:
    """The pages with these ascending numbers, a few in memory at a time."""
    wanted = list(numbers)
    if not wanted:
        return
    rows = DocumentPage.objects.filter(
        document=document, number__gte=wanted[0], number__lte=wanted[-1]
    )
    known = set(wanted)
    for page in rows.order_by("number").iterator(chunk_size=50):
        if page.number in known:
            yield page


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        for start in range(0, max(1, len(line)), LINE_CHARACTERS):
            yield line[start : start + LINE_CHARACTERS]
