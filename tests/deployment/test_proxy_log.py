"""What nginx itself complains of, with the configuration as it is delivered."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cluster.nginx import NAME, NGINX, Nginx
from tests.processes.site import SOON_SECONDS, soon

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(NGINX is None, reason="no nginx to start"),
]


@pytest.fixture
def alone() -> Iterator[Nginx]:
    """Before web processes that are both away: nobody listens at these ports."""
    folder = Path("/tmp") / f"tributary-nginx-{uuid.uuid4().hex}"
    folder.mkdir()
    nginx = Nginx(folder, webs=(1, 2))
    nginx.start()
    yield nginx
    nginx.close()
    shutil.rmtree(folder)


def test_an_address_that_lets_somebody_in_is_in_no_complaint(alone: Nginx) -> None:
    paths = ("/invite/canary1/", "/accounts/login/?next=%2Fsetup%2Fcanary2%2F")
    with httpx.Client(verify=False, trust_env=False, timeout=SOON_SECONDS) as client:
        statuses = {
            client.get(
                f"https://127.0.0.1:{alone.https}{path}",
                headers={"Host": NAME, "Referer": f"https://{NAME}/invite/canary3/"},
            ).status_code
            for path in paths
        }

    assert statuses == {502}
    soon(lambda: alone.log.count("\n") == len(paths))
    assert "canary" not in alone.log + (alone.folder / "error.log").read_text()
    # Which web process failed at it is told all the same.
    assert "127.0.0.1:1" in alone.log
    assert " 502" in alone.log
