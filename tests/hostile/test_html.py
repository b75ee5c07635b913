"""Hostile texts and addresses become harmless HTML, without a browser."""

from __future__ import annotations

import pytest

from chat.rendering.markdown import render
from chat.rendering.safety import with_host
from tests.hostile.addresses import ADDRESSES
from tests.hostile.breaking import without_cleaner, without_escaping, without_url_check
from tests.hostile.grammar import PIECES, texts
from tests.hostile.places import PLACES, answer_with, citation, medium, step, tool_result
from tests.hostile.rules import problems_in
from tests.rendering.hostile_texts import HOSTILE, everywhere
from tests.support.selection import EXHAUSTIVE

SEED = 20_261_123
# All pieces, and many more texts, are looked at in a browser by test_browser_texts.
COUNT = 1_500 if EXHAUSTIVE else 500
ANSWERS = [*PIECES[::4], *texts(10, seed=SEED + 1)]


def problems_of_texts(count: int) -> list[tuple[str, list[str]]]:
    hostile = [*HOSTILE, *PIECES, *texts(count, seed=SEED)]
    found = [(text, problems_in(render(text))) for text in hostile]
    return [(text, problems) for text, problems in found if problems]


def test_markdown_of_hostile_texts_is_harmless() -> None:
    assert problems_of_texts(COUNT) == []


def test_cleaner_alone_makes_hostile_texts_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_escaping(monkeypatch)

    assert problems_of_texts(COUNT // 2) == []


def test_check_finds_markup_that_nothing_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    without_cleaner(monkeypatch)
    without_escaping(monkeypatch)

    found = " ".join(one for _, problems in problems_of_texts(100) for one in problems)
    kinds = ("tag script", "attribute onerror", "attribute style", "link")
    assert [kind for kind in kinds if kind not in found] == []


def test_hostile_fields_of_an_answer_are_harmless(subtests: pytest.Subtests) -> None:
    for text in ANSWERS:
        with subtests.test(msg=text):
            assert problems_in(answer_with(*everywhere(text))) == []


def test_hostile_addresses_become_no_links_of_ours(subtests: pytest.Subtests) -> None:
    for place, html_with in PLACES.items():
        with subtests.test(msg=place):
            # All of them are looked at in a browser by test_browser_addresses.
            found = [(url, problems_in(html_with(url))) for url in ADDRESSES[::3]]

            assert [(url, problems) for url, problems in found if problems] == []


@pytest.mark.parametrize("place", ["citation", "medium", "tool result", "tool result in JSON"])
def test_check_finds_addresses_that_nothing_refused(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    without_url_check(monkeypatch)

    for url in ("javascript:hit()", "data:text/html,x", "/accounts/logout/"):
        assert any("link" in one for one in problems_in(PLACES[place](url)))


# --- hosts ------------------------------------------------------------------------------------


def test_lookalike_host_is_shown_in_ascii() -> None:
    lookalike = "https://аpple.com/"

    assert "xn--pple-43d.com" in medium(lookalike)
    assert "xn--pple-43d.com" in citation(lookalike)
    assert "https://аpple.com/ (xn--pple-43d.com)" in tool_result(lookalike)
    assert "аpple.com/ (xn--pple-43d.com)" in step(lookalike)
    assert with_host("https://apple.com/", "https://apple.com/") == "https://apple.com/"


def test_backslash_ends_the_host() -> None:
    deceiving = "https://evil.test\\@good.test/"

    assert ">evil.test<" in medium(deceiving)
    assert ">evil.test<" in citation(deceiving)
