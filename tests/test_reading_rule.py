"""The rule of who may read a conversation says the same in each form that it has."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from chat import access
from chat.live import access_monitor
from chat.live.access_monitor import Identity
from chat.models import Conversation, Team, User, Visibility

pytestmark = pytest.mark.databases


def test_query_readers_and_monitor_agree(
    team: Team,
    alice: User,
    bob: User,
    viewer: User,
    charlie: User,
    dana: User,
    administrator: User,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.setattr(access_monitor, "_is_signed_in", lambda *_: True)
    people = (alice, bob, viewer, charlie, dana, administrator)
    expected = {
        (Visibility.PRIVATE, False): {bob},
        (Visibility.TEAM, False): {alice, bob, viewer},
        (Visibility.PRIVATE, True): set(),
        (Visibility.TEAM, True): set(),
    }
    now = timezone.now()
    ends = {
        "present": {},
        "temporary": {"expires_at": now + timedelta(days=1)},
        "deleted": {"deleted_at": now},
        "expired": {"expires_at": now - timedelta(days=1)},
        "erased": {"deleted_at": now - timedelta(days=2), "expires_at": now - timedelta(days=1)},
    }
    for visibility, end in product((Visibility.PRIVATE, Visibility.TEAM), ends):
        is_deleted = end not in ("present", "temporary")
        room = Conversation.objects.create(
            team=team,
            owner=bob,
            title="Plan",
            visibility=visibility,
            **ends[end],
        )
        with subtests.test(visibility=visibility, end=end):
            rooms = Conversation.objects.filter(pk=room.pk)
            identities = [Identity(user_pk=one.pk, session_key="", password="") for one in people]
            verdicts = access_monitor.check(
                (identity, frozenset([room.public_id])) for identity in identities
            ).verdicts

            readers = {one for one in people if rooms.visible_to(one).exists()}
            assert readers == expected[visibility, is_deleted]
            assert {
                one
                for one, verdict in zip(people, verdicts, strict=True)
                if isinstance(verdict, list)
            } == readers
            assert {one for one in people if access.may_read(one, room)} >= readers
            if not is_deleted:
                assert {member.user for member in access.readers_of(room)} == readers
