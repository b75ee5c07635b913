"""A conversation, and clients that are signed in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.models import Conversation, Upstream, User
from tests.views.room import Room


@pytest.fixture
def room(conversation: Conversation, upstream: Upstream) -> Room:
    return Room(conversation=conversation, upstream=upstream)


@pytest.fixture
def as_alice(alice: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(alice)


@pytest.fixture
def as_bob(bob: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(bob)


@pytest.fixture
def as_viewer(viewer: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(viewer)
