"""A run that may ask, and the call that it waits for."""

from __future__ import annotations

import pytest

from chat.models import Conversation, Question, Run, Upstream, User
from tests.runs.waiting import asking, call, ended, question_of, result_of


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream) -> Run:
    return asking(alice, conversation, upstream)


@pytest.fixture
def question(run: Run) -> Question:
    """The call with which the run has ended."""
    ended(run, result_of(call("c1")))
    return question_of(run)
