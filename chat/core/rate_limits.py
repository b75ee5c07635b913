"""Limits per person and minute, which all processes count together."""

from __future__ import annotations

from django.core.cache import cache
from django.utils import timezone


def is_within_limit(what: str, person_pk: int, most: int, count: int = 1) -> bool:
    """Counts ``count`` more of ``what`` for this person in the current minute. Returns whether that is at
    most so many."""
    key = f"{what}:{person_pk}:{current_minute()}"
    cache.add(key, 0, timeout=120)
    return cache.incr(key, count) <= most


def current_minute() -> int:
    """Minutes since 1970."""
    return int(timezone.now().timestamp()) // 60
