"""What tests of replies share: a question that a run waits for, and cases that leave no rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction

from chat.models import Question, Run
from tests.runs.waiting import ask, ended, question_of, result_of


def waiting_for(run: Run, **members: object) -> Question:
    """The question of a run that ends with it."""
    ended(run, result_of(asks=(ask(**members),), reason="ask"))
    return question_of(run)


@contextmanager
def case(subtests: pytest.Subtests, label: object) -> Iterator[None]:
    """A subtest that leaves the rows as they were."""
    with subtests.test(msg=str(label)), transaction.atomic():
        yield
        transaction.set_rollback(True)
