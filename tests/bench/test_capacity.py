"""The capacity model and its page."""

import math

import pytest

from tests.bench import capacity
from tests.bench.capacity import POINTS, WALLS, Habits, load_of, need_of, people_at, predicted


def test_page_has_the_tables_of_the_model() -> None:
    page = capacity.DOCUMENT.read_text()

    assert capacity.written(page) == page, 'run: make bench BENCH="capacity --write"'
    assert all(table in page for table in capacity.tables().values())


def test_prediction_is_near_what_was_measured(subtests: pytest.Subtests) -> None:
    for point in POINTS:
        with subtests.test(msg=point.title):
            streaming, whole = predicted(point)
            assert streaming == pytest.approx(point.streaming_ms, rel=0.2)
            if point.whole_ms is not None:
                assert whole == pytest.approx(point.whole_ms, rel=0.2)


def test_wall_is_where_its_share_becomes_one(subtests: pytest.Subtests) -> None:
    habits = Habits()
    for name, share in WALLS.items():
        with subtests.test(msg=name):
            people = people_at(share, habits)
            # Processes are whole ones, so a share makes small steps.
            assert share(need_of(load_of(people * 0.95, habits))) < 1
            assert share(need_of(load_of(people * 1.05, habits))) > 1


def test_too_many_people_for_a_web_process_are_told() -> None:
    assert math.isinf(need_of(load_of(1e8, Habits())).web)
    assert "impossible" in capacity.markdown(capacity.people_table([10**8], Habits()))


def test_rarer_messages_let_more_people_in() -> None:
    (share, *_) = WALLS.values()

    assert people_at(share, Habits(minutes_between_messages=4)) > people_at(share, Habits())
