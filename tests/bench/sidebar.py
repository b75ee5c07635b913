"""How long home and the list of conversations take for a person who may read 10,000 conversations,
beside one who may read 50, on both databases.

``make bench BENCH=sidebar``. Both have a team of their own, where half of the conversations are
their own and half are shared by a colleague. The requests of both take turns, so that they meet the
same pace of the machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.models import Conversation, Membership, Pin, Team, Upstream, User, Visibility
from tests.support.servers import PostgreSQL

COUNTS = {"few": 50, "many": 10_000}
PAGES = {"home": "home", "list": "conversation_list"}
REQUESTS = 60
PINS = 5
# Every one of so many is archived.
ARCHIVED = 20
BAR = 1.3


def report() -> str:
    lines = [f"Sidebar: {COUNTS['many']:,} conversations beside {COUNTS['few']}; bar {BAR} ×"]
    with tempfile.TemporaryDirectory(prefix="tributary-bench-") as folder:
        lines += _told("SQLite", _measured({"DATA_DIR": folder}))
    server = PostgreSQL()
    try:
        server.start()
        server.create("bench")
        lines += _told("PostgreSQL", _measured({"DATABASE_URL": server.url("bench")}))
    finally:
        server.stop()
    return "\n".join(lines)


def _measured(environment: dict[str, str]) -> dict[str, Any]:
    """Each database has a process of its own, as it decides the settings."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.sidebar"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _told(name: str, found: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"{name:<12}{'few: ms':>10}{'queries':>9}{'many: ms':>11}{'queries':>9}{'ratio':>8}",
    ]
    for page, by_person in found.items():
        (few, few_queries), (many, many_queries) = by_person["few"], by_person["many"]
        is_held = many / few <= BAR and few_queries == many_queries
        figures = f"{few:>10.2f}{few_queries:>9}{many:>11.2f}{many_queries:>9}{many / few:>8.2f}"
        lines.append(f"  {page:<10}{figures}   {'held' if is_held else 'missed'}")
    return lines


# --- in the process of one database -------------------------------------------------------------


def _measure() -> dict[str, dict[str, tuple[float, int]]]:
    settings.ALLOWED_HOSTS = ["*"]
    call_command("migrate", verbosity=0)
    upstream = Upstream.objects.create(
        name="Bench",
        dialect="openai_chat",
        base_url="http://127.0.0.1:9/v1",
        model_list=[{"id": "bench"}],
    )
    clients = {name: _client_of(name, count, upstream) for name, count in COUNTS.items()}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {page: _timed(clients, reverse(route)) for page, route in PAGES.items()}


def _client_of(name: str, count: int, upstream: Upstream) -> Client:
    team = Team.objects.create(name=name)
    user, colleague = (
        User.objects.create(email=f"{one}@{name}.example.org", name=one) for one in ("Ana", "Ben")
    )
    for each in (user, colleague):
        Membership.objects.create(team=team, user=each)
    now = timezone.now()
    Conversation.objects.bulk_create(
        (
            Conversation(
                team=team,
                owner=colleague if number % 2 else user,
                visibility=Visibility.TEAM if number % 2 else Visibility.PRIVATE,
                title=f"Conversation {number}",
                upstream=upstream,
                model="bench",
                updated_at=now - timedelta(hours=number),
                archived_at=None if number % ARCHIVED else now,
            )
            for number in range(count)
        ),
        batch_size=1_000,
    )
    pinned = team.conversations.filter(archived_at__isnull=True).order_by("updated_at")[:PINS]
    Pin.objects.bulk_create(
        Pin(user=user, conversation=each, position=position) for position, each in enumerate(pinned)
    )
    client = Client()
    client.force_login(user)
    return client


def _timed(clients: dict[str, Client], url: str) -> dict[str, tuple[float, int]]:
    """For each person the median of milliseconds, and the number of queries."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(REQUESTS):
        for name, client in clients.items():
            started = time.perf_counter()
            assert client.get(url).status_code == 200
            times[name].append(1000 * (time.perf_counter() - started))
    return {
        name: (statistics.median(times[name]), _queries_of(client, url))
        for name, client in clients.items()
    }


def _queries_of(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        client.get(url)
    return len(queries)


if __name__ == "__main__":
    print(json.dumps(_measure()))
