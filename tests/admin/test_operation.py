"""What operates an installation: servers that are drained, errors that are said in words."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Run, RunStatus, Upstream, User

LIST = "admin:chat_upstream_changelist"


@pytest.mark.parametrize(("action", "is_draining"), [("drain", True), ("resume", False)])
def test_servers_are_drained_and_resumed_in_the_admin_too(
    admin_client: Client, upstream: Upstream, action: str, is_draining: bool
) -> None:
    Upstream.objects.update(is_draining=not is_draining)

    page = admin_client.post(
        reverse(LIST), {"action": action, "_selected_action": [upstream.pk]}, follow=True
    )

    upstream.refresh_from_db()
    assert upstream.is_draining is is_draining
    assert AuditEvent.objects.get().verb == f"upstream.{action}"
    assert upstream.name in page.content.decode()


def test_the_list_says_what_a_drained_server_still_does(
    admin_client: Client, upstream: Upstream, shared_run: Run
) -> None:
    Upstream.objects.update(is_draining=True)
    Run.objects.update(status=RunStatus.RUNNING)

    page = admin_client.get(reverse(LIST)).content.decode()

    assert "Draining: 1 under way, 0 waiting" in page


def test_nobody_else_drains_a_server_there(client: Client, bob: User, upstream: Upstream) -> None:
    client.force_login(bob, backend="allauth.account.auth_backends.AuthenticationBackend")

    client.post(reverse(LIST), {"action": "drain", "_selected_action": [upstream.pk]})

    upstream.refresh_from_db()
    assert not upstream.is_draining


def test_runs_tell_their_errors_in_words_and_are_found_by_them(
    admin_client: Client, shared_run: Run, private_run: Run
) -> None:
    Run.objects.filter(pk=shared_run.pk).update(error_kind="rate_limit", status=RunStatus.FAILED)
    address = reverse("admin:chat_run_changelist")

    everything = admin_client.get(address).content.decode()
    found = admin_client.get(address, {"error": "rate_limit"})

    assert "The server is asked too often at the moment." in everything
    assert ">rate_limit<" not in everything
    assert [run.pk for run in found.context["cl"].result_list] == [shared_run.pk]
