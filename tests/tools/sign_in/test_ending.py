"""Accounts that end: their rows are deleted, and their tokens are revoked, whichever way they end."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from chat.accounts.actions.people import remove_member, set_active
from chat.core.errors import ActionRefused
from chat.models import Membership, Team, ToolAccount, ToolServer, User
from chat.tools import servers
from chat.tools.sign_in import actions, ending
from chat.tools.sign_in.ending import wait_for_revocations
from tests.tools.sign_in.conftest import Connect, answer_in
from tests.tools.sign_in.oauth_server import OAuthServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(team: Team) -> User:
    user = User.objects.create_user("cleo", "cleo@example.com")
    Membership.objects.create(team=team, user=user, role="member")
    return user


def _remove_in_administration(administrator: User, team: Team, other: User) -> None:
    """As the form of a team does it."""
    client = Client()
    client.force_login(administrator)
    rows = list(Membership.objects.filter(team=team).order_by("user__name", "pk"))
    fields: dict[str, object] = {
        "name": team.name,
        "memberships-TOTAL_FORMS": len(rows),
        "memberships-INITIAL_FORMS": len(rows),
    }
    for number, row in enumerate(rows):
        fields |= {
            f"memberships-{number}-id": row.pk,
            f"memberships-{number}-team": team.pk,
            f"memberships-{number}-user": row.user_id,
            f"memberships-{number}-role": row.role,
        }
        if row.user_id == other.pk:
            fields[f"memberships-{number}-DELETE"] = "on"
    response = client.post(f"/admin/chat/team/{team.pk}/change/", fields)
    assert response.status_code == 302, response.content


@pytest.mark.parametrize(
    "ends",
    [
        *("disconnected", "removed from the team", "removed in administration", "left"),
        *("deactivated", "server removed", "server moved", "key for everybody", "another id"),
    ],
)
def test_tokens_are_revoked(
    ends: str,
    alice: User,
    other: User,
    administrator: User,
    team: Team,
    server: ToolServer,
    connect: Connect,
    oauth: OAuthServer,
    django_capture_on_commit_callbacks: Any,
) -> None:
    entered = {"issuer": oauth.url, "secret": ""}
    actions.enter_client_of(administrator, server, client_id="one", **entered)
    account = connect(other, "cleo")
    change = {"name": "Harbor", "headers": None}
    mine = Membership.objects.get(team=team, user=other)
    verbs: dict[str, Callable[[], object]] = {
        "disconnected": lambda: actions.disconnect(other, account),
        "removed from the team": lambda: remove_member(administrator, mine),
        "removed in administration": lambda: _remove_in_administration(administrator, team, other),
        "left": lambda: remove_member(other, mine),
        "deactivated": lambda: set_active(administrator, other, is_active=False),
        "server removed": lambda: servers.remove_server(administrator, server),
        "server moved": lambda: servers.change_server(
            administrator, server, address="http://new.test/", signs_in_people=True, **change
        ),
        "key for everybody": lambda: servers.change_server(
            administrator, server, address=server.address, **change
        ),
        "another id": lambda: actions.enter_client_of(
            administrator, server, client_id="two", **entered
        ),
    }

    with django_capture_on_commit_callbacks(execute=True):
        verbs[ends]()
    wait_for_revocations()

    assert not ToolAccount.objects.exists()
    assert oauth.families[0].is_revoked
    held = account.open_tokens()
    sent = {request.form["token"] for request in oauth.sent("/revoke")}
    assert sent == {held["refresh"], held["access"]}


def test_connecting_again_revokes_the_tokens_before(
    alice: User,
    connect: Connect,
    oauth: OAuthServer,
    django_capture_on_commit_callbacks: Any,
) -> None:
    connect(alice)
    with django_capture_on_commit_callbacks(execute=True):
        connect(alice)
    wait_for_revocations()

    assert [family.is_revoked for family in oauth.families] == [True, False]
    account = ToolAccount.objects.get()
    assert account.open_tokens()["access"] in oauth.families[1].access


def test_person_who_left_gets_no_tokens(
    other: User, team: Team, server: ToolServer, oauth: OAuthServer
) -> None:
    answer = answer_in(oauth.allow(actions.begin_sign_in(other, server).address))
    started = actions.take_sign_in(other, answer["state"])
    Membership.objects.filter(user=other).delete()

    with pytest.raises(ActionRefused):
        actions.finish(other, started, answer)

    assert oauth.sent("/token") == []


def test_person_who_leaves_in_the_middle_keeps_no_tokens(
    other: User,
    team: Team,
    server: ToolServer,
    oauth: OAuthServer,
    django_capture_on_commit_callbacks: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = answer_in(oauth.allow(actions.begin_sign_in(other, server).address))
    started = actions.take_sign_in(other, answer["state"])
    exchange = actions._exchanged

    def leaves(*arguments: Any) -> Any:
        fresh = exchange(*arguments)
        Membership.objects.filter(user=other).delete()
        return fresh

    monkeypatch.setattr(actions, "_exchanged", leaves)
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(ActionRefused):
        actions.finish(other, started, answer)
    wait_for_revocations()

    assert not ToolAccount.objects.exists()
    assert oauth.families[0].is_revoked


def test_revocations_that_wait_are_bounded(
    alice: User,
    connect: Connect,
    oauth: OAuthServer,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    account = connect(alice)
    full: queue.Queue[Callable[[], None]] = queue.Queue(1)
    full.put(lambda: None)
    monkeypatch.setattr(ending, "_queued", full)

    with django_capture_on_commit_callbacks(execute=True):
        actions.disconnect(alice, account)

    assert full.qsize() == 1
    assert oauth.sent("/revoke") == []
    assert not ToolAccount.objects.exists()


def test_tokens_go_to_no_issuer_that_did_not_give_them(
    alice: User, connect: Connect, oauth: OAuthServer, django_capture_on_commit_callbacks: Any
) -> None:
    account = connect(alice)
    ToolAccount.objects.update(issuer="https://other.test")

    with django_capture_on_commit_callbacks(execute=True):
        actions.disconnect(alice, account)
    wait_for_revocations()

    assert oauth.sent("/revoke") == []


# --- whose account reads the list -------------------------------------------------------------------


def test_change_of_a_name_keeps_whose_account_reads_the_list(
    administrator: User, alice: User, server: ToolServer, oauth: OAuthServer
) -> None:
    ToolServer.objects.update(listed_by=alice)
    change = {"headers": None, "signs_in_people": True}

    servers.change_server(administrator, server, name="Port", address=server.address, **change)
    assert ToolServer.objects.get().listed_by == alice

    servers.queue_test(server, administrator)
    assert ToolServer.objects.get().listed_by == administrator

    servers.change_server(alice, server, name="Port", address="http://new.test/", **change)
    # Nobody has an account at the new address yet.
    assert ToolServer.objects.get().listed_by == alice
