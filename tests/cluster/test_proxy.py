"""The shape of a deployment without its containers: nginx as it is delivered, with TLS, before two
web processes and two runners."""

import json
import re
import shutil
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from websockets.sync import client

from chat.wire.sse import Decoder
from tests.browser import streams
from tests.cluster.cluster import Cluster, Web
from tests.cluster.nginx import NAME, NGINX, Nginx
from tests.processes.site import CSRF_TOKEN, SOON_SECONDS, soon

pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx to start")

SITE = f"https://{NAME}"
BEHIND = {
    "SITE_URL": SITE,
    "LIVE_ORIGINS": SITE,
    "BEHIND_TLS_PROXY": "1",
    "TRUSTED_PROXY_COUNT": "1",
}


@dataclass
class Deployment:
    cluster: Cluster
    webs: list[Web]
    nginx: Nginx

    @property
    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.nginx.authority.configure_trust(context)
        return context

    def browser(self, name: str = "") -> httpx.Client:
        session = self.cluster.world.sessions[name] if name else ""
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.nginx.https}",
            headers={
                "Host": NAME,
                "Referer": f"{SITE}/",
                "Cookie": f"__Host-sessionid={session}; __Host-csrftoken={CSRF_TOKEN}",
                "X-CSRFToken": CSRF_TOKEN,
            },
            verify=self.tls,
            timeout=SOON_SECONDS,
            trust_env=False,
            # The certificate is for the name, the connection goes to this machine.
            event_hooks={"request": [_under_the_name]},
        )

    def send(self, browser: httpx.Client, text: str) -> UUID:
        key = uuid.uuid4()
        answer = browser.post(
            "/c/",
            data={
                "text": text,
                "choice": f"{self.cluster.world.upstream}:test/model",
                "key": str(key),
                "team": self.cluster.world.team,
                "visibility": "team",
            },
        )
        assert answer.status_code == 302, answer.text
        return UUID(
            str(
                self.cluster.value(
                    "SELECT public_id FROM chat_run WHERE idempotency_key = ?", key.hex
                )
            )
        )

    def websocket(self, name: str) -> client.ClientConnection:
        return client.connect(
            f"wss://127.0.0.1:{self.nginx.https}/live/",
            ssl=self.tls,
            server_hostname=NAME,
            origin=SITE,
            additional_headers={
                "Cookie": f"__Host-sessionid={self.cluster.world.sessions[name]}",
            },
            proxy=None,
            open_timeout=SOON_SECONDS,
        )


def _under_the_name(request: httpx.Request) -> None:
    request.extensions["sni_hostname"] = NAME


@pytest.fixture(scope="module")
def deployment(
    shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    shared_cluster.heal()
    webs = [
        Web(
            tmp_path_factory.mktemp(f"behind{number}"),
            shared_cluster.world,
            shared_cluster.fake,
            records=shared_cluster.records,
            settings={**shared_cluster.settings, **BEHIND},
        )
        for number in (1, 2)
    ]
    for web in webs:
        web.launch(**BEHIND)
    for web in webs:
        web.until_ready()
    # Not below pytest's own folder, which is closed to nginx's workers.
    folder = Path("/tmp") / f"tributary-nginx-{uuid.uuid4().hex}"
    folder.mkdir()
    nginx = Nginx(folder, webs=[web.port for web in webs])
    nginx.start()
    yield Deployment(shared_cluster, webs, nginx)
    nginx.close()
    for web in webs:
        web.close()
    shutil.rmtree(folder)


def test_nginx_takes_the_file_as_it_is_delivered(deployment: Deployment) -> None:
    said = deployment.nginx.check()

    assert "test is successful" in said
    assert "[warn]" not in said
    assert "[emerg]" not in said


def test_an_answer_arrives_as_it_is_written_by_both_ways(
    deployment: Deployment, cluster: Cluster
) -> None:
    gate = cluster.gate()
    cluster.fake.script(streams.telling("The first half", gate, " and the second."))
    decoder = Decoder()
    text = ""

    with deployment.browser("Alice") as browser, deployment.websocket("Bob") as tab:
        run = deployment.send(browser, "Tell us.")
        tab.send(json.dumps({"type": "follow", "run": run.hex, "seq": 0, "check": ""}))
        with browser.stream("GET", f"/api/v1/runs/{run}/events") as events:
            for chunk in events.iter_raw():
                text += "".join(
                    json.loads(frame.data).get("content", "")
                    for frame in decoder.feed(chunk)
                    if frame.event == "message.delta"
                )
                if text == "The first half":
                    # Both have it while the server still keeps back the rest.
                    until_tab_shows(tab, "The first half")
                    cluster.fake.release(gate.name)
        until_tab_shows(tab, "and the second.")

    assert text == "The first half and the second."


def until_tab_shows(tab: client.ClientConnection, text: str) -> None:
    seen = ""
    while text not in seen:
        seen += json.loads(tab.recv(SOON_SECONDS)).get("content", "")


def test_people_are_seen_as_they_are_and_pages_know_that_they_are_secure(
    deployment: Deployment,
) -> None:
    with deployment.browser() as stranger:
        page = stranger.get("/accounts/login/", headers={"X-Forwarded-Proto": "http"})

    assert page.status_code == 200
    assert "Strict-Transport-Security" in page.headers
    assert re.search("__Host-csrftoken=.*Secure", page.headers["Set-Cookie"])


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_figures_are_not_for_the_public(deployment: Deployment, path: str) -> None:
    with deployment.browser("Alice") as browser:
        assert browser.get(path).status_code == 404


def test_a_place_without_tls_sends_everybody_to_the_one_with_it(deployment: Deployment) -> None:
    answer = httpx.get(
        f"http://127.0.0.1:{deployment.nginx.http}/c/?x=1", headers={"Host": NAME}, trust_env=False
    )

    assert answer.status_code == 308
    assert answer.headers["Location"] == f"{SITE}/c/?x=1"


def test_secrets_that_are_part_of_an_address_are_not_written_to_the_log(
    deployment: Deployment,
) -> None:
    with deployment.browser() as stranger:
        for path in ("/invite/canary1/", "/setup/canary2/", "/?draft=canary3"):
            stranger.get(path, headers={"Referer": f"{SITE}/invite/canary4/"})

    soon(lambda: "/setup/[secret]" in deployment.nginx.log)
    assert "/invite/[secret]" in deployment.nginx.log
    assert "canary" not in deployment.nginx.log


def test_a_web_process_that_goes_takes_no_request_with_it(deployment: Deployment) -> None:
    first, second = deployment.webs

    first.terminate()
    with deployment.browser("Alice") as browser:
        statuses = {browser.get("/").status_code for _ in range(6)}

    assert statuses == {200}
    assert second.is_alive
