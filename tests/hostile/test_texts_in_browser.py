"""Ten thousand hostile texts in a real browser: nothing runs, nobody is asked, nothing is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from chat.rendering import markdown
from chat.rendering.markdown import render
from chat.rendering.patches import Answer
from tests.hostile.grammar import PIECES, texts
from tests.hostile.page import Report, Stage, staged
from tests.rendering.stories import RUN, numbered
from tests.rendering.test_hostile import everywhere

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
]

COUNT = 10_000
SEED = 20_261_122
# Each with its text in every field of every event: fewer, because each is a whole answer.
ANSWERS = 160
# So many are enough to see whether a check can fail.
SOME = 400
NOTHING = Report()

with_and_without = pytest.mark.parametrize("has_policy", [True, False], ids=["policy", "no policy"])


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as stage:
        yield stage


@pytest.fixture(scope="module")
def rendered() -> list[str]:
    return [render(text) for text in texts(COUNT, seed=SEED)]


@with_and_without
def test_no_text_becomes_more_than_text(
    stage: Stage, rendered: list[str], has_policy: bool
) -> None:
    assert stage.look(rendered, has_policy=has_policy) == NOTHING


def answer_full_of(text: str, *, is_open: bool) -> str:
    """A run that has the text in every field that is shown; ``is_open``: with its folds."""
    answer = Answer(RUN)
    for event in numbered(everywhere(text)):
        answer.apply(event)
    if is_open:
        answer.unfold()
    return answer.snapshot()


@with_and_without
def test_no_field_of_an_answer_becomes_more_than_text(stage: Stage, has_policy: bool) -> None:
    fields = [
        answer_full_of(text, is_open=at % 2 == 0)
        for at, text in enumerate([*PIECES, *texts(ANSWERS - len(PIECES), seed=SEED + 1)])
    ]

    assert stage.look(fields, has_policy=has_policy, size=50) == NOTHING


# --- that all this can fail --------------------------------------------------------------------------


class NoCleaner:
    @staticmethod
    def clean(html: str) -> str:
        return html


def without_cleaner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(markdown, "_cleaner", NoCleaner)


def without_escaping(patch: pytest.MonkeyPatch) -> None:
    """HTML is HTML, any address is one, and nobody asks whether a letter is missing."""
    patch.setitem(markdown._full.options, "html", True)
    patch.setitem(markdown._blocks.options, "html", True)
    for parser in (markdown._full, markdown._blocks):
        patch.setattr(parser, "validateLink", lambda url: True)
    patch.setattr(markdown, "_is_complete", lambda *parts: True)


def some(stage: Stage, count: int = SOME, **options: Any) -> Report:
    """Numbered, so that one sees which of them ran."""
    found = [text.replace("hit()", f"hit({at})") for at, text in enumerate(texts(count, seed=SEED))]
    return stage.plant([render(text) for text in found], **options)


def test_with_neither_escaping_nor_cleaner_every_check_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cleaner(monkeypatch)
    without_escaping(monkeypatch)

    report = some(stage)

    assert len(set(report.hits)) >= SOME // 10
    assert any(url.endswith("/reached") for url in report.requests)
    assert any("evil.test" in url for url in report.requests)
    assert report.reached
    kinds = {re.split(r"[ :]", problem, maxsplit=1)[0] for problem in report.problems}
    assert kinds >= {"tag", "attribute", "scheme", "no", "button", "input"}


def test_the_policy_alone_still_keeps_scripts_from_running(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cleaner(monkeypatch)
    without_escaping(monkeypatch)

    report = some(stage, has_policy=True)

    assert report.hits == []
    assert report.reached == []
    assert report.violations


def test_the_cleaner_alone_holds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    without_escaping(monkeypatch)
    htmls = [render(text) for text in texts(COUNT // 10, seed=SEED)]

    assert stage.look(htmls, has_policy=False) == NOTHING


def test_the_escaping_alone_lets_nothing_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    without_cleaner(monkeypatch)
    report = some(stage, count=COUNT // 10)

    assert (report.hits, report.requests, report.reached) == ([], [], [])
