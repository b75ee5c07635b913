import math

import pytest

from tests.bench.load.arithmetic import median_ratio, percentile
from tests.bench.load.marks import (
    CLOSING,
    DONE,
    OPENING,
    Chunks,
    Received,
    around,
    conservation,
    mark,
    numbers_in,
)
from tests.bench.load.rows import Answer


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100), (0.0, 1)]
)
def test_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_ratio_is_taken_within_each_round() -> None:
    # The machine was twice as slow in the second round, for both.
    assert median_ratio([30.0, 60.0, 33.0], [10.0, 20.0, 11.0]) == 3.0


def test_answer_is_judged_by_bar_and_goal() -> None:
    def verdict(value: float, *, is_floor: bool = False) -> str:
        limits = {"bar": 1.0, "goal": 3.0} if is_floor else {"bar": 8.0, "goal": 5.0}
        answer = Answer(row="1", figure="", unit="", value=value, is_floor=is_floor, **limits)
        return answer.verdict

    assert [verdict(value) for value in (5, 8, 8.1)] == ["goal", "bar", "MISSED"]
    assert [verdict(value, is_floor=True) for value in (3, 1, 0.9)] == ["goal", "bar", "MISSED"]
    assert verdict(math.nan) == "not measured"


# --- marks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "markdown"])
def test_stream_holds_each_mark_once(kind: str) -> None:
    chunks = Chunks(kind, 200)

    body = OPENING + b"".join(chunks.at(number, 7) for number in range(200)) + CLOSING

    assert numbers_in(body) == list(range(200))
    assert DONE in body


def test_marks_survive_rendering() -> None:
    from chat.rendering.markdown import render
    from tests.rendering.dom import parse

    source = "".join(
        f"{before}{mark(number, 5).decode()}{behind}"
        for number in range(200)
        for before, behind in [around("markdown", number)]
    )

    assert numbers_in(parse(render(source)).text()) == list(range(200))


def test_marks_are_words() -> None:
    from chat.rendering.markdown.inline import PARAGRAPH, read_line

    text = (mark(0, 5).decode() + around("plain", 0)[1]).rstrip()
    line = read_line(text, has_references=False)

    assert PARAGRAPH.match(text)
    assert line is not None
    assert line.html == text


def test_block_that_is_sent_again_counts_its_marks_once() -> None:
    received = Received()

    received.take(mark(0, 10) + mark(1, 11), 20)
    received.take(mark(0, 10) + mark(1, 11) + mark(2, 12), 30)

    assert (received.sent, received.arrivals) == ([10, 11, 12], [20, 20, 30])
    assert (received.skipped, received.repeated) == (0, 2)


@pytest.mark.parametrize(
    ("numbers", "lost", "doubled"),
    [
        ([0, 1, 2, 3], 0, 0),
        ([0, 1, 3], 1, 0),
        ([0, 1, 1, 2, 3], 0, 1),
        ([0, 2, 1, 3], 0, 1),
        ([0, 1, 2, 3, 4], 0, 1),
        ([], 4, 0),
    ],
)
def test_conservation_of_marks(numbers: list[int], lost: int, doubled: int) -> None:
    kept = conservation(numbers, 4)

    assert (kept.lost, kept.doubled) == (lost, doubled)
    assert kept.holds == (numbers == [0, 1, 2, 3])
