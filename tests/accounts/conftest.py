"""What the tests about people share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from chat.accounts import reset_mail
from chat.accounts.actions import invitations
from chat.core.errors import ActionRefused
from chat.models import Invitation, Membership, Team, TeamRole, User

MakeInvitation = Callable[..., tuple[Invitation, str]]
SignIn = Callable[[User], Client]

NEW_PASSWORD = "seven willow rivers"


@pytest.fixture(autouse=True)
def _own_data_dir(settings: object, tmp_path: Path) -> None:
    """The setup token is a file; each test has its own."""
    settings.DATA_DIR = tmp_path


@pytest.fixture(autouse=True)
def _no_rate_limits(settings: object) -> None:
    settings.ACCOUNT_RATE_LIMITS = False


@pytest.fixture(autouse=True)
def _mail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would not see what the test has not committed."""
    monkeypatch.setattr(reset_mail, "send_beside", reset_mail.send)


@pytest.fixture
def make_invitation(alice: User, team: Team) -> MakeInvitation:
    """An invitation by Alice and the path of its link."""

    def make(
        *, role: str = TeamRole.MEMBER, email: str = "", days: int = 7, people: int = 1
    ) -> tuple[Invitation, str]:
        invitation, link = invitations.invite(
            alice, team, role=role, email=email, days=days, people=people
        )
        return invitation, urlsplit(link).path

    return make


def expire(invitation: Invitation) -> None:
    Invitation.objects.filter(pk=invitation.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )


def set_role(user: User, team: Team, role: str) -> None:
    Membership.objects.filter(user=user, team=team).update(role=role)


def run_at_once(*calls: Callable[[], object]) -> list[str]:
    """Runs each call in a thread of its own, all at the same time. Which were "done" and which
    "refused", sorted."""
    outcomes: list[str] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait(timeout=30)
        try:
            call()
            outcomes.append("done")
        except ActionRefused:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return sorted(outcomes)
