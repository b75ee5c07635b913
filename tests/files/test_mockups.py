"""Versions of a mockup: previewed with their own files, listed with what changed, packed."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from chat.events import ArtifactUpdate, MockupUpdate
from chat.models import (
    Conversation,
    FetchStatus,
    Mockup,
    MockupFile,
    StoredFile,
    User,
)
from chat.views import zips
from chat.views.zips import unique_path
from tests.files.conftest import Answer

pytestmark = pytest.mark.usefixtures("db")

FILES = {
    "index.html": "<h1>Board</h1><link rel=stylesheet href=css/a.css>",
    "css/a.css": "h1 { color: teal }",
    "js/a.js": "document.title = 'ran'",
    "notes.exe": "MZ",
}


@pytest.fixture
def alice_client(alice: User, signed_in) -> Client:
    return signed_in(alice)


@pytest.fixture
def mockup(answer: Answer, conversation: Conversation) -> Mockup:
    """Two versions; everything is fetched but what was announced under a strange path."""
    made = [{"path": path, "size": len(body)} for path, body in FILES.items()]
    answer(
        MockupUpdate(op="created", bundle_id="b", title="Board", entry="index.html", files=[*made]),
        MockupUpdate(
            op="updated",
            bundle_id="b",
            files=[{"path": "css/night.css"}],
            changed=["index.html"],
            deleted=["notes.exe"],
        ),
    )
    _store(conversation, {**FILES, "css/night.css": "body { color: navy }"})
    return Mockup.objects.get()


def _store(conversation: Conversation, bodies: Mapping[str, str]) -> None:
    for path, body in bodies.items():
        file = StoredFile.objects.create(
            conversation=conversation, name=path, body=body.encode(), size_bytes=len(body)
        )
        MockupFile.objects.filter(path=path).update(status=FetchStatus.STORED, file=file)


def page(client: Client, route: str, mockup: Mockup, number: int) -> str:
    return client.get(reverse(route, args=[mockup.public_id, number])).content.decode()


def source_of(html: str) -> str:
    found = re.search(r'<iframe [^>]*src="([^"]*)"', html)
    assert found
    return unescape(found[1])


def test_the_first_page_is_framed_with_its_files_beside_it(
    alice_client: Client, mockup: Mockup
) -> None:
    source = source_of(page(alice_client, "mockup", mockup, 1))
    beside, client = source.removesuffix("index.html"), Client()

    answers = {path: client.get(beside + path) for path in FILES}

    assert {path: each.content.decode() for path, each in answers.items()} == FILES
    assert [each["Content-Type"].partition(";")[0] for each in answers.values()] == [
        *("text/html", "text/css", "text/javascript"),
        "application/octet-stream",
    ]
    for each in answers.values():
        assert each["Access-Control-Allow-Origin"] == "*"
        assert each["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert each["X-Content-Type-Options"] == "nosniff"
        assert each["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert f"style-src 'unsafe-inline' http://testserver{beside}" in each[
            "Content-Security-Policy"
        ].split("; ")


@pytest.mark.databases
@pytest.mark.parametrize(
    "path", ["", "css", "css/../index.html", "css/night.css", "%2e%2e/x", "a%00b", "%FF"]
)
def test_a_version_serves_its_own_files_and_nothing_else(
    alice_client: Client, mockup: Mockup, path: str
) -> None:
    beside = source_of(page(alice_client, "mockup", mockup, 1)).removesuffix("index.html")

    assert Client().get(beside + path).status_code == 404


def test_scripts_of_a_bundle_wait_for_a_person(alice_client: Client, mockup: Mockup) -> None:
    address = reverse("mockup", args=[mockup.public_id, 1])
    quiet = alice_client.get(address).content.decode()
    running = alice_client.post(address).content.decode()

    assert "Its scripts are off" in quiet
    assert 'sandbox=""' in quiet
    assert 'sandbox="allow-scripts"' in running
    policy = Client().get(source_of(running))["Content-Security-Policy"]
    own = source_of(running).removesuffix("index.html")
    assert f"script-src 'unsafe-inline' http://testserver{own};" in policy


def test_what_a_version_changed_is_marked(alice_client: Client, mockup: Mockup) -> None:
    first = page(alice_client, "mockup_files", mockup, 1)
    second = page(alice_client, "mockup_files", mockup, 2)

    assert "tree-mark" not in first
    assert _marks(second) == {"index.html": "changed", "night.css": "new", "notes.exe": "deleted"}
    assert "<del" in second


def _marks(html: str) -> dict[str, str]:
    rows = re.findall(r"<li.*?</li>", html, re.DOTALL)
    found = {}
    for row in rows:
        mark = re.search(r"tree-mark tree-(\w+)", row)
        name = re.search(r'class="code"[^>]*>([^<]*)<', row)
        if mark and name:
            found[name[1]] = mark[1]
    return found


def test_while_files_are_fetched_there_is_no_preview_yet(
    alice_client: Client, mockup: Mockup
) -> None:
    MockupFile.objects.filter(path="js/a.js").update(status=FetchStatus.WANTED, file=None)

    html = page(alice_client, "mockup", mockup, 1)

    assert "<iframe" not in html
    assert 'hx-trigger="every 3s"' in html
    assert "are being fetched" in html


def test_without_its_first_page_the_files_are_still_there(
    alice_client: Client, mockup: Mockup
) -> None:
    MockupFile.objects.filter(path="index.html").update(status=FetchStatus.REFUSED, file=None)

    html = page(alice_client, "mockup", mockup, 1)

    assert "could not be fetched" in html
    assert "<iframe" not in html


# --- packed -----------------------------------------------------------------------------------


def unpacked(response) -> dict[str, str]:
    assert response["Content-Type"] == "application/zip"
    assert response["Content-Disposition"].startswith("attachment")
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_version_is_packed_as_it_is(alice_client: Client, mockup: Mockup) -> None:
    response = alice_client.get(reverse("mockup_zip", args=[mockup.public_id, 1]))

    assert unpacked(response) == FILES
    assert 'filename="Board-v1.zip"' in response["Content-Disposition"]


def test_a_conversation_is_packed_with_all_that_it_gathered(
    alice_client: Client, conversation: Conversation, mockup: Mockup, answer: Answer
) -> None:
    answer(
        ArtifactUpdate(op="created", artifact_id="a", title="Calc", language="html", content="1"),
        ArtifactUpdate(op="updated", artifact_id="a", content="2"),
        ArtifactUpdate(op="created", artifact_id="b", title="calc", language="html", content="3"),
    )

    files = unpacked(alice_client.get(reverse("conversation_zip", args=[conversation.public_id])))

    assert files["artifacts/Calc-v1.html"] == "1"
    assert files["artifacts/Calc-v2.html"] == "2"
    assert files["artifacts/calc-v1 (2).html"] == "3"
    assert files["mockups/Board-v2/css/night.css"] == "body { color: navy }"
    assert "mockups/Board-v2/notes.exe" not in files


def test_more_than_one_file_holds_is_refused_in_words(
    alice_client: Client,
    conversation: Conversation,
    mockup: Mockup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zips, "MOST_BYTES", 20)

    response = alice_client.get(reverse("conversation_zip", args=[conversation.public_id]))

    assert response.status_code == 413
    assert "one by one" in response.content.decode()


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("..\\..\\x.html", "x.html"),
        ("C:\\x.html", "C_/x.html"),
        ("a/./b/../c", "a/b/c"),
        ("...", "file"),
        ("", "file"),
        ("con.txt", "_con.txt"),
        ("con .txt", "_con .txt"),
        ("COM¹.txt", "_COM¹.txt"),
        ("conout$", "_conout$"),
        ("\N{WATER WAVE}" * 90, "\N{WATER WAVE}" * 50),
        ("a\u202egpj.exe", "agpj.exe"),
        ("a\x00b\n", "ab"),
        ("x" * 300, "x" * 100),
        ("d/" * 50 + "x", "d/" * 19 + "x"),
    ],
)
def test_no_name_leaves_the_folder_that_it_is_unpacked_in(path: str, safe: str) -> None:
    assert unique_path(path, set()) == safe


def test_names_that_differ_in_case_alone_stay_apart() -> None:
    taken: set[str] = set()

    names = [unique_path(path, taken) for path in ("A.txt", "a.txt", "b/c", "B/C", ".env", ".ENV")]

    assert names == ["A.txt", "a (2).txt", "b/c", "B/C (2)", "env", "ENV (2)"]


@pytest.mark.parametrize(
    ("paths", "safe"),
    [
        (("a", "a/b"), ["a", "a (2)/b"]),
        (("a/b", "A"), ["a/b", "A (2)"]),
        (("a/b/c", "a/b"), ["a/b/c", "a/b (2)"]),
        (("a", "a/b", "a/c"), ["a", "a (2)/b", "a (2)/c"]),
        (("caf\u00e9", "cafe\u0301"), ["caf\u00e9", "cafe\u0301 (2)"]),
    ],
)
def test_no_file_lies_where_another_one_does(paths: tuple[str, ...], safe: list[str]) -> None:
    taken: set[str] = set()

    assert [unique_path(path, taken) for path in paths] == safe


class Counted(set[str]):
    looks = 0

    def __contains__(self, path: object) -> bool:
        self.looks += 1
        return super().__contains__(path)


def test_many_of_one_name_are_numbered_without_looking_at_all_before() -> None:
    taken = Counted()

    names = [unique_path("a.png", taken) for _ in range(1_000)]

    assert names == ["a.png", *(f"a ({number}).png" for number in range(2, 1_001))]
    assert taken.looks < 50 * len(names)
