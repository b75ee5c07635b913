"""Searching: the same hits on SQLite and PostgreSQL, and only what a person may read."""

from __future__ import annotations

import pytest

from chat.models import User
from chat.search.find import find
from chat.search.tokens import parse
from tests.support.rooms import Room

pytestmark = pytest.mark.databases


def texts(user: User, query: str) -> list[str]:
    return [
        "".join(f"[{mark.text}]" if mark.is_match else mark.text for mark in hit.snippet)
        for hit in find(user, parse(query)).hits
    ]


def test_message_and_answer_are_found(room: Room) -> None:
    room.turn("Willows in autumn")
    alice = room.conversation.owner

    assert sorted(texts(alice, "willows")) == sorted(
        ["[Willows] in autumn", "Answer to: [Willows] in autumn"]
    )
    assert texts(alice, "willows answ") == ["[Answer] to: [Willows] in autumn"]
