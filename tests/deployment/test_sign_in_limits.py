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

import psycopg
import pytest
import redis

from project.cache import SharedCache

ROOT = Path(__file__).resolve().parents[2]
REDIS = "redis://127.0.0.1:6379/9"
POSTGRES = "postgres://postgres@127.0.0.1:5432"

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


def has_redis() -> bool:
    try:
        return bool(redis.Redis.from_url(REDIS, socket_connect_timeout=1).ping())
    except redis.RedisError:
        return False


needs_redis = pytest.mark.skipif(not has_redis(), reason="no Redis on 127.0.0.1:6379")


@pytest.fixture
def account() -> str:
    return f"{uuid.uuid4()}@example.org"


@pytest.fixture
def postgres() -> Iterator[str]:
    """A database of our own, with our tables."""
    try:
        server = psycopg.connect(f"{POSTGRES}/postgres", autocommit=True, connect_timeout=2)
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL on 127.0.0.1:5432")
    name = f"limits_{uuid.uuid4().hex[:12]}"
    with server:
        server.execute(f'CREATE DATABASE "{name}"')
        yield f"{POSTGRES}/{name}"
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@needs_redis
def test_two_processes_count_together_in_redis(tmp_path: Path, account: str) -> None:
    first = guess(30, account, tmp_path / "a", REDIS_URL=REDIS)
    second = guess(30, account, tmp_path / "b", REDIS_URL=REDIS)

    assert first["backend"] == "project.cache.SharedCache"
    assert 0 < int(str(first["allowed"])) < 30
    assert second["allowed"] == 0


def test_without_redis_they_count_together_in_the_database(
    tmp_path: Path, account: str, postgres: str
) -> None:
    table = (
        "CREATE TABLE chat_cache (cache_key varchar(255) PRIMARY KEY, value text NOT NULL,"
        " expires timestamptz NOT NULL)"
    )
    with psycopg.connect(postgres) as database:
        database.execute(table)

    first = guess(30, account, tmp_path / "a", DATABASE_URL=postgres)
    second = guess(30, account, tmp_path / "b", DATABASE_URL=postgres)

    assert 0 < int(str(first["allowed"])) < 30
    assert second["allowed"] == 0


def test_each_process_counts_for_itself_while_redis_is_away(tmp_path: Path, account: str) -> None:
    found = guess(30, account, tmp_path, REDIS_URL="redis://127.0.0.1:1/0")

    assert 0 < int(str(found["allowed"])) < 30


def cache_at(address: str) -> SharedCache:
    return SharedCache(address, {"KEY_PREFIX": f"test-{uuid.uuid4().hex}"})


def test_only_the_first_question_waits_for_a_redis_that_hangs() -> None:
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


@needs_redis
@pytest.mark.parametrize("written", [b"cbuiltins\nexit\n(tR.", b"\x80\x04K\x01."])
def test_what_somebody_else_wrote_into_redis_is_neither_executed_nor_believed(
    written: bytes,
) -> None:
    cache = cache_at(REDIS)
    name = cache.make_key("guesses")
    with redis.Redis.from_url(REDIS) as server:
        server.set(name, written, ex=60)

    assert cache.get("guesses", []) == []


@needs_redis
def test_forgetting_leaves_what_others_keep_in_the_same_redis() -> None:
    cache = cache_at(REDIS)
    theirs = f"somebody-else-{uuid.uuid4().hex}"
    with redis.Redis.from_url(REDIS) as server:
        server.set(theirs, "1", ex=60)

        cache.clear()

        assert server.get(theirs) == b"1"
