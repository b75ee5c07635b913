"""The text of a document as a model is sent it, and what people are told about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.translation import gettext, ngettext

from chat.documents.pages import in_words, parse_pages
from chat.models import Document, DocumentKind, DocumentPage
from chat.rendering import figures

# The average of English prose in the tokenizers of today's models. Code and other languages need more tokens.
CHARACTERS_PER_TOKEN = 4
# Models read these words, whatever the person's language, so that the same file is always the same prompt.
_PAGE_WORDS: Mapping[str, str] = {
    DocumentKind.PDF: "Page",
    DocumentKind.SLIDES: "Slide",
    DocumentKind.SHEETS: "Sheet",
}


def text_of(document: Document, name: str, pages: str = "") -> str:
    """The text that a model is sent for a file with this name: a line with the name, and the text of the chosen pages,
    each below its number. A choice that doesn't fit the document counts as all pages."""
    shown = " ".join(name.split())
    if not document.is_readable:
        return f"[File: {shown}. Its text is not available.]"
    try:
        chosen = parse_pages(pages, document.pages_count)
    except ValueError:
        chosen = parse_pages("", document.pages_count)
    word = _PAGE_WORDS.get(document.kind, "")
    rows = DocumentPage.objects.filter(document=document)
    if len(chosen) < document.pages_count:
        rows = rows.filter(number__in=chosen)
    # A document whose kind has no pages is one text.
    parts = [_page(row, word) if word else row.text.strip("\n") for row in rows.order_by("number")]
    head = f"[File: {shown}{_extent(word, chosen, document.pages_count)}]"
    return "\n\n".join([head, *parts, f"[End of file: {shown}]"])


def _page(row: DocumentPage, word: str) -> str:
    # The title of a slide is in its text.
    title = f": {row.name}" if row.name and word == "Sheet" else ""
    return f"[{word} {row.number}{title}]\n{row.text}".rstrip()


def _extent(word: str, chosen: Iterable[int], count: int) -> str:
    if not word:
        return ""
    numbers = tuple(chosen)
    plural = f"{word.lower()}s" if len(numbers) > 1 else word.lower()
    if len(numbers) == count:
        return f", {count} {plural}"
    return f", {plural} {in_words(numbers)} of {count}"


def tokens_of(characters: int) -> int:
    """About how many tokens a text of this length is."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def about(tokens: int) -> int:
    """An estimate, with the two digits that mean something."""
    return round(tokens, min(0, 2 - len(str(tokens))))


def facts(document: Document) -> str:
    """The facts that people are told about a document: its extent, why it can't be read, or that it is being read."""
    if document.read_at is None:
        return gettext("Reading…")
    if document.refusal:
        # Stored in the language of the source, as documents are shared by people of all languages.
        return gettext(document.refusal)
    pages, tokens = _pages_in_words(document), _tokens_in_words(document)
    return (
        gettext("%(pages)s, %(tokens)s") % {"pages": pages, "tokens": tokens} if pages else tokens
    )


def _tokens_in_words(document: Document) -> str:
    if not document.characters:
        # Scanned pages are pictures.
        return gettext("without text")
    tokens = about(tokens_of(document.characters))
    words = ngettext("about %(tokens)s token", "about %(tokens)s tokens", tokens)
    return words % {"tokens": figures.count(tokens)}


def _pages_in_words(document: Document) -> str:
    count = document.pages_count
    if document.kind == DocumentKind.PDF:
        words = ngettext("%(count)s page", "%(count)s pages", count)
    elif document.kind == DocumentKind.SLIDES:
        words = ngettext("%(count)s slide", "%(count)s slides", count)
    elif document.kind == DocumentKind.SHEETS:
        words = ngettext("%(count)s sheet", "%(count)s sheets", count)
    else:
        return ""
    return words % {"count": figures.count(count)}
