"""The limits on guessing passwords count for all processes together."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from project.cache import SharedCache
from tests.support.databases import MIGRATED
from tests.support.processes.site import ROOT
from tests.support.servers import PostgreSQL, Redis

# Guesses by one person against one account, in a process of its own; prints how many were tried
# by the account, and not turned away before.
GUESS = """
import json, sys
import django
django.setup()
from django.conf import settings
from allauth.core.internal.ratelimit import consume
from django.test import RequestFactory

request = RequestFactory().post("/accounts/login/")
allowed = 0
for _ in range(int(sys.argv[1])):
    allowed += bool(consume(request, app="allauth.account", action="login_failed", key=sys.argv[2]))
print(json.dumps({"allowed": allowed, "backend": settings.CACHES["default"]["BACKEND"]}))
"""


def guess(times: int, account: str, data_dir: Path, **settings: str) -> dict[str, object]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", GUESS, str(times), account],
        cwd=ROOT,
        env={
            **kept,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATA_DIR": str(data_dir),
            "LOG_LEVEL": "ERROR",
            **settings,
        },
        check=True,
        stdout=subprocess.PIPE,
    )
    return dict(json.loads(done.stdout))


@pytest.fixture
def account() -> str:
    return f"{uuid.uuid4()}@example.org"


@pytest.fixture
def postgres(postgres_server: PostgreSQL) -> Iterator[str]:
    """A database of our own, with our tables."""
    name = f"limits_{uuid.uuid4().hex[:12]}"
    postgres_server.create(name, of=MIGRATED)
    yield postgres_server.url(name)
    postgres_server.drop(name)


def test_processes_count_together_in_redis(
    tmp_path: Path, account: str, redis_server: Redis
) -> None:
    first = guess(30, account, tmp_path / "a", REDIS_URL=redis_server.url)
    second = guess(30, account, tmp_path / "b", REDIS_URL=redis_server.url)

    assert first["backend"] == "project.cache.SharedCache"
    assert 0 < int(str(first["allowed"])) < 30
    assert second["allowed"] == 0


@pytest.mark.slow
def test_processes_count_together_in_the_database(
    tmp_path: Path, account: str, postgres: str
) -> None:
    first = guess(30, account, tmp_path / "a", DATABASE_URL=postgres)
    second = guess(30, account, tmp_path / "b", DATABASE_URL=postgres)

    assert 0 < int(str(first["allowed"])) < 30
    assert second["allowed"] == 0


# A Redis that hangs is tried below, in this process.
@pytest.mark.slow
def test_process_counts_alone_while_redis_is_away(tmp_path: Path, account: str) -> None:
    found = guess(30, account, tmp_path, REDIS_URL="redis://127.0.0.1:1/0")

    assert 0 < int(str(found["allowed"])) < 30


def cache_at(address: str) -> SharedCache:
    return SharedCache(address, {"KEY_PREFIX": f"test-{uuid.uuid4().hex}"})


def test_only_the_first_question_waits_for_a_hanging_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("project.cache.ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("project.cache.AWAY_SECONDS", 3600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cache = cache_at(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")

        for number in range(50):
            cache.set("guesses", [number], 60)

        silent.setblocking(False)
        connections = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                connections += 1
    assert cache.get("guesses") == [49]
    assert connections == 1


@pytest.mark.parametrize("written", [b"cbuiltins\nexit\n(tR.", b"\x80\x04K\x01."])
def test_foreign_value_in_redis_is_ignored(written: bytes, redis_server: Redis) -> None:
    cache = cache_at(redis_server.url)
    name = cache.make_key("guesses")
    with redis.Redis.from_url(redis_server.url) as server:
        server.set(name, written, ex=60)

    assert cache.get("guesses", []) == []


def test_clearing_keeps_foreign_values_in_redis(redis_server: Redis) -> None:
    cache = cache_at(redis_server.url)
    theirs = f"somebody-else-{uuid.uuid4().hex}"
    with redis.Redis.from_url(redis_server.url) as server:
        server.set(theirs, "1", ex=60)

        cache.clear()

        assert server.get(theirs) == b"1"
