"""An upstream repeats its API key in every way it can; the key shows up nowhere."""

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from chat.run_details.views.details import TABS
from tests.support.processes.site import Site
from tests.support.upstream.control import secret_hash
from tests.support.upstream.script import (
    Script,
    answer,
    cut,
    lmstudio_events,
    lmstudio_run,
    reset,
    stream,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]

CANARY = "sk-canary-8Tq2vX7wLm4ZrN0p"
# What people and models write belongs in the records and on pages, and never in the log.
PROMPT = "prompt-canary-Jw81nQ"
ANSWER = "answer-canary-c5TzR2"
TOKEN = "trib_token-canary-x0V9kE3bYq"

ERROR = {"error": {"message": f"Bad token {CANARY} ({CANARY[:12]}****)", "code": "invalid_api_key"}}
TEXT = lmstudio_events(
    lmstudio_run(f"{ANSWER}: your key is ", CANARY, ".", reasoning=[f"Bearer {CANARY}"])
)
STREAM_ERROR = lmstudio_events(
    [
        {"type": "chat.start", "model_instance_id": CANARY},
        {"type": "x_unknown", "key": CANARY, ANSWER: ANSWER},
        {"type": "error", "error": {"type": "unknown", "message": f"Token {CANARY} refused"}},
    ]
)

ANSWERS: dict[str, Script] = {
    "a refusal that names it": answer(ERROR, status=401),
    "a plain page that names it": answer(f"<html>{CANARY}</html>", content_type="text/html"),
    "a header that holds it": answer("no", status=500, headers={"X-Debug": CANARY}),
    "text in small pieces": stream(TEXT, split_bytes=3),
    "an error in mid-stream": stream(STREAM_ERROR),
    "half of it, then the end": cut(TEXT[: TEXT.index(CANARY.encode()) + 12]),
    "a reset after it": reset(TEXT[: TEXT.rindex(CANARY.encode()) + 40]),
    "a whole body": answer({"output": [{"type": "message", "content": CANARY}], "stats": {}}),
}  # fmt: skip


@pytest.fixture(scope="module")
def site(shared_site: Site) -> Site:
    """Alice administers it; people ask a server whose key is the canary."""
    shared_site.rows("UPDATE chat_user SET is_staff = 1, is_superuser = 1 WHERE name = 'Alice'")
    shared_site.start(LOG_LEVEL="DEBUG", LOG_FORMAT="json")
    upstream = add_server(shared_site, "Keyed")["public_id"]
    shared_site.world = msgspec.structs.replace(shared_site.world, upstream=upstream)
    return shared_site


def server_form(name: str, **changes: str) -> dict[str, str]:
    return {
        "name": name,
        "dialect": "lmstudio",
        "concurrency_limit": "4",
        "typed_models": "test/model",
        **changes,
    }


def server_row(site: Site, name: str) -> dict[str, Any]:
    (row,) = site.rows("SELECT * FROM chat_upstream WHERE name = ?", name)
    return row


def add_server(site: Site, name: str) -> dict[str, Any]:
    form = server_form(name, base_url=site.fake.url, key=CANARY)
    added = site.post("Alice", "/settings/servers/add/", **form, untested="true")
    assert added.status_code == 302, added.text
    site.rows("UPDATE chat_upstream SET is_enabled = true WHERE name = ?", name)
    row = server_row(site, name)
    assert row["sealed_key"]
    return row


def stored(site: Site) -> Iterator[str]:
    """Everything on disk: the records as text, blobs unpacked, and the raw files."""
    with closing(sqlite3.connect(site.folder / "tributary.sqlite3")) as database:
        yield "\n".join(database.iterdump())
    for run in site.rows("SELECT public_id FROM chat_run"):
        yield "".join(entry.body.decode() for entry in site.entries(uuid.UUID(run["public_id"])))
    raw = "SELECT raw FROM chat_runsegment WHERE raw IS NOT NULL"
    for row in site.rows(f"{raw} UNION ALL SELECT body FROM chat_rawsegment"):
        yield row["raw"].decode("utf-8", "replace")
    for path in site.folder.glob("tributary.sqlite3*"):
        yield path.read_bytes().decode("latin-1")


def shown(site: Site) -> Iterator[tuple[str, str]]:
    """Every page that could show the key, as the administrator sees it."""
    upstream = uuid.UUID(site.world.upstream)
    paths = [
        "/",
        "/settings/servers/",
        f"/settings/servers/{upstream}/",
        "/admin/chat/upstream/",
        "/admin/chat/auditevent/",
        "/admin/chat/run/",
        "/admin/chat/conversation/",
    ]
    for row in site.rows("SELECT id, public_id FROM chat_run"):
        run = uuid.UUID(row["public_id"])
        paths += [f"/r/{run}/details/?tab={tab}" for tab in TABS]
        paths.append(f"/api/v1/runs/{run}/events")
        paths += [f"/admin/chat/run/{row['id']}/change/", f"/c/{site.conversation_of(run)}/"]
    for row in site.rows("SELECT id FROM chat_conversation"):
        paths.append(f"/admin/chat/conversation/{row['id']}/change/")
    for row in site.rows("SELECT id FROM chat_upstream"):
        paths.append(f"/admin/chat/upstream/{row['id']}/change/")
    with site.browser("Alice") as browser:
        for path in paths:
            page = browser.get(path)
            assert page.status_code == 200, (urlsplit(path).path, page.status_code)
            yield path, page.text


def test_key_is_found_nowhere(site: Site) -> None:
    for name, script in ANSWERS.items():
        site.fake.script(script)
        site.until_ended(site.send(f"{name} {PROMPT}"))
    for path in ("test/", "models/"):
        site.fake.script(answer(ERROR, status=401), answer(ERROR, status=401))
        site.post("Alice", f"/settings/servers/{uuid.UUID(site.world.upstream)}/{path}")

    with site.browser("Alice") as browser:
        for path in ("/api/v1/models", "/metrics", f"/{PROMPT}/"):
            browser.get(path, headers={"Authorization": f"Bearer {TOKEN}"})

    assert site.fake.posts >= len(ANSWERS)
    assert [path for path, page in shown(site) if CANARY in page] == []
    assert [text[:80] for text in stored(site) if CANARY in text] == []
    assert_log_is_discreet(site)


def assert_log_is_discreet(site: Site) -> None:
    """The log names every run by its id, and holds neither secrets nor what anybody wrote."""
    lines = [json.loads(line) for line in site.log.splitlines()]
    runs = {uuid.UUID(row["public_id"]) for row in site.rows("SELECT public_id FROM chat_run")}
    ended = {uuid.UUID(line["run"]) for line in lines if line["event"] == "run.ended"}
    secrets = [CANARY, ANSWER, TOKEN, *site.world.sessions.values()]

    assert ended == runs
    assert [secret for secret in secrets if secret in site.log] == []
    # Django logs the address that a client asked for.
    assert {line["logger"] for line in lines if PROMPT in str(line)} <= {"django.request"}


def test_key_reaches_its_own_server(site: Site) -> None:
    site.fake.script(stream(lmstudio_events(lmstudio_run("Hello."))))

    site.until_ended(site.send("Hello"))

    sent = [record.headers.get("authorization") for record in site.fake.requests]
    assert secret_hash(f"Bearer {CANARY}") in sent


def test_key_is_dropped_when_the_address_changes(site: Site) -> None:
    upstream = uuid.UUID(add_server(site, "Moved")["public_id"])

    form = server_form("Moved", base_url="http://127.0.0.2:9", key="")
    moved = site.post("Alice", f"/settings/servers/{upstream}/settings/", **form)

    assert moved.status_code == 302
    row = server_row(site, "Moved")
    assert (row["base_url"], row["sealed_key"]) == ("http://127.0.0.2:9", "")
