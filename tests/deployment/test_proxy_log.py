"""The error logs of the proxies, with the configurations as they are delivered."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.cluster.caddy import Caddy
from tests.support.cluster.nginx import Nginx
from tests.support.cluster.proxies import NAME, Proxy
from tests.support.machine import require
from tests.support.processes.site import SOON_SECONDS, soon

pytestmark = pytest.mark.process


@pytest.fixture(
    params=[
        pytest.param(Nginx, id="nginx"),
        # It tries the web processes again for some seconds.
        pytest.param(Caddy, id="caddy", marks=pytest.mark.slow),
    ]
)
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """A proxy in front of two web processes that are down: nobody listens at these ports."""
    kind: type[Proxy] = request.param
    require(kind.name)
    folder = Path("/tmp") / f"tributary-{kind.name}-{uuid.uuid4().hex}"
    folder.mkdir()
    proxy = kind(folder, webs=(1, 2))
    proxy.start()
    yield proxy
    proxy.close()
    shutil.rmtree(folder)


def test_proxy_errors_are_logged_without_secrets(proxy: Proxy) -> None:
    paths = ("/invite/canary1/", "/accounts/login/?next=%2Fsetup%2Fcanary2%2F")
    with httpx.Client(verify=False, trust_env=False, timeout=SOON_SECONDS) as client:
        statuses = {
            client.get(
                f"https://127.0.0.1:{proxy.https}{path}",
                headers={"Host": NAME, "Referer": f"https://{NAME}/invite/canary3/"},
                extensions={"sni_hostname": NAME},
            ).status_code
            for path in paths
        }

    # 503 is Caddy's second answer: it knows by then that no process is up.
    assert statuses <= {502, 503}
    soon(lambda: proxy.log.count(proxy.note_of_failure) == len(paths))
    assert "canary" not in proxy.log
    # The log still says which web process failed.
    assert "127.0.0.1:1" in proxy.log
