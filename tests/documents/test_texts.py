"""The choice of pages, and the text that a model is sent."""

from __future__ import annotations

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from chat.documents.pages import MOST_CHARACTERS, in_words, parse_pages
from chat.documents.readers import refusals
from chat.documents.texts import about, facts, text_of
from chat.models import Document, DocumentPage


@pytest.mark.parametrize(
    ("chosen", "numbers", "words"),
    [
        ("", (1, 2, 3, 4, 5, 6, 7, 8, 9), "1-9"),
        (" , ", (1, 2, 3, 4, 5, 6, 7, 8, 9), "1-9"),
        ("3", (3,), "3"),
        ("1-3, 7", (1, 2, 3, 7), "1-3, 7"),
        ("7;3 – 1", None, "isn’t a range of pages"),
        ("9,7,8,7", (7, 8, 9), "7-9"),
        ("2 – 4", (2, 3, 4), "2-4"),
        ("0", None, "isn’t a range of pages"),
        ("8-10", None, "There is no page 10: the document has 9 pages."),
        ("1-999999999", None, "There is no page 999999999"),
        ("99999999999999999999", None, "Write page numbers and ranges"),
        ("one", None, "Write page numbers and ranges"),
        ("1--2", None, "Write page numbers and ranges"),
        ("٣", None, "Write page numbers and ranges"),
    ],
)
def test_pages_are_chosen_as_people_write_them(
    chosen: str, numbers: tuple[int, ...] | None, words: str
) -> None:
    if numbers is None:
        with pytest.raises(ValueError, match=words):
            parse_pages(chosen, 9)
    else:
        assert parse_pages(chosen, 9) == numbers
        assert in_words(numbers) == words


def test_choice_that_is_too_long_for_its_column_is_refused() -> None:
    with pytest.raises(ValueError, match="Choose longer ranges"):
        parse_pages(",".join(str(number) for number in range(1, 200, 2)), 200)


@given(st.sets(st.integers(1, 60), min_size=1))
def test_normal_form_means_the_same_pages(numbers: set[int]) -> None:
    words = in_words(numbers)

    if len(words) <= MOST_CHARACTERS:
        assert parse_pages(words, 60) == tuple(sorted(numbers))


def make(kind: str, *pages: tuple[str, str], **values: object) -> Document:
    values = {"read_at": timezone.now(), **values}
    document = Document.objects.create(
        sha256="0" * 64,
        kind=kind,
        pages_count=len(pages),
        characters=sum(len(text) for _, text in pages),
        **values,
    )
    for number, (name, text) in enumerate(pages, start=1):
        DocumentPage.objects.create(document=document, number=number, name=name, text=text)
    return document


def test_model_is_sent_the_chosen_pages_with_their_numbers(db: None) -> None:
    document = make("pdf", ("", "One"), ("", "Two"), ("", ""))

    assert text_of(document, "a\nb.pdf") == (
        "[File: a b.pdf, 3 pages]\n\n[Page 1]\nOne\n\n[Page 2]\nTwo\n\n[Page 3]\n\n[End of file: a b.pdf]"
    )
    assert text_of(document, "a.pdf", "2") == (
        "[File: a.pdf, page 2 of 3]\n\n[Page 2]\nTwo\n\n[End of file: a.pdf]"
    )
    # A choice for another version of the file.
    assert text_of(document, "a.pdf", "2-9") == text_of(document, "a.pdf")


def test_sheets_have_names_and_texts_no_pages(db: None) -> None:
    sheets = make("sheets", ("People", "a,b"), ("Empty", ""))
    assert text_of(sheets, "a.xlsx", "1") == (
        "[File: a.xlsx, sheet 1 of 2]\n\n[Sheet 1: People]\na,b\n\n[End of file: a.xlsx]"
    )
    sheets.delete()

    assert text_of(make("text", ("", "words\n")), "a.txt") == (
        "[File: a.txt]\n\nwords\n\n[End of file: a.txt]"
    )


def test_file_without_text_is_named_to_the_model(db: None) -> None:
    document = make("pdf", refusal=refusals.PASSWORD)

    assert text_of(document, "a.pdf") == "[File: a.pdf. Its text is not available.]"


def test_people_are_told_the_extent_or_the_reason(db: None) -> None:
    assert facts(Document(kind="pdf")) == "Reading…"
    read = {"read_at": timezone.now()}
    assert facts(Document(kind="pdf", refusal=refusals.PASSWORD, **read)) == refusals.PASSWORD
    assert (
        facts(Document(kind="pdf", pages_count=12, characters=33_333, **read))
        == "12 pages, about 8,300 tokens"
    )
    assert (
        facts(Document(kind="slides", pages_count=1, characters=4, **read))
        == "1 slide, about 1 token"
    )
    assert facts(Document(kind="text", pages_count=1, characters=40, **read)) == "about 10 tokens"
    assert facts(Document(kind="pdf", pages_count=2, **read)) == "2 pages, without text"
    assert facts(Document(kind="text", pages_count=1, **read)) == "without text"


@pytest.mark.parametrize(
    ("tokens", "shown"), [(0, 0), (7, 7), (99, 99), (8_333, 8300), (95_500, 96_000)]
)
def test_estimates_have_two_digits(tokens: int, shown: int) -> None:
    assert about(tokens) == shown
