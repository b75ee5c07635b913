"""Counts that all processes share in Redis; while Redis is away, each process counts for itself."""

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

# A sign-in asks the cache a few times; only the first of them waits for a Redis that is away.
AWAY_SECONDS = 5.0
# Of one question. Redis answers in well under a millisecond, or is not there.
ANSWER_SECONDS = 0.5
# Django's own bound of 300 would let a guesser push out the count of one account by trying others.
MOST_ENTRIES = 100_000


class PlainValues:
    """Values as JSON. Django's way would execute what somebody else wrote into Redis."""

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class SharedCache(RedisCache):
    """Redis, or this process's memory for as long as Redis is away. Never raises for Redis's sake:
    whoever can still be asked for a password must be able to give it."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "serializer": "project.cache.PlainValues",
            # Once: whoever waits for a page waits for every further try, too.
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
                # Also what somebody else wrote there: it counts nothing.
                self._away_until = time.monotonic() + AWAY_SECONDS
                logger.warning("cache.away error=%s", type(error).__name__)
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
        """Forgets what this process counted, and nothing else: the shared Redis is not ours alone."""
        self._own.clear()
        return True
