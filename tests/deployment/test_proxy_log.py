"""What the proxies themselves complain of, with the configurations as they are delivered."""

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


@pytest.fixture(params=[Nginx, Caddy], ids=lambda kind: kind.name)
def alone(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """Before web processes that are both away: nobody listens at these ports."""
    kind: type[Proxy] = request.param
    require(kind.name)
    folder = Path("/tmp") / f"tributary-{kind.name}-{uuid.uuid4().hex}"
    folder.mkdir()
    proxy = kind(folder, webs=(1, 2))
    proxy.start()
    yield proxy
    proxy.close()
    shutil.rmtree(folder)


def test_an_address_that_lets_somebody_in_is_in_no_complaint(alone: Proxy) -> None:
    paths = ("/invite/canary1/", "/accounts/login/?next=%2Fsetup%2Fcanary2%2F")
    with httpx.Client(verify=False, trust_env=False, timeout=SOON_SECONDS) as client:
        statuses = {
            client.get(
                f"https://127.0.0.1:{alone.https}{path}",
                headers={"Host": NAME, "Referer": f"https://{NAME}/invite/canary3/"},
                extensions={"sni_hostname": NAME},
            ).status_code
            for path in paths
        }

    # Caddy's second one: it knows by then that nobody is there.
    assert statuses <= {502, 503}
    soon(lambda: alone.log.count(alone.note_of_failure) == len(paths))
    assert "canary" not in alone.log
    # Which web process failed at it is told all the same.
    assert "127.0.0.1:1" in alone.log
