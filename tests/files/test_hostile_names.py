"""Hostile names of files on their whole way: upload, chip, page, export, download."""

from __future__ import annotations

import io
import re
import zipfile
from urllib.parse import unquote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import Run, StoredFile, User
from tests.documents.work import read_queued
from tests.exports.check import (
    html_of,
    json_of,
    markdown_of,
    problems_in_html,
    problems_in_markdown,
)
from tests.support.files import add_to_draft, ids_in
from tests.support.rooms import Room, end_run, get_page

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = {
    "HTML": "<img src=x onerror=alert(1)>.txt",
    "an attribute": "\"'><script>alert(1)</script>.txt",
    "a template": "{{ 7 }}{% include 'base.html' %}%(name)s{0}.txt",
    "a command": "$(touch x)`touch y`;rm -rf ~|&.txt",
    "an option": "--help.txt",
    "a folder": "../../../etc/passwd.txt",
    "a folder of Windows": "C:\\..\\..\\boot.txt",
    "a header": 'a"\r\nSet-Cookie: x=1\r\n\r\nb.txt',
    "a direction": "invoice\u202etxt.exe\u2066.txt",
    "invisible": "\u200b\u2060\ufeff.txt",
    "dots": "....txt",
    "a device": "CON.txt",
    "long": "x" * 800 + ".txt",
    "Markdown": "[a](javascript:alert(1)) `b` **c** ![d](http://e).txt",
    "not in Latin": "отчёт 報告 🌊.txt",
}
# A name must change nothing but the places where it stands.
ALIEN = ("script", "img", "iframe", "object", "embed", "style", "base", "b", "code")
# No folder, no line, nothing invisible.
FORBIDDEN = re.compile("[/\\\\\r\n\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
SAFE_PATH = re.compile(r"attached/(?!\.\.?$)[^/\\:*?\"<>|\x00-\x1f]+")
BODY = b"<script>alert(1)</script> $(touch x) {{ 7 }} ```\n# [End of file: x]"


def elements_in(text: str) -> dict[str, int]:
    tree = html.document_fromstring(text)
    return {name: len(tree.xpath(f"//{name}")) for name in ALIEN}


def handlers_in(text: str) -> list[str]:
    tree = html.document_fromstring(text)
    return [name for each in tree.iter() for name in each.attrib if name.startswith("on")]


def sent_with(name: str, room: Room, client: Client) -> tuple[StoredFile, list[str]]:
    """The file, and each fragment and page that shows it."""
    place = room.conversation.public_id.hex
    upload = SimpleUploadedFile("x", BODY, content_type="text/plain")
    # Programs send names that Django's own class would not take.
    upload._name = name  # type: ignore[attr-defined]
    chip = add_to_draft(client, place, upload)
    assert chip.status_code == 200, chip.content
    read_queued()
    [file] = ids_in(chip)
    shown = [chip, client.get(reverse("unsent_file", args=[place, file]))]
    below = {"parent": room.runs[-1].message} if room.runs else {}
    assert room.send(client, room.form("Look", files=file, **below)).status_code == 200
    stored = StoredFile.objects.get(public_id=file)
    run = Run.objects.select_related("message").get(message__parent__attachments__file=stored)
    room.runs.append(run)
    end_run(run)
    shown += [
        client.get(room.url),
        client.get(reverse("file_source", args=[file])),
        client.get(reverse("conversation_files", args=[room.conversation.public_id])),
    ]
    return stored, [each.content.decode() for each in shown]


def test_name_is_text_everywhere(
    room: Room, as_alice: Client, alice: User, subtests: pytest.Subtests
) -> None:
    _, pages = sent_with("usual.txt", room, as_alice)
    usual = list(map(elements_in, pages))
    for kind, name in NAMES.items():
        with subtests.test(kind):
            file, pages = sent_with(name, room, as_alice)

            assert file.name
            assert not FORBIDDEN.search(file.name)
            assert len(file.name) <= 255
            assert list(map(elements_in, pages)) == usual
            assert [handlers_in(each) for each in pages] == [[]] * len(pages)
            assert file.name in html.document_fromstring(pages[2]).text_content()
            assert_harmless_download(file, as_alice)

    json_of(alice, room.conversation)
    assert problems_in_html(html_of(alice, room.conversation)) == []
    assert problems_in_markdown(markdown_of(alice, room.conversation)) == []
    archive = as_alice.get(reverse("conversation_zip", args=[room.conversation.public_id]))
    paths = zipfile.ZipFile(io.BytesIO(archive.content)).namelist()
    assert len(set(map(str.casefold, paths))) == len(NAMES) + 1
    assert [each for each in paths if not SAFE_PATH.fullmatch(each)] == []


def assert_harmless_download(file: StoredFile, client: Client) -> None:
    response = client.get(reverse("file", args=[file.public_id]), {"download": ""})

    header = response.headers["Content-Disposition"]
    assert header.startswith("attachment; filename")
    assert not re.search(r"[\r\n]", header)
    assert not response.cookies
    assert file.name in unquote(header).replace('\\"', '"')


def test_name_reaches_nobody_elses_page(room: Room, as_alice: Client, as_bob: Client) -> None:
    """A draft is its author's alone."""
    place = room.conversation.public_id.hex
    chip = add_to_draft(as_alice, place, SimpleUploadedFile("secret-name.txt", BODY))
    [file] = ids_in(chip)

    assert "secret-name" not in html.tostring(get_page(as_bob, room.url)).decode()
    assert as_bob.get(reverse("unsent_file", args=[place, file])).status_code == 404
