"""The rows that cases start from, in a transaction that leaves none of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection, transaction
from django.test import Client

from chat.models import (
    Conversation,
    Membership,
    Message,
    Role,
    Run,
    RunStatus,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from tests.access_matrix.case import ACTORS, ADMIN, Thread, World
from tests.conftest import PASSWORD
from tests.support.reasons import give_reason


@contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction, or a savepoint within one, that leaves no rows."""
    with transaction.atomic():
        yield
        connection.check_constraints()
        transaction.set_rollback(True)


def make_world() -> World:
    actors = {name: make_user(name) for name in ACTORS if name not in ("anonymous", ADMIN)}
    actors[ADMIN] = make_user(ADMIN, is_staff=True, is_superuser=True)
    alice = actors["alice"]
    team, other_team = (Team.objects.create(name=name) for name in ("River", "Mountain"))
    for name, of, role in (
        ("alice", team, TeamRole.OWNER),
        ("bob", team, TeamRole.MEMBER),
        ("viewer", team, TeamRole.VIEWER),
        ("guest", team, TeamRole.GUEST),
        ("dana", other_team, TeamRole.OWNER),
    ):
        Membership.objects.create(team=of, user=actors[name], role=role)
    upstream = Upstream.objects.create(
        name="Demo",
        dialect="lmstudio",
        base_url="http://127.0.0.1:9",
        model_list=[{"id": "demo/model", "label": "Demo model", "detail": {}, "is_typed": False}],
    )
    private = make_thread(alice, team, upstream, Visibility.PRIVATE)
    # The reason opens the pages of the administration, and nothing else.
    give_reason(actors[ADMIN], private.conversation)
    return World(
        team=team,
        upstream=upstream,
        alice=alice,
        bob=actors["bob"],
        viewer=actors["viewer"],
        guest=actors["guest"],
        shared=make_thread(alice, team, upstream, Visibility.TEAM),
        private=private,
        sessions={name: sign_in(user) for name, user in actors.items()},
    )


def make_user(name: str, **fields: bool) -> User:
    return User.objects.create_user(f"{name}@example.org", PASSWORD, name=name.title(), **fields)


def make_thread(alice: User, team: Team, upstream: Upstream, visibility: str) -> Thread:
    conversation = Conversation.objects.create(team=team, owner=alice, visibility=visibility)
    question = Message.objects.create(
        conversation=conversation, role=Role.USER, author=alice, text="Where is the spring?"
    )
    answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT, parent=question)
    run = Run.objects.create(
        conversation=conversation,
        message=answer,
        upstream=upstream,
        model="demo/model",
        requested_by=alice,
        idempotency_key=uuid.uuid4(),
        status=RunStatus.STOPPED,
    )
    return Thread(conversation=conversation, question=question, answer=answer, run=run)


def sign_in(user: User) -> str:
    """The key of the user's session."""
    client = Client()
    client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return client.cookies[settings.SESSION_COOKIE_NAME].value
