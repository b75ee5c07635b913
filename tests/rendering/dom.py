"""A strict HTML tree, and a page in it that applies patches the way htmx does."""

import re
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "use"}
# Server processes name the icons as they were built; in the tests' own process nothing is built.
HASHED_SPRITE = re.compile(r"/static/icons\.[0-9a-f]{12}\.svg(?=#)")
SPRITE = "/static/icons.svg"


@dataclass(eq=False)
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)

    def add(self, *nodes: "Element | str") -> None:
        """Joins adjacent texts, as readers see them."""
        for node in nodes:
            if isinstance(node, str) and self.children and isinstance(self.children[-1], str):
                self.children[-1] += node
            elif node:
                self.children.append(node)

    def elements(self) -> list["Element"]:
        """This one and all below it."""
        found = [self]
        for child in self.children:
            if isinstance(child, Element):
                found += child.elements()
        return found

    def find(self, id: str) -> "Element | None":
        if self.attributes.get("id") == id:
            return self
        found = (child.find(id) for child in self.children if isinstance(child, Element))
        return next((element for element in found if element is not None), None)

    def find_all(self, tag: str = "", class_: str = "") -> list["Element"]:
        return [
            element
            for element in self.elements()
            if (not tag or element.tag == tag)
            and (not class_ or class_ in element.attributes.get("class", "").split())
        ]

    def ids(self) -> list[str]:
        return [e.attributes["id"] for e in self.elements() if "id" in e.attributes]

    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text().split())

    def inner(self) -> str:
        """The canonical form: attributes sorted, everything escaped one way."""
        return "".join(
            escape(child) if isinstance(child, str) else child.outer() for child in self.children
        )

    def outer(self) -> str:
        attributes = "".join(
            f' {name}="{escape(value)}"' for name, value in sorted(self.attributes.items())
        )
        end = "" if self.tag in VOID else f"{self.inner()}</{self.tag}>"
        return f"<{self.tag}{attributes}>{end}"


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: HASHED_SPRITE.sub(SPRITE, value or "") for name, value in attrs}
        element = Element(tag, values)
        self.open[-1].add(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            opened = self.open.pop()
            assert opened.tag == tag, f"</{tag}> closes <{opened.tag}>"

    def handle_data(self, data: str) -> None:
        self.open[-1].add(data)


def parse(html: str) -> Element:
    """Fails unless every element is closed in order."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert builder.open == [builder.root], f"left open: {[one.tag for one in builder.open]}"
    return builder.root


class Page:
    """The two elements of a run on a page."""

    def __init__(self, run_id: str, snapshot: str = "", phase: str = "") -> None:
        self.root = parse(f'<div id="r{run_id}">{snapshot}</div><div id="p{run_id}">{phase}</div>')
        self.answer = self._get(f"r{run_id}")
        self.strip = self._get(f"p{run_id}")

    def _get(self, selector: str) -> Element:
        """The element with an id, or the last child below it: ``id > :last-child``."""
        id, *steps = selector.split(" > ")
        found = self.root.find(id)
        assert found is not None, f"no element #{id}"
        for _ in steps:
            found = [child for child in found.children if isinstance(child, Element)][-1]
        return found

    def apply(self, frame: str) -> None:
        """Looks up all targets first, then changes them."""
        partials = parse(frame).children
        tasks = []
        for one in partials:
            assert isinstance(one, Element), f"text outside a partial: {one!r}"
            assert one.tag == "hx-partial"
            target = one.attributes["hx-target"].removeprefix("#")
            tasks.append((self._get(target), one.attributes["hx-swap"], one.children))
        for target, swap, nodes in tasks:
            if swap in ("innerHTML", "innerMorph"):
                target.children = []
            else:
                assert swap == "beforeend", swap
            target.add(*nodes)

    def state(self) -> tuple[str, str]:
        ids = self.root.ids()
        assert len(ids) == len(set(ids)), "an id is there twice"
        answer, strip = (
            HASHED_SPRITE.sub(SPRITE, one.inner()) for one in (self.answer, self.strip)
        )
        return answer, strip
