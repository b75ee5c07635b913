"""Addresses of servers: normalized, or refused."""

from __future__ import annotations

import pytest

from chat.core.errors import ActionRefused
from chat.servers.actions.base_url import normal_base_url, origin

NORMALIZED = {
    "http://localhost:1234": "http://localhost:1234",
    "  http://localhost:1234/  ": "http://localhost:1234",
    "https://api.example.com/v1/": "https://api.example.com/v1",
    "HTTPS://API.Example.COM:443/V1": "https://api.example.com/V1",
    "http://10.0.0.5:80": "http://10.0.0.5",
    "http://[::1]:1234/": "http://[::1]:1234",
    "http://models.internal:8080//": "http://models.internal:8080",
    "http://a.example/v1": "http://a.example/v1",
    "https://B.example:8443/x/y/": "https://b.example:8443/x/y",
    "http://[fe80::1]:1": "http://[fe80::1]:1",
}
REFUSED = [
    "",
    "localhost:1234",
    "ftp://example.com",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http://",
    "http:///v1",
    "http://:8080",
    "http://user@example.com",
    "http://user:secret@example.com/v1",
    "http://example.com\\@evil.example",
    "http://example.com/v1?key=1",
    "http://example.com/v1?",
    "http://example.com/#",
    "http://example.com:0",
    "http://example.com:",
    "http://example.com:99999",
    "http://example.com:port",
    "http://exa mple.com",
    "http://example.com/\nHost: evil",
    "http://[::1",
    "http://exa%6dple.com",
    "http://" + "a" * 600,
]


def test_addresses_are_normalized(subtests: pytest.Subtests) -> None:
    for typed, stored in NORMALIZED.items():
        with subtests.test(typed):
            assert normal_base_url(typed) == stored
            assert normal_base_url(stored) == stored


def test_invalid_addresses_are_refused_with_a_sentence(subtests: pytest.Subtests) -> None:
    for typed in REFUSED:
        with subtests.test(typed):
            with pytest.raises(ActionRefused) as refusal:
                normal_base_url(typed)

            assert str(refusal.value).endswith(".")
            assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("http://a.example/v1", "http://a.example/v2", True),
        ("http://a.example", "http://a.example:80", True),
        ("https://a.example", "https://a.example:443/v1", True),
        ("http://a.example", "https://a.example", False),
        ("http://a.example", "http://b.example", False),
        ("http://a.example", "http://a.example.evil.example", False),
        ("http://a.example:1234", "http://a.example:1235", False),
    ],
)
def test_origin_is_scheme_host_and_port(one: str, other: str, is_same: bool) -> None:
    assert (origin(one) == origin(other)) is is_same
