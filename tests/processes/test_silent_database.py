"""A PostgreSQL behind a network that swallows everything: refused soon, and sent once when it is back."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from chat.core.errors import StorageBusy
from chat.web.views import AWAY
from tests.support.databases import MIGRATED
from tests.support.processes.site import Site, seed, soon
from tests.support.servers import PostgreSQL, PostgresRecords
from tests.support.silent_proxy import SilentProxy
from tests.support.upstream.fake import FakeUpstream

pytestmark = pytest.mark.process

TEXT = "Sent into the silence"
# More than are made at a time: the others stand in line behind those that wait for an answer.
SENDERS = 7


@pytest.fixture
def proxy(postgres_server: PostgreSQL) -> Iterator[SilentProxy]:
    with SilentProxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def site(postgres_server: PostgreSQL, proxy: SilentProxy, tmp_path: Path) -> Iterator[Site]:
    """Short of patience, so that the test is quick. A busy machine may try it also while the database
    speaks: until the silence, and after it, what was refused is sent again."""
    name = f"silent_{uuid.uuid4().hex}"
    postgres_server.create(name, of=MIGRATED)
    url = postgres_server.url(name)
    world = seed(tmp_path, DATABASE_URL=url)
    through_proxy = url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    with contextlib.closing(PostgresRecords(url)) as records:
        fake = FakeUpstream.start_in_thread()
        site = Site(
            tmp_path,
            world,
            fake,
            records=records,
            settings={"DATABASE_URL": through_proxy, "DATABASE_WAIT_SECONDS": "1"},
        )
        site.rows("UPDATE chat_upstream SET base_url = ?", fake.url)
        site.start()
        try:
            yield site
        finally:
            site.close()
            fake.stop()
    postgres_server.drop(name)


# Those who find no connection that answers wait three seconds for one.
@pytest.mark.slow
def test_silent_database_is_given_up_and_the_message_sent_once(
    site: Site, proxy: SilentProxy
) -> None:
    room = begun(site)
    forms = [form_of(site) for _ in range(SENDERS)]

    def send(fields: dict[str, str]) -> httpx.Response:
        return site.post("Alice", f"/c/{room}/send/", **fields)

    with ThreadPoolExecutor(SENDERS) as pool:
        proxy.silence()
        refused = list(pool.map(send, forms))
        proxy.speak()

    assert [answer.status_code for answer in refused] == [503] * SENDERS
    assert all(str(AWAY) in answer.text for answer in refused)
    assert_sent_once(site, room, forms[0])


def test_message_whose_commit_was_not_confirmed_is_sent_once(
    site: Site, proxy: SilentProxy
) -> None:
    room = begun(site)
    form = form_of(site)

    proxy.silence_at_commit_of(TEXT)
    with site.browser("Alice") as browser:
        # As the page's script sends it: the sentence goes beside the words, which stay there.
        page = {"HX-Request": "true"}
        refused = browser.post(f"/c/{room}/send/", data=form, headers=page)
    proxy.speak()

    assert refused.status_code == 503
    assert "composer-note" in refused.text
    assert str(StorageBusy()) in refused.text
    assert_sent_once(site, room, form)


def begun(site: Site) -> UUID:
    """A conversation."""
    key = uuid.uuid4()
    form = {**form_of(site), "text": "Before", "key": str(key)}
    form |= {"team": site.world.team, "visibility": "team"}
    soon(lambda: site.post("Alice", "/c/", **form).status_code == 302)
    run = site.value("SELECT public_id FROM chat_run WHERE idempotency_key = ?", key.hex)
    return site.conversation_of(UUID(run))


def form_of(site: Site) -> dict[str, str]:
    choice = f"{site.world.upstream}:test/model"
    return {"text": TEXT, "choice": choice, "key": str(uuid.uuid4())}


def assert_sent_once(site: Site, room: UUID, form: dict[str, str]) -> None:
    """The same form twice, with the key that it had."""
    # Connections that were given up are replaced by others within seconds.
    for _ in range(2):
        soon(lambda: site.post("Alice", f"/c/{room}/send/", **form).status_code == 302)
    assert site.value("SELECT count(*) FROM chat_message WHERE text = ?", TEXT) == 1
    assert "Traceback" not in site.log
