"""The start page of the administration: figures of today, and what needs attention."""

from __future__ import annotations

import html
import re
from datetime import timedelta

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import Run, Runner, RunStatus, Upstream
from tests.administration.pages import text_of

ALL_WELL = "All systems are working."


def overview(client: Client) -> str:
    return text_of(client, reverse("admin:index"))


def figures(page: str) -> dict[str, str]:
    pattern = r'class="stat-label">([^<]*)</span><strong[^>]*>([^<]*)</strong>'
    return dict(re.findall(pattern, page))


def test_nothing_needs_attention_while_all_works(admin_client: Client, upstream: Upstream) -> None:
    Runner.objects.create(host="river", pid=7)

    assert ALL_WELL in overview(admin_client)


def test_figures_count_the_runs_of_today(
    admin_client: Client, private_run: Run, shared_run: Run
) -> None:
    Run.objects.filter(pk=private_run.pk).update(status=RunStatus.FAILED)
    Run.objects.filter(pk=shared_run.pk).update(status=RunStatus.QUEUED)

    page = overview(admin_client)

    shown = figures(page)
    assert shown == {
        "Queued now": "1",
        "Running now": "0",
        "Failed today": "1",
        "Active users today": "2",
    }
    failed = html.unescape(re.search(r'href="([^"]*status__in[^"]*)"', page)[1])  # type: ignore[index]
    found = admin_client.get(failed).context["cl"].result_list
    assert [run.pk for run in found] == [private_run.pk]


def test_missing_runner_and_long_queue_are_reported(admin_client: Client, shared_run: Run) -> None:
    an_hour_ago = timezone.now() - timedelta(hours=1)
    Run.objects.update(status=RunStatus.QUEUED, queued_at=an_hour_ago)

    page = overview(admin_client)

    assert "No runner is online, so messages stay queued." in page
    assert "1 answer has been queued for more than 5 minutes." in page
    assert ALL_WELL not in page


def test_failing_and_disabled_servers_are_reported(
    admin_client: Client, upstream: Upstream, shared_run: Run
) -> None:
    Upstream.objects.update(probe=[{"name": "address", "state": "failed", "text": "refused"}])
    Upstream.objects.create(name="Old", dialect="lmstudio", base_url="http://a", is_enabled=False)

    page = overview(admin_client)

    assert f"The last test of the server “{upstream.name}” failed." in page
    assert "The server “Old” is disabled." in page


def test_installation_without_a_server_is_reported(admin_client: Client) -> None:
    assert "No servers are enabled, so nobody can get answers." in overview(admin_client)
