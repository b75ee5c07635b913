"""What every exported file must be: JSON that its schema accepts, Markdown and HTML that do nothing."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import lxml.html
import msgspec
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from chat.exports.format import Export
from chat.exports.html_form import write_html
from chat.exports.json_form import write_json
from chat.exports.markdown_form import write_markdown
from chat.exports.reading import read_source
from chat.models import Conversation, User

SCHEMA = Path(__file__).parents[2] / "docs" / "export-format.schema.json"
ADDRESS = re.compile(r"url\((?!\s*[\"']?data:)|@import\b", re.IGNORECASE)
FORBIDDEN = {
    *("script", "link", "iframe", "object", "embed", "base", "form", "button", "audio", "video"),
    *("source", "textarea", "select", "template", "hx-partial"),
}


@cache
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def json_of(reader: User, conversation: Conversation) -> Export:
    """The exported file, which its schema accepts."""
    body = b"".join(write_json(read_source(reader, conversation)))
    assert [error.message for error in validator().iter_errors(json.loads(body))] == []
    return msgspec.json.decode(body, type=Export)


def html_of(reader: User, conversation: Conversation) -> str:
    return b"".join(write_html(read_source(reader, conversation))).decode()


def markdown_of(reader: User, conversation: Conversation, **options: bool) -> str:
    return b"".join(write_markdown(read_source(reader, conversation), **options)).decode()


def problems_in_html(text: str) -> list[str]:
    """What runs, is loaded, or leads to a page of ours."""
    document = lxml.html.document_fromstring(text)
    found = []
    for element in document.iter(lxml.html.etree.Element):
        name = str(element.tag).rpartition("}")[2]
        found += [name] if name in FORBIDDEN else []
        for attribute, value in element.attrib.items():
            found += _problem_of(name, attribute.rpartition("}")[2], value.strip())
    styles = "".join(document.xpath("//style/text()"))
    return found + ADDRESS.findall(styles)


def _problem_of(tag: str, attribute: str, value: str) -> list[str]:
    is_web_link = tag == "a" and re.match("https?:|mailto:", value, re.IGNORECASE)
    is_fine = {
        "href": bool(is_web_link) or value.startswith("#"),
        "src": value.startswith("data:image/"),
        "http-equiv": value == "Content-Security-Policy",
    }.get(attribute)
    is_active = attribute.startswith(("on", "hx-", "data-")) or attribute in (
        *("style", "srcset", "action", "formaction", "background", "poster", "ping", "srcdoc"),
    )
    return [f"{tag} {attribute}={value[:80]}"] if is_active or is_fine is False else []


def problems_in_markdown(text: str) -> list[str]:
    """Tags, pictures and unsafe links for a renderer that allows everything."""
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": 500}).enable("table")
    parser.validateLink = lambda url: True
    tokens = parser.parse(text)
    tokens = [each for token in tokens for each in (token, *(token.children or ()))]
    unsafe = re.compile(r"\s*(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
    return [
        f"{token.type} {token.content} {token.attrs}"
        for token in tokens
        if token.type in ("html_block", "html_inline", "image")
        or unsafe.match(str(token.attrs.get("href", "")))
    ]
