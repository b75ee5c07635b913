"""The shape of a deployment without its containers: nginx and Caddy as they are delivered, with TLS,
each before two web processes and two runners."""

import json
import re
import shutil
import socket
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
    def logs(self) -> str:
        """Of the web processes."""
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
            f"wss://{NAME}/live/",
            sock=socket.create_connection(("127.0.0.1", self.proxy.https), SOON_SECONDS),
            ssl=self.tls,
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
def webs(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Web]]:
    """Two processes for all proxies, one after the other."""
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
    # Not below pytest's own folder, which is closed to nginx's workers.
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


def test_the_proxy_takes_the_file_as_it_is_delivered(deployment: Deployment) -> None:
    assert deployment.proxy.complaints() == []


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


def test_an_address_that_somebody_claims_is_not_the_one_that_counts(
    deployment: Deployment,
) -> None:
    """Else everybody has as many attempts at a password as there are addresses."""
    attempt = {"login": "nobody@tributary.test", "password": "wrong"}
    claimed = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}

    with deployment.browser() as stranger:
        stranger.post("/accounts/login/", data=attempt, headers=claimed)

    noted = soon(lambda: re.findall(r"sign_in.failed .*address=(\S+)", deployment.logs))
    assert set(noted) == {"127.0.0.1"}


@pytest.mark.parametrize("mebibytes", [20.5, 22])
def test_what_is_too_large_is_refused_in_words_and_not_as_a_failure(
    deployment: Deployment, mebibytes: float
) -> None:
    """By the application, or by the proxy before it."""
    with deployment.browser("Alice") as browser:
        refused = browser.post("/c/", content=bytes(int(mebibytes * 1024 * 1024)))

    assert refused.status_code == 413


@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_figures_are_not_for_the_public(deployment: Deployment, path: str) -> None:
    with deployment.browser("Alice") as browser:
        assert browser.get(path).status_code == 404


def test_a_place_without_tls_sends_everybody_to_the_one_with_it(deployment: Deployment) -> None:
    answer = httpx.get(
        f"http://127.0.0.1:{deployment.proxy.http}/c/?x=1", headers={"Host": NAME}, trust_env=False
    )

    assert answer.status_code == 308
    assert answer.headers["Location"] == f"{SITE}/c/?x=1"


def test_secrets_that_are_part_of_an_address_are_not_written_to_the_log(
    deployment: Deployment,
) -> None:
    with deployment.browser() as stranger:
        for path in ("/invite/canary1/", "/setup/canary2/", "/?draft=canary3"):
            stranger.get(path, headers={"Referer": f"{SITE}/invite/canary4/"})

    soon(lambda: all(note in deployment.proxy.log for note in deployment.proxy.notes_of_secrets))
    assert "canary" not in deployment.proxy.log


def test_a_web_process_that_goes_takes_no_request_with_it(deployment: Deployment) -> None:
    first, second = deployment.webs

    first.terminate()
    with deployment.browser("Alice") as browser:
        statuses = {browser.get("/").status_code for _ in range(6)}

    assert statuses == {200}
    assert second.is_alive


def test_a_form_for_a_process_that_is_gone_is_no_fault_of_the_other_one(
    deployment: Deployment,
) -> None:
    """A proxy learns only by asking that a process is gone, and not every Caddy can ask again with
    a form in its hands."""
    first, _ = deployment.webs
    form = {"login": "somebody"}

    first.kill9()
    with deployment.browser("Alice") as browser:
        answers = {browser.post("/accounts/login/", data=form).status_code for _ in range(8)}
        page = browser.get("/").status_code
        soon(lambda: browser.post("/accounts/login/", data=form).status_code == 302)

    assert answers <= deployment.proxy.answers_while_a_process_is_gone
    assert page == 200
