"""A cache in Redis for counters that all processes share, with a local fallback during outages."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partialmethod
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)

# A sign-in uses the cache several times; only the first use waits for an unavailable Redis.
AWAY_SECONDS = 5.0
# Timeout of one call. Redis usually answers in well under a millisecond.
ANSWER_SECONDS = 0.5
# With Django's default of 300, an attacker could evict the counter of one account by trying others.
MOST_ENTRIES = 100_000


class PlainValues:
    """Serializes values as JSON. Django's pickle would execute what somebody else wrote to
    Redis."""

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class SharedCache(RedisCache):
    """Redis, or this process's memory while Redis is unavailable. Redis errors are never raised, so
    that people can sign in during an outage."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "serializer": "project.cache.PlainValues",
            # No retries: a page would have to wait for each of them.
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_SECONDS,
            "socket_connect_timeout": ANSWER_SECONDS,
            **params.get("OPTIONS", {}),
        }
        super().__init__(server, {**params, "OPTIONS": options})
        own = {**params, "OPTIONS": {"MAX_ENTRIES": MOST_ENTRIES}}
        self._own = LocMemCache(f"beside {server}", own)
        self._away_until = 0.0

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        shared: Callable[..., Any] = getattr(super(), name)
        if time.monotonic() >= self._away_until:
            try:
                return shared(*args, **kwargs)
            except (RedisError, OSError, ValueError) as error:
                # A ValueError means a foreign value, which is not a counter.
                self._away_until = time.monotonic() + AWAY_SECONDS
                logger.warning("cache.unavailable error=%s", type(error).__name__)
        return getattr(self._own, name)(*args, **kwargs)

    add = partialmethod(_ask, "add")
    get = partialmethod(_ask, "get")
    set = partialmethod(_ask, "set")
    touch = partialmethod(_ask, "touch")
    delete = partialmethod(_ask, "delete")
    get_many = partialmethod(_ask, "get_many")
    has_key = partialmethod(_ask, "has_key")
    incr = partialmethod(_ask, "incr")
    set_many = partialmethod(_ask, "set_many")
    delete_many = partialmethod(_ask, "delete_many")

    def clear(self) -> bool:
        """Clears only the local counters, because other applications may share the Redis."""
        self._own.clear()
        return True
