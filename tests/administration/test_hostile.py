"""Hostile text in any record stays text on every page of the administration."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from lxml import html

from chat.models import User
from tests.administration.hostile import HOSTILE, list_urls, plant, row_urls
from tests.administration.pages import text_of
from tests.support.reasons import give_reasons
from tests.support.selection import sample

# The frame's own, which do nothing by themselves.
OWN_ATTRIBUTES = {
    *(("body", "hx-headers:inherited"), ("article", "hx-ignore")),
    # The field of the palette, into which nobody has put anything.
    *(("input", f"hx-{name}") for name in ("get", "trigger", "target", "swap", "sync")),
}
OWN_TAGS = {"script", "link", "meta", "style", "iframe", "object", "embed", "base", "form", "img"}


def test_hostile_text_is_inert_on_every_page(
    admin_client: Client, administrator: User, subtests: pytest.Subtests
) -> None:
    rows = [row for text in HOSTILE for row in plant(text)]
    give_reasons(administrator)
    per_text = len(rows) // len(HOSTILE)
    shown = [
        row
        for start in sample(range(0, len(rows), per_text), 3)
        for row in rows[start : start + per_text]
    ]

    for url in [*list_urls(rows), *row_urls(shown)]:
        with subtests.test(url):
            assert dangers(text_of(admin_client, url)) == []


def dangers(page: str) -> list[str]:
    """What a browser would run, load or send because of somebody else's text."""
    document = html.document_fromstring(page)
    found = []
    for element in document.iter(html.etree.Element):
        found += [
            f"{element.tag} {name}"
            for name, value in element.attrib.items()
            if (element.tag, name) not in OWN_ATTRIBUTES
            and (name.startswith(("on", "hx-", "data-hx")) or name in ("style", "srcdoc"))
        ]
        found += [
            f"{element.tag} {name}={value}"
            for name, value in element.attrib.items()
            if name in ("href", "src", "action", "formaction", "xlink:href")
            and not _is_our_address(element.tag, value)
        ]
        if element.tag in OWN_TAGS and (element.text or "").strip():
            found.append(f"{element.tag}: {element.text[:60]}")
        if element.tag == "meta" and element.get("http-equiv"):
            found.append("meta refresh")
        if element.tag in ("iframe", "object", "embed", "base", "style"):
            found.append(element.tag)
    return found


def _is_our_address(tag: str, value: str) -> bool:
    if tag == "a" and re.match(r"https?://", value):
        return True  # a link in an answer: followed only by a click
    return value.startswith(("/", "?", "#", ".")) and not value.startswith("//")


@pytest.mark.parametrize(
    "text", ["<script>x</script>", "<img src=x onerror=y>", '<a href="javascript:x">y</a>']
)
def test_dangerous_markup_is_detected(text: str) -> None:
    assert dangers(f"<html><body>{text}</body></html>")
