"""The list of addresses, so that none is lost or renamed by accident."""

from collections.abc import Iterator
from pathlib import Path

from django.urls import URLPattern, URLResolver, get_resolver

STORED = Path(__file__).parent / "fixtures" / "routes.txt"


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield f"{route} {pattern.name or ''}".rstrip()


def test_addresses_are_those_of_the_stored_list() -> None:
    assert sorted(routes(get_resolver().url_patterns)) == STORED.read_text().splitlines()
