"""An export of everyone's conversations needs a reason, and people are told of it in their settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import AccessReason, AuditEvent, Conversation, Job, User
from tests.support.reasons import REASON

SignIn = Callable[[User], Client]


def export(client: Client, what: str, **more: str) -> int:
    form = {"what": what, "form": "json", **more}
    return client.post(reverse("export_start"), form).status_code


def settings_of(client: Client) -> str:
    return str(client.get(reverse("data")).content.decode())


def test_export_of_all_needs_a_reason(
    administrator: User, private_conversation: Conversation, signed_in: SignIn
) -> None:
    ada = signed_in(administrator)

    assert export(ada, "all") == export(ada, "all", reason=" ") == 422
    assert not Job.objects.exists()
    assert not AuditEvent.objects.exists()

    assert export(ada, "all", reason=REASON) == 302

    event = AuditEvent.objects.get(verb="conversation.export")
    assert (event.actor, event.detail) == (administrator, {"count": 1, "reason": REASON})


def test_everybody_is_told_of_it_in_the_settings(
    administrator: User,
    alice: User,
    charlie: User,
    private_conversation: Conversation,
    signed_in: SignIn,
) -> None:
    late = User.objects.create_user("late@example.org", None, name="Late")
    User.objects.filter(pk=late.pk).update(date_joined=timezone.now() + timedelta(days=1))
    export(signed_in(administrator), "all", reason=REASON)

    for person in (alice, charlie):
        assert "Exported by an administrator" in settings_of(signed_in(person))
        assert REASON in settings_of(signed_in(person))
    assert "Exports by administrators" not in settings_of(signed_in(late))


def test_other_exports_need_none(
    alice: User, private_conversation: Conversation, signed_in: SignIn
) -> None:
    client = signed_in(alice)

    assert export(client, "own") == 302

    assert not AccessReason.objects.exists()
    assert 'name="reason"' not in settings_of(client)


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ({"all": True}, ("Alice", "Bob", "Dana")),
        ({"user": "alice@example.org"}, ("Alice",)),
        ({"team": "River"}, ("Alice", "Bob")),
    ],
    ids=["all", "person", "team"],
)
def test_export_of_the_command_line_is_told_to_those_concerned(
    alice: User,
    bob: User,
    dana: User,
    conversation: Conversation,
    signed_in: SignIn,
    tmp_path: Path,
    *,
    whose: dict[str, object],
    told: tuple[str, ...],
) -> None:
    call_command("export_conversations", format="json", out=tmp_path, json=True, **whose)

    readers = [
        person.name
        for person in (alice, bob, dana)
        if "Exported from the command line" in settings_of(signed_in(person))
    ]
    assert tuple(readers) == told


def test_export_of_a_team_is_not_told_to_who_joins_later_or_if_it_is_empty(
    conversation: Conversation, charlie: User, signed_in: SignIn, tmp_path: Path
) -> None:
    of_team = {"format": "json", "out": tmp_path, "json": True, "team": conversation.team.name}
    call_command("export_conversations", **of_team)
    conversation.team.memberships.create(user=charlie)
    Conversation.objects.all().delete()
    call_command("export_conversations", **of_team)

    assert "Exports by administrators" not in settings_of(signed_in(charlie))
