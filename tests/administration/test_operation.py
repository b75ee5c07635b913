"""Servers are drained in the administration, and runs explain their errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.models import AuditEvent, Run, RunStatus, Upstream, User
from tests.administration.pages import list_url, text_of


@pytest.mark.parametrize(("action", "is_draining"), [("drain", True), ("resume", False)])
def test_servers_are_drained_and_resumed(
    admin_client: Client, upstream: Upstream, action: str, is_draining: bool
) -> None:
    Upstream.objects.update(is_draining=not is_draining)
    data = {"action": action, "_selected_action": [upstream.pk]}

    page = admin_client.post(list_url("upstream"), data, follow=True)

    upstream.refresh_from_db()
    assert upstream.is_draining is is_draining
    assert AuditEvent.objects.get().verb == f"upstream.{action}"
    assert upstream.name in page.content.decode()


def test_list_counts_the_runs_of_a_draining_server(
    admin_client: Client, upstream: Upstream, shared_run: Run
) -> None:
    Upstream.objects.update(is_draining=True)
    Run.objects.update(status=RunStatus.RUNNING)

    page = text_of(admin_client, list_url("upstream"))

    assert 'badge-wait"' in page
    assert "Paused" in page
    assert "1 running, 0 queued" in page


def test_member_cannot_drain_a_server(
    signed_in: Callable[[User], Client], bob: User, upstream: Upstream
) -> None:
    data = {"action": "drain", "_selected_action": [upstream.pk]}

    signed_in(bob).post(list_url("upstream"), data)

    upstream.refresh_from_db()
    assert not upstream.is_draining


def test_runs_are_listed_and_filtered_by_their_error(
    admin_client: Client, shared_run: Run, private_run: Run
) -> None:
    Run.objects.filter(pk=shared_run.pk).update(error_kind="rate_limit", status=RunStatus.FAILED)

    everything = text_of(admin_client, list_url("run"))
    found = admin_client.get(list_url("run"), {"error": "rate_limit"})

    assert "The server is receiving too many requests" in everything
    assert ">rate_limit<" not in everything
    assert [run.pk for run in found.context["cl"].result_list] == [shared_run.pk]
