"""A deployment without containers: nginx and Caddy with the delivered configuration and TLS, each in
front of two web processes and two runners."""

import json
import re
import shutil
import socket
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.sync import client

from chat.wire.sse import Decoder
from tests.support.browser import streams
from tests.support.cluster.caddy import Caddy
from tests.support.cluster.cluster import Cluster, Web
from tests.support.cluster.nginx import Nginx
from tests.support.cluster.proxies import NAME, Proxy
from tests.support.machine import require
from tests.support.processes.site import CSRF_TOKEN, SOON_SECONDS, soon

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
    proxy: Proxy

    @property
    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.proxy.authority.configure_trust(context)
        return context

    @property
    def web_logs(self) -> str:
        return "".join(web.log for web in self.webs)

    def browser(self, name: str = "") -> httpx.Client:
        session = self.cluster.world.sessions[name] if name else ""
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.proxy.https}",
            headers={
                "Host": NAME,
                "Referer": f"{SITE}/",
                "Cookie": f"__Host-sessionid={session}; __Host-csrftoken={CSRF_TOKEN}",
                "X-CSRFToken": CSRF_TOKEN,
            },
            verify=self.tls,
            timeout=SOON_SECONDS,
            trust_env=False,
            event_hooks={"request": [_set_server_name]},
        )

    def websocket(self, name: str) -> client.ClientConnection:
        return client.connect(
            f"wss://{NAME}/live/",
            sock=socket.create_connection(("127.0.0.1", self.proxy.https), SOON_SECONDS),
            ssl=self.tls,
            origin=SITE,
            additional_headers={
                "Cookie": f"__Host-sessionid={self.cluster.world.sessions[name]}",
            },
            proxy=None,
            open_timeout=SOON_SECONDS,
            # As in a browser.
            ping_interval=None,
        )


def _set_server_name(request: httpx.Request) -> None:
    """The certificate is for the name; the connection goes to this machine."""
    request.extensions["sni_hostname"] = NAME


@pytest.fixture(scope="module")
def webs(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Web]]:
    """Two processes, used by one proxy after the other."""
    shared_cluster.heal()
    webs = [
        Web(
            tmp_path_factory.mktemp(f"behind{number}"),
            shared_cluster.world,
            shared_cluster.fake,
            records=shared_cluster.records,
            settings=shared_cluster.settings,
        )
        for number in (1, 2)
    ]
    for web in webs:
        web.keep_port()
        web.settings |= BEHIND
    yield webs
    for web in webs:
        web.close()


@pytest.fixture(scope="module", params=[Nginx, Caddy], ids=lambda kind: kind.name)
def proxy(request: pytest.FixtureRequest, webs: list[Web]) -> Iterator[Proxy]:
    kind: type[Proxy] = request.param
    require(kind.name)
    start_missing(webs)
    # Not below pytest's folder, which the workers of nginx cannot read.
    folder = Path("/tmp") / f"tributary-{kind.name}-{uuid.uuid4().hex}"
    folder.mkdir()
    proxy = kind(folder, webs=[web.port for web in webs])
    proxy.start()
    yield proxy
    proxy.close()
    shutil.rmtree(folder)


@pytest.fixture
def deployment(shared_cluster: Cluster, webs: list[Web], proxy: Proxy) -> Deployment:
    start_missing(webs)
    return Deployment(shared_cluster, webs, proxy)


def start_missing(webs: list[Web]) -> None:
    missing = [web for web in webs if not web.is_alive]
    for web in missing:
        web.launch()
    for web in missing:
        web.until_ready()


def test_proxy_accepts_the_delivered_file(deployment: Deployment) -> None:
    assert deployment.proxy.complaints() == []


def test_answer_streams_over_both_transports(deployment: Deployment, cluster: Cluster) -> None:
    gate = cluster.gate()
    cluster.fake.script(streams.telling("The first half", gate, " and the second."))
    decoder = Decoder()
    text = ""

    with deployment.browser("Alice") as browser, deployment.websocket("Bob") as tab:
        run = deployment.webs[0].send_from(browser, "Tell us.")
        tab.send(json.dumps({"type": "follow", "run": run.hex, "seq": 0, "check": ""}))
        with browser.stream("GET", f"/api/v1/runs/{run}/events") as events:
            for chunk in events.iter_raw():
                text += "".join(
                    json.loads(frame.data).get("content", "")
                    for frame in decoder.feed(chunk)
                    if frame.event == "message.delta"
                )
                if text == "The first half":
                    # Both have it while the upstream still holds back the rest.
                    until_tab_shows(tab, "The first half")
                    cluster.fake.release(gate.name)
        until_tab_shows(tab, "and the second.")

    assert text == "The first half and the second."


def until_tab_shows(tab: client.ClientConnection, text: str) -> None:
    seen = ""
    while text not in seen:
        seen += json.loads(tab.recv(SOON_SECONDS)).get("content", "")


def test_pages_know_that_they_are_served_over_tls(
    deployment: Deployment,
) -> None:
    with deployment.browser() as stranger:
        page = stranger.get("/accounts/login/", headers={"X-Forwarded-Proto": "http"})

    assert page.status_code == 200
    assert "Strict-Transport-Security" in page.headers
    assert re.search("__Host-csrftoken=.*Secure", page.headers["Set-Cookie"])


def test_forged_client_address_is_ignored(deployment: Deployment) -> None:
    # Otherwise anybody has as many attempts at a password as there are addresses.
    attempt = {"login": "nobody@tributary.test", "password": "wrong"}
    claimed = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}

    with deployment.browser() as stranger:
        stranger.post("/accounts/login/", data=attempt, headers=claimed)

    noted = soon(lambda: re.findall(r"sign_in.failed .*address=(\S+)", deployment.web_logs))
    assert set(noted) == {"127.0.0.1"}


@pytest.mark.parametrize("mebibytes", [20.5, 22])
def test_large_body_is_refused_by_proxy_or_application(
    deployment: Deployment, mebibytes: float
) -> None:
    with deployment.browser("Alice") as browser:
        refused = browser.post("/c/", content=bytes(int(mebibytes * 1024 * 1024)))

    assert refused.status_code == 413


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_metrics_are_not_public(deployment: Deployment, path: str) -> None:
    with deployment.browser("Alice") as browser:
        assert browser.get(path).status_code == 404


def test_plain_http_redirects_to_tls(deployment: Deployment) -> None:
    answer = httpx.get(
        f"http://127.0.0.1:{deployment.proxy.http}/c/?x=1",
        headers={"Host": NAME},
        timeout=SOON_SECONDS,
        trust_env=False,
    )

    assert answer.status_code == 308
    assert answer.headers["Location"] == f"{SITE}/c/?x=1"


def test_secret_addresses_are_not_logged(deployment: Deployment) -> None:
    with deployment.browser() as stranger:
        for path in ("/invite/canary1/", "/setup/canary2/", "/?draft=canary3"):
            stranger.get(path, headers={"Referer": f"{SITE}/invite/canary4/"})

    soon(lambda: all(note in deployment.proxy.log for note in deployment.proxy.notes_of_secrets))
    assert "canary" not in deployment.proxy.log


def test_stopped_process_fails_no_request(deployment: Deployment) -> None:
    first, second = deployment.webs

    first.terminate()
    with deployment.browser("Alice") as browser:
        statuses = {browser.get("/").status_code for _ in range(6)}

    assert statuses == {200}
    assert second.is_alive


def test_form_to_a_killed_process_blames_no_other(deployment: Deployment) -> None:
    # A proxy learns only by asking that a process is gone, and not every Caddy can resend a form.
    first, _ = deployment.webs
    form = {"login": "somebody"}

    first.kill9()
    with deployment.browser("Alice") as browser:
        answers = {browser.post("/accounts/login/", data=form).status_code for _ in range(8)}
        page = browser.get("/").status_code
        soon(lambda: browser.post("/accounts/login/", data=form).status_code == 302)

    assert answers <= deployment.proxy.statuses_while_one_is_down
    assert page == 200
