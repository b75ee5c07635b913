"""What the HTML of an answer may contain: the elements, attributes and links of our own code."""

from __future__ import annotations

import re
from functools import cache

import lxml.html

from chat import events
from chat.rendering.markdown import render
from chat.rendering.patches import Answer
from tests.rendering.dom import parse
from tests.rendering.hostile_texts import (
    ATTRIBUTES,
    BAR_ATTRIBUTES,
    ELEMENTS,
    MEDIUM_LINK,
    PRODUCT_LINK,
    everywhere,
)
from tests.rendering.stories import MARKDOWN, RUN, message, numbered

ANSWER_ID = f"r{RUN}"
TAGS = {*ELEMENTS, "hr", "h3", "h4", "h5", "h6"}
OWN_LINK = re.compile(f"^({PRODUCT_LINK.pattern}|{MEDIUM_LINK.pattern}(\\?download)?)$")
# The ids of notes in a text outside of an answer.
NOTE_LINK = re.compile(r"^#?doc-(?:note|ref)\d+(?:-\d+)?$")
HIGHLIGHT = re.compile(r"hl-[a-z-]+")
WEB_LINK = re.compile(r"(https?|mailto):", re.IGNORECASE)

# All of the Markdown that we know, without bad intent.
HARMLESS = (
    "![Picture](https://example.org/picture.png) and a note[^n]\n\n[^n]: Its words.\n\n"
    "$x^2$ and\n\n$$\nx^2\n$$\n\n```mermaid\ngraph TD\n```\n\n" + "> " * 120 + f"deep\n\n{MARKDOWN}"
)
HARMLESS_JSON = '{"a": [1, "b", {"c": [{"d": "https://example.org/"}]}], "e": null, "f": "data:image/png;base64,AAAA"}'


@cache
def classes() -> frozenset[str]:
    """The classes of harmless answers, while they go on and at their end."""
    citation = events.Citation(kind="url", title="S", url="https://example.org/", end=1)
    read = {"arguments": {"url": "https://example.org/"}}
    folded, unfolded = Answer(RUN), Answer(RUN)
    unfolded.unfold()
    trees = [parse(render(HARMLESS))]
    for event in numbered(
        [
            events.ActivityStep(
                family="research", step="read", phase="start", label="R", detail=read
            ),
            events.ToolCallArguments(item=89, tool="t", arguments={"code": "a\nb"}),
            events.ToolCallSuccess(item=90, tool="t", arguments={}, output=HARMLESS_JSON),
            *message("Said.", item=91),
            events.CitationAdd(item=91, citation=citation),
            *everywhere("text"),
        ]
    ):
        folded.apply(event)
        unfolded.apply(event)
        unfolded.unfold()
        trees += [parse(answer.snapshot()) for answer in (folded, unfolded)]
    found = [e.attributes.get("class", "") for tree in trees for e in tree.elements()]
    return frozenset(name for value in found for name in value.split())


def problems_in(html: str) -> list[str]:
    """What does not belong into this HTML, as a lenient parser reads it."""
    source = f"<!doctype html><html><body><div>{html}".encode("utf-8", "replace")
    document = lxml.html.document_fromstring(source, parser=lxml.html.HTMLParser(encoding="utf-8"))
    # Everything, also what would leave the element that it was put into.
    _html, _body, _div, *elements = document.iter()
    found = []
    for element in elements:
        if not isinstance(element.tag, str) or element.tag not in TAGS:
            found.append(f"tag {element.tag}")
            continue
        found += [
            f"attribute {name}={value!r} of {element.tag}"
            for name, value in element.attrib.items()
            if not is_allowed(element, name, value)
        ]
        if element.tag == "a" and not is_safe_anchor(element):
            found.append(f"link {dict(element.attrib)}")
    return found


def is_allowed(element: lxml.html.HtmlElement, name: str, value: str) -> bool:
    if name in BAR_ATTRIBUTES:
        return element.tag in ("svg", "rect") and bool(re.fullmatch(BAR_ATTRIBUTES[name], value))
    if name not in ATTRIBUTES:
        return False
    if name == "id":
        return ANSWER_ID in value or NOTE_LINK.match(value) is not None
    if name == "class":
        return all(one in classes() or HIGHLIGHT.fullmatch(one) for one in value.split())
    if name == "src":
        pattern = MEDIUM_LINK if element.tag == "audio" else re.compile("data:image/.*", re.DOTALL)
        return pattern.fullmatch(value) is not None
    if name == "href" and element.tag != "a":
        return is_own_link(value)
    return True


def is_own_link(href: str) -> bool:
    return (
        href.startswith(("/static/icons.svg#", f"#{ANSWER_ID}-"))
        or OWN_LINK.match(href) is not None
        or NOTE_LINK.match(href) is not None
    )


def is_safe_anchor(anchor: lxml.html.HtmlElement) -> bool:
    """Leads to our own parts of the answer, or to the web without access to our page."""
    href = anchor.get("href")
    if href is None or is_own_link(href):
        return True
    rel = anchor.get("rel", "").split()
    return (
        WEB_LINK.match(href) is not None
        and {"noopener", "noreferrer"} <= set(rel)
        and anchor.get("target") == "_blank"
    )
