"""The real provider `oidc-provider`, which `make oidc-provider` installs, as a process on the loopback."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from django.conf import settings

from tests.support.browser.site import free_port

HERE = Path(__file__).parent
ENVIRONMENT = Path(
    os.environ.get("OIDC_PROVIDER_VENV", settings.BASE_DIR / ".venv-oidc-provider")
).absolute()
NODE = str(ENVIRONMENT / "bin" / "node")
CLIENT = "tributary"
SECRET = "a secret: with / and %, and long enough"


@dataclass(kw_only=True)
class RealProvider:
    issuer: str
    people: dict[str, dict[str, Any]] = field(default_factory=dict)

    def describe(self, name: str, /, **claims: Any) -> None:
        """Says what is true of a person from now on."""
        self.people.setdefault(name, {}).update(claims)
        self.control(people=self.people)

    def control(self, **changes: Any) -> None:
        httpx.post(f"{self.issuer}/control", json=changes).raise_for_status()


@contextmanager
def real_provider(site_url: str, slug: str = "keycloak") -> Iterator[RealProvider]:
    """Starts the provider for an installation at this address."""
    if not (ENVIRONMENT / ".installed").exists():
        pytest.skip(
            f"OPENID CONNECT PROVIDER NOT INSTALLED: nothing in {ENVIRONMENT.name}; "
            "`make oidc-provider` installs it (docs/identity.md)"
        )
    port = free_port()
    base = f"{site_url}/accounts/provider/{slug}"
    process = subprocess.Popen(
        [
            *(NODE, str(HERE / "server.mjs"), str(ENVIRONMENT), str(port), CLIENT, SECRET),
            *(f"{base}/callback/", f"{base}/backchannel-logout/"),
        ],
        env={},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("listening" in line for line in process.stdout)
        yield RealProvider(issuer=f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.communicate()


class Visitor:
    """A browser without scripts at the provider, with its cookies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._client = httpx.Client(follow_redirects=False)

    def sign_in(self, address: str) -> str:
        """Follows the provider's pages until they lead away; the address that they lead to."""
        origin = httpx.URL(address).netloc
        response = self._client.get(address)
        for _ in range(10):
            if place := response.headers.get("Location"):
                address = urljoin(str(response.url), place)
                if httpx.URL(address).netloc != origin:
                    return address
                response = self._client.get(address)
                continue
            form = re.search(r'<form[^>]*action="([^"]+)"', response.text)
            assert form is not None, response.text[:500]
            fields = {"prompt": "login", "login": self.name, "password": "any"}
            action = urljoin(str(response.url), unescape(form[1]))
            response = self._client.post(action, data=fields)
        raise AssertionError("the provider leads nowhere")

    def sign_out(self, issuer: str) -> None:
        """Ends the session at the provider, which tells its clients."""
        page = self._client.get(f"{issuer}/session/end")
        token = re.search(r'name="xsrf" value="([^"]+)"', page.text)
        form = re.search(r'<form[^>]*action="([^"]+)"', page.text)
        assert token is not None
        assert form is not None
        self._client.post(form[1], data={"xsrf": token[1], "logout": "yes"})

    def close(self) -> None:
        self._client.close()
