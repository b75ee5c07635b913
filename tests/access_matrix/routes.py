"""The names of all routes of the application."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver


def all_routes() -> set[str]:
    return set(routes_in(get_resolver().url_patterns))


def routes_in(patterns: list[URLPattern | URLResolver], namespace: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from routes_in(pattern.url_patterns, inner)
        else:
            yield f"{namespace}{pattern.name or pattern.pattern}"
