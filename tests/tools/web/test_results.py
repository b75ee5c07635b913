"""Answers of search services, as they document them, and broken ones."""

from __future__ import annotations

import json

import pytest

from chat.models import SearchService
from chat.tools.web.results import as_text, pages_in, request_of

SEARXNG = {
    "query": "elbe",
    "number_of_results": 2,
    "results": [
        {"title": "Elbe", "url": "https://a.example/elbe", "content": "A river\n in Europe"},
        {"title": "", "url": "https://b.example/", "content": None, "engine": "x"},
    ],
}
BRAVE = {
    "type": "search",
    "web": {
        "results": [
            {
                "title": "Elbe",
                "url": "https://a.example/elbe",
                "description": "A <strong>river</strong> &amp; more",
            }
        ]
    },
}
TAVILY = {
    "query": "elbe",
    "results": [
        {"title": "Elbe", "url": "https://a.example/elbe", "content": "A river", "score": 0.9}
    ],
}


@pytest.mark.parametrize(
    ("service", "answer", "text"),
    [
        (SearchService.SEARXNG, SEARXNG, "A river in Europe"),
        (SearchService.BRAVE, BRAVE, "A river & more"),
        (SearchService.TAVILY, TAVILY, "A river"),
    ],
)
def test_results_are_read(service: str, answer: object, text: str) -> None:
    first, *others = pages_in(service, json.dumps(answer).encode(), 10)

    assert (first.title, first.url, first.text) == ("Elbe", "https://a.example/elbe", text)
    assert [page.title for page in others] == [page.url for page in others]
    assert f"1. Elbe\nhttps://a.example/elbe\n{text}" in as_text("elbe", [first, *others])


@pytest.mark.parametrize(
    ("service", "address", "method", "url", "body"),
    [
        (
            SearchService.SEARXNG,
            "https://s.example/x/",
            "GET",
            "https://s.example/x/search?q=a+%26+b&format=json",
            b"",
        ),
        (
            SearchService.BRAVE,
            "https://b.example",
            "GET",
            "https://b.example?q=a+%26+b&count=3",
            b"",
        ),
        (
            SearchService.TAVILY,
            "https://t.example",
            "POST",
            "https://t.example",
            b'{"query":"a & b","max_results":3}',
        ),
    ],
)
def test_service_is_asked(service: str, address: str, method: str, url: str, body: bytes) -> None:
    asked = request_of(service, address, "a & b", 3)

    assert (asked.method, asked.url, asked.body) == (method, url, body)


def test_addresses_that_are_no_pages_and_repeated_ones_are_left_out() -> None:
    urls = ["javascript:alert(1)", "ftp://a.example", "https://a.example/1", "https://a.example/1"]
    urls += ["https://a.example/\u202e", "https://a.example/" + "x" * 3000, "", "https://b.example"]
    answer = {"results": [None, 5, *({"url": url, "title": "T" * 900} for url in urls)]}

    pages = pages_in(SearchService.SEARXNG, json.dumps(answer).encode(), 10)

    assert [page.url for page in pages] == ["https://a.example/1", "https://b.example"]
    assert {len(page.title) for page in pages} == {200}
    assert len(pages_in(SearchService.SEARXNG, json.dumps(answer).encode(), 1)) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"results": {}}', b'{"results": 1}', b"[" * 100_000]
)
@pytest.mark.parametrize("service", [SearchService.SEARXNG, SearchService.TAVILY])
def test_other_answers_are_refused(service: str, body: bytes) -> None:
    with pytest.raises(ValueError):
        pages_in(service, body, 5)


def test_no_results_are_no_sources() -> None:
    assert pages_in(SearchService.BRAVE, b'{"type": "search"}', 5) == []
    assert as_text("elbe", []) == "The search for “elbe” found nothing."
