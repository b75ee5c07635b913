"""Ten thousand hostile texts in a real browser: no script runs, and nothing is requested."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chat.rendering.markdown import render
from tests.hostile.breaking import without_cleaner, without_escaping
from tests.hostile.grammar import PIECES, texts
from tests.hostile.page import Inspector, Report
from tests.hostile.places import answer_with
from tests.rendering.hostile_texts import everywhere
from tests.rendering.stories import answer_of

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
    pytest.mark.slow,
]

COUNT = 10_000
SEED = 20_261_122
# Fewer, because each is a whole answer with its text in every field of every event.
ANSWERS = 160
# Enough to see that a check can fail.
SOME = 400

with_and_without_policy = pytest.mark.parametrize(
    "has_policy", [True, False], ids=["policy", "no policy"]
)


@pytest.fixture(scope="module")
def rendered() -> list[str]:
    return [render(text) for text in texts(COUNT, seed=SEED)]


def with_policy(shown: list[str]) -> list[str]:
    """A part of them: what is harmless without a policy has little left to violate."""
    return shown[::20]


@with_and_without_policy
def test_markdown_of_hostile_texts_is_harmless(
    inspector: Inspector, rendered: list[str], has_policy: bool
) -> None:
    shown = with_policy(rendered) if has_policy else rendered

    assert inspector.inspect(shown, has_policy=has_policy) == Report()


@with_and_without_policy
def test_hostile_fields_of_an_answer_are_harmless(inspector: Inspector, has_policy: bool) -> None:
    hostile = [*PIECES, *texts(ANSWERS - len(PIECES), seed=SEED + 1)]
    hostile = with_policy(hostile) if has_policy else hostile
    # Every other one with the contents of its folds.
    answers = [
        answer_with(*everywhere(text)) if at % 2 == 0 else answer_of(*everywhere(text)).snapshot()
        for at, text in enumerate(hostile)
    ]

    assert inspector.inspect(answers, has_policy=has_policy, size=50) == Report()


# --- what happens without a defence ------------------------------------------------------------


def insert_some(inspector: Inspector, count: int = SOME, **options: Any) -> Report:
    """Inserts some texts whose scripts report a number, which tells which of them ran."""
    hostile = enumerate(texts(count, seed=SEED))
    numbered = [text.replace("hit()", f"hit({number})") for number, text in hostile]
    return inspector.insert([render(text) for text in numbered], **options)


def test_without_escaping_and_cleaner_every_check_fails(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cleaner(monkeypatch)
    without_escaping(monkeypatch)

    report = insert_some(inspector)

    assert len(set(report.hits)) >= SOME // 10
    assert any(url.endswith("/reached") for url in report.requests)
    assert any("evil.test" in url for url in report.requests)
    assert report.reached
    kinds = {re.split(r"[ :]", problem, maxsplit=1)[0] for problem in report.problems}
    assert kinds >= {"tag", "attribute", "scheme", "no", "button", "input"}


def test_policy_alone_keeps_scripts_from_running(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cleaner(monkeypatch)
    without_escaping(monkeypatch)

    report = insert_some(inspector, has_policy=True)

    assert report.hits == []
    assert report.reached == []
    assert report.violations


def test_cleaner_alone_makes_hostile_texts_harmless(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_escaping(monkeypatch)
    htmls = [render(text) for text in texts(COUNT // 10, seed=SEED)]

    assert inspector.inspect(htmls, has_policy=False) == Report()


def test_escaping_alone_keeps_scripts_from_running(
    inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cleaner(monkeypatch)

    report = insert_some(inspector, count=COUNT // 10)

    assert (report.hits, report.requests, report.reached) == ([], [], [])
