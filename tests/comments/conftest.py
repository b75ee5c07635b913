"""A conversation of the team with an answer to comment on."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from chat.comments import actions
from chat.comments.actions import WHOLE_TURN, Passage
from chat.models import Comment, Message, User
from tests.support.rooms import Room

Begin = Callable[..., Comment]


@pytest.fixture
def answer(room: Room) -> Message:
    return room.turn("Where does it begin?")


@pytest.fixture
def begin(answer: Message) -> Begin:
    """Begins a thread on the answer."""

    def make(by: User, text: str, *, passage: Passage = WHOLE_TURN) -> Comment:
        return actions.begin_thread(by, answer, text=text, key=uuid.uuid4(), passage=passage)

    return make


def reply(by: User, comment: Comment, text: str) -> Comment:
    return actions.reply(by, comment, text=text, key=uuid.uuid4())
