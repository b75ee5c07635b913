"""What the tests about people share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from chat.actions import people
from chat.models import Invitation, Team, TeamRole, User

MakeInvitation = Callable[..., tuple[Invitation, str]]


@pytest.fixture(autouse=True)
def _own_data_dir(settings: object, tmp_path: Path) -> None:
    """The setup token is a file; each test has its own."""
    settings.DATA_DIR = tmp_path


@pytest.fixture(autouse=True)
def _no_rate_limits(settings: object) -> None:
    settings.ACCOUNT_RATE_LIMITS = False


@pytest.fixture
def make_invitation(alice: User, team: Team) -> MakeInvitation:
    """An invitation of Alice's and the path of its link."""

    def make(
        *, by: User | None = None, role: str = TeamRole.MEMBER, email: str = "", days: int = 7
    ) -> tuple[Invitation, str]:
        invitation, link = people.invite(by or alice, team, role=role, email=email, days=days)
        return invitation, urlsplit(link).path

    return make


def expire(invitation: Invitation) -> None:
    Invitation.objects.filter(pk=invitation.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
