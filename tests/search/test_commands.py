"""The commands of search: what a person would find, and the index filled and checked."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from chat.models import SearchRow, User
from chat.search.sources import clear
from tests.support.rooms import Room

pytestmark = pytest.mark.databases


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_search_prints_what_a_person_would_find(room: Room, alice: User, charlie: User) -> None:
    answer = room.turn("Willows in autumn")

    found = json.loads(run("search", "--json", "--user", alice.email, "answer", "willows"))
    assert (found["count"], found["is_count_exact"]) == (1, True)
    (hit,) = found["hits"]
    assert hit["turn"] == str(answer.public_id)
    assert (hit["kind"], hit["model"]) == ("answer", "demo/model")
    assert hit["snippet"] == "Answer to: Willows in autumn"

    assert "Answer to: Willows" in run("search", "--user", alice.email, "willows")
    assert json.loads(run("search", "--json", "--user", charlie.email, "willows"))["hits"] == []
    with pytest.raises(CommandError, match="No active user"):
        run("search", "--user", "nobody@example.org", "willows")


def test_index_is_checked_and_filled(room: Room) -> None:
    room.turn("Willows in autumn")
    # The fixture makes its conversation past the actions.
    assert json.loads(run("rebuild_search", "--json"))["indexed"]["title"] == 1
    assert "0 texts" in run("rebuild_search", "--check")
    clear()

    with pytest.raises(SystemExit):
        run("rebuild_search", "--check")
    filled = json.loads(run("rebuild_search", "--json"))

    assert filled["indexed"]["message"] == filled["indexed"]["reasoning"] == 1
    assert filled["removed"] == 0
    assert "0 texts" in run("rebuild_search", "--check")
    assert json.loads(run("rebuild_search", "--json"))["indexed"]["message"] == 0
    assert json.loads(run("rebuild_search", "--all", "--json"))["indexed"]["message"] == 1
    assert SearchRow.objects.filter(kind="message").count() == 1
