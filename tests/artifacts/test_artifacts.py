"""Versions of an artifact: previewed without an origin, compared, linked from their card."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.core import signing
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.artifacts.views import artifacts, previews
from chat.artifacts.views.previews import Ticket, sign
from chat.events import ArtifactUpdate
from chat.models import Artifact, Conversation, Membership, User
from chat.rendering import cards, text_diff
from chat.rendering.text_diff import SHOWN_LINES, compare, count_changes
from tests.support.answers import Answer
from tests.support.stored import rolled_back

pytestmark = pytest.mark.django_db

PAGE = "<h1>Gauge</h1><script>document.title = 'ran'</script>"
SignIn = Callable[[User], Client]


def make(answer: Answer, *contents: str, **fields: Any) -> Artifact:
    """An artifact with a version of each content."""
    fields = {"title": "Gauge", "language": "html", **fields}
    updates = [
        ArtifactUpdate(op="updated", artifact_id="a", content=content, **fields)
        for content in contents
    ]
    answer(*updates)
    return Artifact.objects.get()


def page(client: Client, route: str, *arguments: object) -> str:
    return client.get(reverse(route, args=arguments)).content.decode()


def first_version(client: Client, artifact: Artifact) -> str:
    return page(client, "artifact", artifact.public_id, 1)


def frame_of(html: str) -> dict[str, str]:
    """The attributes of the preview's frame."""
    found = re.search(r"<iframe ([^>]*)>", html)
    assert found
    return {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', found[1])}


# --- previews ----------------------------------------------------------------------------------


def assert_refused(response: HttpResponse) -> None:
    assert response.status_code == 404
    assert b"Gauge" not in response.content
    assert response["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_scripts_run_on_demand_only(alice_client: Client, answer: Answer) -> None:
    artifact = make(answer, PAGE)
    address = reverse("artifact", args=[artifact.public_id, 1])

    quiet = frame_of(alice_client.get(address).content.decode())
    running = frame_of(alice_client.post(address).content.decode())

    assert (quiet["sandbox"], running["sandbox"]) == ("", "allow-scripts")
    for frame, first in ((quiet, "sandbox"), (running, "sandbox allow-scripts")):
        policy = Client().get(frame["src"])["Content-Security-Policy"].split("; ")
        assert policy[0] == first
        assert ("script-src 'none'" in policy) == (frame is quiet)
        own = f"http://testserver{frame['src']}"
        assert f"style-src 'unsafe-inline' {own}" in policy
        assert {"connect-src 'none'", "form-action 'none'", "frame-src 'none'"} <= set(policy)
        assert {"default-src 'none'", "base-uri 'none'"} <= set(policy)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<!doctype html>", "<p>Gauge</p><script>x()</script>"),
        ("\ufeff \n<!-- a --><!DOCTYPE html>", "<script>x()</script>"),
        ("", "<p>No type</p><script>x()</script>"),
        ("", "<!-- " * 2000 + "<script>x()</script>"),
        ("", "<!---->" * 2000 + "<script>x()</script>"),
    ],
    ids=["type", "comment and type", "no type", "open comments", "comments"],
)
def test_running_document_reports_errors_and_keeps_its_type(
    alice_client: Client, answer: Answer, before: str, after: str
) -> None:
    address = reverse("artifact", args=[make(answer, before + after).public_id, 1])

    quiet, running = (
        alice_client.get(frame_of(shown.content.decode())["src"]).content.decode()
        for shown in (alice_client.get(address), alice_client.post(address))
    )

    assert quiet == before + after
    assert running.startswith(f"{before}<script>(() => {{")
    assert running.endswith(f"</script>{after}")


def test_viewer_sees_errors_and_cannot_send_them(
    answer: Answer, viewer: User, bob: User, signed_in: SignIn
) -> None:
    address = reverse("artifact", args=[make(answer, PAGE).public_id, 1])

    pages = [signed_in(person).post(address).content.decode() for person in (viewer, bob)]

    assert ["preview-words" in page for page in pages] == [True, True]
    assert ["Send to chat" in page for page in pages] == [False, True]


def test_document_without_scripts_has_no_run_button(alice_client: Client, answer: Answer) -> None:
    html = first_version(alice_client, make(answer, "<h1>Gauge</h1>"))

    assert "<iframe" in html
    assert "Run</span>" not in html


def test_preview_is_isolated_by_its_headers(alice_client: Client, answer: Answer) -> None:
    frame = frame_of(first_version(alice_client, make(answer, PAGE)))

    response = alice_client.get(frame["src"])

    assert response.content.decode() == PAGE
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in response["Permissions-Policy"]
    assert "X-Frame-Options" not in response
    assert "frame-ancestors http://testserver" in response["Content-Security-Policy"]
    assert not response.cookies
    # Only the files of a bundle need these.
    assert "Access-Control-Allow-Origin" not in response


def test_only_pages_with_previews_may_frame_them(
    alice_client: Client, answer: Answer, conversation: Conversation
) -> None:
    artifact = make(answer, PAGE)
    framing = "frame-src http://testserver/preview/ http://testserver/frames/diagram/"

    for address in (
        reverse("artifact", args=[artifact.public_id, 1]),
        reverse("conversation", args=[conversation.public_id]),
    ):
        assert framing in alice_client.get(address)["Content-Security-Policy"].split("; ")
    assert "frame-src" not in alice_client.get(reverse("home"))["Content-Security-Policy"]


def test_preview_address_is_for_one_person_version_and_ten_minutes(
    alice: User, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = make(answer, PAGE, "<h1>Other</h1>")
    fields = {"kind": "artifact", "public_id": artifact.public_id, "user": alice.public_id}
    address = sign(Ticket(**fields, number=1, runs=False))
    other_address = sign(Ticket(**fields, number=2, runs=False))
    client = Client()
    assert client.get(address).status_code == 200

    signed, other = address.split("/")[2], other_address.split("/")[2]
    content = signing.loads(signed, salt=previews.SALT)
    forged = signing.dumps([*content[:2], 2, *content[3:]], salt="another")
    assert_refused(client.get(f"/preview/{forged}/"))
    # Another ticket under this one's signature.
    assert_refused(client.get(f"/preview/{other.split(':')[0]}:{signed.split(':', 1)[1]}/"))
    assert_refused(client.get(f"{address}index.html"))
    assert_refused(client.get(address, headers={"Sec-Fetch-Dest": "document"}))
    monkeypatch.setattr(previews, "LIFETIME_SECONDS", -1)
    assert_refused(client.get(address))


def test_preview_ends_with_access_to_the_conversation(
    bob: User, answer: Answer, signed_in: SignIn
) -> None:
    frame = frame_of(first_version(signed_in(bob), make(answer, PAGE)))
    assert Client().get(frame["src"]).status_code == 200

    Membership.objects.filter(user=bob).delete()

    assert_refused(Client().get(frame["src"]))


def test_drawing_is_framed(alice_client: Client, answer: Answer) -> None:
    drawing = make(answer, "<svg viewBox='0 0 1 1'></svg>", language="svg")

    html = first_version(alice_client, drawing)
    shown = Client().get(frame_of(html)["src"])

    # The language of the drawing, not that of the page.
    assert "<span>svg</span>" in html
    assert shown["Content-Type"] == "text/html; charset=utf-8"
    assert shown.content.endswith(b"<svg viewBox='0 0 1 1'></svg>")


def test_markdown_needs_no_frame(alice_client: Client, answer: Answer) -> None:
    text = make(answer, "# Tides\n\n<b onclick=x>raw</b>", language="markdown")

    html = first_version(alice_client, text)

    assert "Tides</h1>" in html
    assert "<b onclick" not in html
    assert "<iframe" not in html


def test_diagram_is_drawn_from_its_source(
    alice_client: Client, answer: Answer, subtests: pytest.Subtests
) -> None:
    for fields in (
        {"language": "mermaid"},
        {"language": "Mermaid"},
        {"content_type": "text/vnd.mermaid"},
        {"content_type": "application/vnd.ant.mermaid"},
        {"title": "tides.mmd"},
    ):
        with subtests.test(str(fields)), rolled_back():
            fields = {"language": "", **fields}
            artifact = make(answer, 'graph TD; A["<b onclick=x>"]-->B', **fields)

            html = first_version(alice_client, artifact)

            assert 'class="codeblock diagram"' in html
            assert "&lt;b onclick=x&gt;" in html
            assert "<b onclick" not in html


@pytest.mark.parametrize(
    "fields", [{"language": "python", "title": "mermaid.py"}, {"title": "On mermaids"}], ids=str
)
def test_mention_of_mermaid_is_no_diagram(
    alice_client: Client, answer: Answer, fields: dict[str, str]
) -> None:
    artifact = make(answer, "graph TD; A-->B", **{"language": "", **fields})

    assert "codeblock diagram" not in first_version(alice_client, artifact)


def test_code_is_shown_as_code(alice_client: Client, answer: Answer) -> None:
    html = first_version(alice_client, make(answer, "print(1)", language="python"))

    assert ">Preview<" not in html
    assert "source-code" in html


def test_direction_marks_are_removed_from_title_and_language(
    alice_client: Client, answer: Answer
) -> None:
    artifact = make(answer, "x = 1", title="invoice\u202egpj.exe", language="py\u202e")

    html = first_version(alice_client, artifact)

    assert "invoice" in html
    assert "\u202e" not in html


# --- changes -----------------------------------------------------------------------------------


def test_versions_are_compared_from_older_to_newer(alice_client: Client, answer: Answer) -> None:
    artifact = make(answer, "a\nb\nc\n", "a\nx\nc\n", "a\nx\nc\nd\n", language="text")
    key = artifact.public_id

    last = page(alice_client, "artifact_difference", key, 3)
    all_changes = page(alice_client, "artifact_comparison", key, 1, 3)
    first = page(alice_client, "artifact_difference", key, 1)
    missing = alice_client.get(reverse("artifact_comparison", args=[key, 1, 9]))

    assert changed_lines(last) == [("added", "d")]
    assert changed_lines(all_changes) == [("removed", "b"), ("added", "x"), ("added", "d")]
    assert "this is the first version" in first.lower()
    assert missing.status_code == 404


def changed_lines(html: str) -> list[tuple[str, str]]:
    lines = re.findall(r'<tr class="line-(\w+)">.*?<td class="line-text">(.*?)</td></tr>', html)
    return [(kind, unescape(text)) for kind, text in lines if kind != "same"]


def test_hostile_lines_are_escaped_in_a_comparison(alice_client: Client, answer: Answer) -> None:
    hostile = "</td><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>"
    artifact = make(answer, "a", hostile)

    html = page(alice_client, "artifact_difference", artifact.public_id, 2)

    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\u202e" not in html
    assert "[U+202E]" in html


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("", "a\nb\n", (2, 0)),
        ("a\nb", "a\nb\n", (0, 0)),
        ("a\r\nb", "a\nb", (0, 0)),
        ("a\nb\nc", "a\nc", (0, 1)),
        ("a\nb\nc", "a\nx\ny\nc", (2, 1)),
        ("}\n" * 5, "}\n" * 7, (2, 0)),
        ("", "", (0, 0)),
    ],
)
def test_card_and_page_count_the_same_changes(old: str, new: str, counts: tuple[int, int]) -> None:
    difference = compare(old, new)

    assert count_changes(old, new) == counts
    assert (difference.added, difference.removed) == counts


def test_unchanged_lines_far_from_a_change_are_left_out() -> None:
    old = [str(number) for number in range(100)]
    new = [*old[:10], "x", *old[11:60], "y", *old[60:]]

    hunks = compare("\n".join(old), "\n".join(new)).hunks

    assert [[line.text for line in hunk] for hunk in hunks] == [
        ["7", "8", "9", "10", "x", "11", "12", "13"],
        ["57", "58", "59", "y", "60", "61", "62"],
    ]
    assert (hunks[1][3].old, hunks[1][3].new) == (None, 61)
    assert (hunks[1][4].old, hunks[1][4].new) == (61, 62)


def test_very_different_texts_are_compared_roughly() -> None:
    old = "\n".join(f"line {zlib.crc32(bytes([n % 250, n // 250]))}" for n in range(9_000))
    new = "\n".join(reversed(old.split("\n"))) + "\nmore"

    difference = compare(old, new)

    assert not difference.is_exact
    assert difference.is_cut
    assert sum(len(hunk) for hunk in difference.hunks) == SHOWN_LINES
    assert count_changes(old, new) == (1, 0)


def test_only_shown_lines_of_a_long_change_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[object] = []
    line = text_diff._line
    monkeypatch.setattr(
        text_diff, "_line", lambda *text, **at: laid_out.append(text) or line(*text, **at)
    )
    same = "same\n" * 20_000

    difference = compare(same + "a\n" * 30_000 + same, same + "b\n" * 30_000 + same)

    assert (difference.added, difference.removed, difference.is_cut) == (30_000, 30_000, True)
    assert sum(len(hunk) for hunk in difference.hunks) == SHOWN_LINES
    assert len(laid_out) < 3 * SHOWN_LINES


def test_unchanged_text_of_a_card_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(text_diff, "_lines", lambda text: compared.append(text) or [text])
    card = cards.ArtifactCard("a", 1)

    for seq, title in enumerate("abc", start=1):
        content = "a long text" if seq == 1 else None
        card.update(
            ArtifactUpdate(op="updated", artifact_id="a", title=title, content=content), seq
        )

    assert (card.changes, compared) == ((0, 0), [])


def test_long_versions_are_not_compared(
    alice_client: Client, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "COMPARED_CHARACTERS", 5)
    artifact = make(answer, "short", "a longer text")

    html = page(alice_client, "artifact_difference", artifact.public_id, 2)

    assert "too long to compare" in html
    assert "<table" not in html


# --- from the card to the version --------------------------------------------------------------


def test_event_leads_to_the_version_stored_of_it(alice_client: Client, answer: Answer) -> None:
    make(answer, "1")
    run = answer(
        ArtifactUpdate(op="updated", artifact_id="a", content="2"),
        ArtifactUpdate(op="updated", artifact_id="a", content="3"),
    )
    artifact = Artifact.objects.get()

    response = alice_client.get(reverse("artifact_made", args=[run.public_id, 3]))
    nowhere = alice_client.get(reverse("artifact_made", args=[run.public_id, 1]))

    assert response["Location"] == reverse("artifact", args=[artifact.public_id, 3])
    files = reverse("conversation_files", args=[artifact.conversation.public_id])
    assert nowhere["Location"] == files
