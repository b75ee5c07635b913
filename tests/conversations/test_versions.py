"""Which version of a turn people see: the one that was continued last, unless they chose or keep another."""

from __future__ import annotations

import random

import pytest
from django.test import Client

from chat.models import BranchChoice, Message, User
from chat.models.tree import newest_below, visible_path
from tests.support.rooms import HTMX, Room, end_run, url_of

pytestmark = pytest.mark.django_db


def test_newcomers_see_the_branch_that_was_continued_last(as_viewer: Client, room: Room) -> None:
    first = room.turn("First")
    room.turn("Second")
    room.turn("On the first", first)

    page = room.source(as_viewer)

    assert f'id="m{first.public_id.hex}"' in page
    assert "On the first" in page


def test_path_leads_to_the_newest_message() -> None:
    pick = random.Random(7)
    for _ in range(50):
        rows = [Message(pk=1)]
        for key in range(2, 30):
            rows.append(Message(pk=key, parent_id=pick.choice([None, *(row.pk for row in rows)])))

        path = visible_path(pick.sample(rows, len(rows)), {})

        assert path[-1].message.pk == max(row.pk for row in rows)
        assert newest_below(rows)[path[0].message.pk].pk == path[-1].message.pk


def test_readers_keep_their_version_when_another_is_continued(
    as_bob: Client, as_alice: Client, room: Room, bob: User, alice: User
) -> None:
    first = room.turn("First")
    second = room.turn("Second")
    headers = room.position(second)
    run = room.ask("On the first", first)
    end_run(run)

    bobs = room.changes(as_bob, headers)
    alices = room.changes(as_alice, headers)

    # Bob stays, and one line says so. Alice has continued it herself, in another tab.
    assert (bobs.turns, bobs.removed) == ([], [])
    kept = BranchChoice.objects.get()
    assert (kept.user, kept.chosen, kept.is_kept) == (bob, second.parent, True)
    line = bobs.text(f"#a{second.parent.public_id.hex}")
    assert f"{alice.name} continued another version" in line
    assert len(alices.turns) == 4
    as_bob.post(url_of("message_show", first.parent), headers=HTMX)
    assert "continued another version" not in room.source(as_bob)


def test_continuing_the_kept_version_takes_the_line_away(as_bob: Client, room: Room) -> None:
    first = room.turn("First")
    second = room.turn("Second")
    headers = room.position(second)
    end_run(room.ask("On the first", first))
    assert "continued another version" in room.changes(as_bob, headers).response.content.decode()

    room.send(as_bob, room.form("On the second", parent=second))

    page = room.source(as_bob)
    assert "On the second" in page
    assert "continued another version" not in page
