"""Versions of a mockup: previewed with their own files, listed with their changes, zipped."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping
from html import unescape

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.events import ArtifactUpdate, MockupUpdate
from chat.files import zips
from chat.files.zips import unique_path
from chat.models import Conversation, FetchStatus, Mockup, MockupFile
from tests.support.answers import Answer
from tests.support.files import store_file

pytestmark = pytest.mark.usefixtures("db")

FILES = {
    "index.html": "<h1>Board</h1><link rel=stylesheet href=css/a.css>",
    "css/a.css": "h1 { color: teal }",
    "js/a.js": "document.title = 'ran'",
    "notes.exe": "MZ",
}
Page = Callable[..., str]


@pytest.fixture
def mockup(answer: Answer, conversation: Conversation) -> Mockup:
    """Two versions, with all of their files."""
    files = [{"path": path, "size": len(body)} for path, body in FILES.items()]
    answer(
        MockupUpdate(
            op="created", bundle_id="b", title="Board", entry="index.html", files=[*files]
        ),
        MockupUpdate(
            op="updated",
            bundle_id="b",
            files=[{"path": "css/night.css"}],
            changed=["index.html"],
            deleted=["notes.exe"],
        ),
    )
    store(conversation, {**FILES, "css/night.css": "body { color: navy }"})
    return Mockup.objects.get()


def store(conversation: Conversation, bodies: Mapping[str, str]) -> None:
    for path, body in bodies.items():
        file = store_file(
            conversation=conversation, name=path, body=body.encode(), size_bytes=len(body)
        )
        MockupFile.objects.filter(path=path).update(status=FetchStatus.STORED, file=file)


@pytest.fixture
def page(alice_client: Client, mockup: Mockup) -> Page:
    """``page(route, number)``: a page of one version."""

    def read(route: str, number: int) -> str:
        address = reverse(route, args=[mockup.public_id, number])
        return alice_client.get(address).content.decode()

    return read


def preview_folder(html: str) -> str:
    """The address below which the framed page and its files are."""
    found = re.search(r'<iframe [^>]*src="([^"]*)"', html)
    assert found
    return unescape(found[1]).removesuffix("index.html")


# --- previews ----------------------------------------------------------------------------------


def test_preview_serves_all_files_of_its_version(page: Page) -> None:
    folder, client = preview_folder(page("mockup", 1)), Client()

    answers = {path: client.get(folder + path) for path in FILES}

    assert {path: each.content.decode() for path, each in answers.items()} == FILES
    assert [each["Content-Type"].partition(";")[0] for each in answers.values()] == [
        *("text/html", "text/css", "text/javascript"),
        "application/octet-stream",
    ]
    for each in answers.values():
        policy = each["Content-Security-Policy"]
        assert each["Access-Control-Allow-Origin"] == "*"
        assert each["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert each["X-Content-Type-Options"] == "nosniff"
        assert policy.startswith("sandbox; default-src 'none'")
        assert f"style-src 'unsafe-inline' http://testserver{folder}" in policy.split("; ")


@pytest.mark.databases
def test_preview_serves_nothing_else(page: Page, subtests: pytest.Subtests) -> None:
    folder, client = preview_folder(page("mockup", 1)), Client()

    for path in ("", "css", "css/../index.html", "css/night.css", "%2e%2e/x", "a%00b", "%FF"):
        with subtests.test(path):
            assert client.get(folder + path).status_code == 404


def test_scripts_run_on_demand_only(alice_client: Client, mockup: Mockup) -> None:
    address = reverse("mockup", args=[mockup.public_id, 1])

    quiet = alice_client.get(address).content.decode()
    running = alice_client.post(address).content.decode()

    assert "Scripts disabled" in quiet
    assert 'sandbox=""' in quiet
    assert 'sandbox="allow-scripts"' in running
    folder = preview_folder(running)
    policy = Client().get(f"{folder}index.html")["Content-Security-Policy"]
    assert f"script-src 'unsafe-inline' http://testserver{folder};" in policy


def test_preview_waits_for_all_files(page: Page) -> None:
    MockupFile.objects.filter(path="js/a.js").update(status=FetchStatus.WANTED, file=None)

    html = page("mockup", 1)

    assert "<iframe" not in html
    assert 'hx-trigger="every 3s"' in html
    assert "The preview appears when" in html


def test_preview_needs_the_first_page(page: Page) -> None:
    MockupFile.objects.filter(path="index.html").update(status=FetchStatus.REFUSED, file=None)

    html = page("mockup", 1)

    assert "couldn’t be downloaded" in html
    assert "<iframe" not in html


def test_list_marks_changed_files(page: Page) -> None:
    first, second = page("mockup_files", 1), page("mockup_files", 2)

    assert "tree-mark" not in first
    assert marks(second) == {"index.html": "changed", "night.css": "new", "notes.exe": "deleted"}
    assert "<del" in second


def marks(html: str) -> dict[str, str]:
    found = {}
    for row in re.findall(r"<li.*?</li>", html, re.DOTALL):
        mark = re.search(r"tree-mark tree-(\w+)", row)
        name = re.search(r'class="code"[^>]*>([^<]*)<', row)
        if mark and name:
            found[name[1]] = mark[1]
    return found


# --- zipped ------------------------------------------------------------------------------------


def unzipped(response: HttpResponse) -> dict[str, str]:
    assert response["Content-Type"] == "application/zip"
    assert response["Content-Disposition"].startswith("attachment")
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    return {name: archive.read(name).decode() for name in archive.namelist()}


def test_version_is_zipped(alice_client: Client, mockup: Mockup) -> None:
    response = alice_client.get(reverse("mockup_zip", args=[mockup.public_id, 1]))

    assert unzipped(response) == FILES
    assert 'filename="Board-v1.zip"' in response["Content-Disposition"]


def test_conversation_is_zipped_with_all_its_files(
    alice_client: Client, conversation: Conversation, mockup: Mockup, answer: Answer
) -> None:
    answer(
        ArtifactUpdate(op="created", artifact_id="a", title="Calc", language="html", content="1"),
        ArtifactUpdate(op="updated", artifact_id="a", content="2"),
        ArtifactUpdate(op="created", artifact_id="b", title="calc", language="html", content="3"),
    )

    files = unzipped(alice_client.get(reverse("conversation_zip", args=[conversation.public_id])))

    assert files["artifacts/Calc-v1.html"] == "1"
    assert files["artifacts/Calc-v2.html"] == "2"
    assert files["artifacts/calc-v1 (2).html"] == "3"
    assert files["mockups/Board-v2/css/night.css"] == "body { color: navy }"
    assert "mockups/Board-v2/notes.exe" not in files


def test_zip_that_is_too_large_is_refused(
    alice_client: Client,
    conversation: Conversation,
    mockup: Mockup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zips, "MOST_BYTES", 20)

    response = alice_client.get(reverse("conversation_zip", args=[conversation.public_id]))

    assert response.status_code == 413
    assert "one by one" in response.content.decode()


SAFE_PATHS = {
    "../../etc/passwd": "etc/passwd",
    "/etc/passwd": "etc/passwd",
    "..\\..\\x.html": "x.html",
    "C:\\x.html": "C_/x.html",
    "a/./b/../c": "a/b/c",
    "...": "file",
    "": "file",
    "con.txt": "_con.txt",
    "con .txt": "_con .txt",
    "COM¹.txt": "_COM¹.txt",
    "conout$": "_conout$",
    "\N{WATER WAVE}" * 90: "\N{WATER WAVE}" * 50,
    "a\u202egpj.exe": "agpj.exe",
    "a\x00b\n": "ab",
    "x" * 300: "x" * 100,
    "d/" * 50 + "x": "d/" * 19 + "x",
}


def test_zipped_paths_are_safe_to_extract(subtests: pytest.Subtests) -> None:
    for path, safe in SAFE_PATHS.items():
        with subtests.test(ascii(path)):
            assert unique_path(path, set()) == safe


@pytest.mark.parametrize(
    ("paths", "safe"),
    [
        (
            ("A.txt", "a.txt", "b/c", "B/C", ".env", ".ENV"),
            ["A.txt", "a (2).txt", "b/c", "B/C (2)", "env", "ENV (2)"],
        ),
        (("a", "a/b"), ["a", "a (2)/b"]),
        (("a/b", "A"), ["a/b", "A (2)"]),
        (("a/b/c", "a/b"), ["a/b/c", "a/b (2)"]),
        (("a", "a/b", "a/c"), ["a", "a (2)/b", "a (2)/c"]),
        (("caf\u00e9", "cafe\u0301"), ["caf\u00e9", "cafe\u0301 (2)"]),
    ],
)
def test_zipped_paths_do_not_collide(paths: tuple[str, ...], safe: list[str]) -> None:
    taken: set[str] = set()

    assert [unique_path(path, taken) for path in paths] == safe


class CountingSet(set[str]):
    lookups = 0

    def __contains__(self, path: object) -> bool:
        self.lookups += 1
        return super().__contains__(path)


def test_equal_names_are_numbered_in_linear_time() -> None:
    taken = CountingSet()

    names = [unique_path("a.png", taken) for _ in range(1_000)]

    assert names == ["a.png", *(f"a ({number}).png" for number in range(2, 1_001))]
    assert taken.lookups < 50 * len(names)
