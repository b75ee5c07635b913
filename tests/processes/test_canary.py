"""A key that upstreams throw back in every way they can, and where it is found: nowhere."""

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from chat.demo.control import secret_hash
from chat.demo.script import Script, answer, cut, lmstudio_events, lmstudio_run, reset, stream
from tests.support.processes.site import Site

pytestmark = pytest.mark.process

CANARY = "sk-canary-8Tq2vX7wLm4ZrN0p"
# What people and models say may be in the records and on pages, and never in the log.
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


@pytest.fixture
def office(site: Site) -> Site:
    """A site with an administrator and a server whose key is the canary."""
    site.rows("UPDATE chat_user SET is_staff = 1, is_superuser = 1 WHERE name = 'Alice'")
    site.start(LOG_LEVEL="DEBUG", LOG_FORMAT="json")
    added = site.post(
        "Alice",
        "/settings/servers/add/",
        name="Keyed",
        dialect="lmstudio",
        base_url=site.fake.url,
        key=CANARY,
        concurrency_limit="4",
        typed_models="test/model",
    )
    assert added.status_code == 302, added.text
    row = site.rows("SELECT * FROM chat_upstream WHERE name = 'Keyed'")[0]
    assert row["sealed_key"]
    site.world = type(site.world)(
        team=site.world.team, upstream=row["public_id"], sessions=site.world.sessions
    )
    return site


def stored(site: Site) -> Iterator[str]:
    """Everything on disk: the records as text, blobs unpacked, and the files as they lie."""
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
    """Every page that could show it, to the administrator."""
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
        paths += [f"/r/{run}/details/", f"/api/v1/runs/{run}/events"]
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


def test_the_key_is_found_nowhere(office: Site) -> None:
    for name, script in ANSWERS.items():
        office.fake.script(script)
        office.until_ended(office.send(f"{name} {PROMPT}"))
    for path in ("test/", "models/"):
        office.fake.script(answer(ERROR, status=401), answer(ERROR, status=401))
        office.post("Alice", f"/settings/servers/{uuid.UUID(office.world.upstream)}/{path}")

    with office.browser("Alice") as browser:
        for path in ("/api/v1/models", "/metrics", f"/{PROMPT}/"):
            browser.get(path, headers={"Authorization": f"Bearer {TOKEN}"})

    assert office.fake.posts >= len(ANSWERS)
    assert [path for path, page in shown(office) if CANARY in page] == []
    assert [text[:80] for text in stored(office) if CANARY in text] == []
    assert_discreet(office)


def assert_discreet(office: Site) -> None:
    """Nobody's words and nothing secret in the log, which tells of every run by its id."""
    lines = [json.loads(line) for line in office.log.splitlines()]
    runs = {uuid.UUID(row["public_id"]) for row in office.rows("SELECT public_id FROM chat_run")}
    ended = {uuid.UUID(line["run"]) for line in lines if line["event"] == "run.ended"}
    secrets = [CANARY, ANSWER, TOKEN, *office.world.sessions.values()]

    assert ended == runs
    assert [secret for secret in secrets if secret in office.log] == []
    # An address is what a stranger asked for, and is told as such.
    assert {line["logger"] for line in lines if PROMPT in str(line)} <= {"django.request"}


def test_the_key_reaches_the_server_that_it_belongs_to(office: Site) -> None:
    office.fake.script(stream(lmstudio_events(lmstudio_run("Hello."))))

    office.until_ended(office.send("Hello"))

    sent = [record.headers.get("authorization") for record in office.fake.requests]
    assert secret_hash(f"Bearer {CANARY}") in sent


def test_another_address_does_not_get_the_key(office: Site) -> None:
    upstream = uuid.UUID(office.world.upstream)

    moved = office.post(
        "Alice",
        f"/settings/servers/{upstream}/",
        name="Keyed",
        dialect="lmstudio",
        base_url="http://127.0.0.2:9",
        key="",
        concurrency_limit="4",
        typed_models="test/model",
    )

    assert moved.status_code == 302
    row = office.rows("SELECT * FROM chat_upstream WHERE name = 'Keyed'")[0]
    assert (row["base_url"], row["sealed_key"]) == ("http://127.0.0.2:9", "")
