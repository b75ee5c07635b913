"""A page that takes the patches of one run, fast enough for hundreds of streams.

`tests.rendering.dom` is the strict one; this one only wants the text, whole and in order.
"""

from lxml import etree, html


class Page:
    """The answer of a run and its phase strip, as they are in ``rendered``."""

    def __init__(self, run: str, rendered: str) -> None:
        self._elements: dict[str, etree._Element] = {}
        page = html.fragment_fromstring(rendered, create_parent="div")
        for name in (f"r{run}", f"p{run}"):
            found = page.xpath(f"//*[@id='{name}']")
            self._know(found[0] if found else html.Element("div", id=name))
        self._answer = self._elements[f"r{run}"]

    def _know(self, element: etree._Element) -> None:
        for one in element.iter():
            if name := one.get("id"):
                self._elements[name] = one

    def apply(self, content: str) -> None:
        """Raises ``KeyError`` for a patch whose target is not there."""
        partials = list(html.fragment_fromstring(content, create_parent="div"))
        # All targets are looked up before the first change, as htmx does.
        targets = [self._target(one.get("hx-target").removeprefix("#")) for one in partials]
        for target, one in zip(targets, partials, strict=True):
            if one.get("hx-swap") != "beforeend":
                self._empty(target)
            self._append(target, one)

    def _target(self, selector: str) -> etree._Element:
        """By its id, and how often ``> :last-child`` follows."""
        id, *steps = selector.split(" > ")
        found = self._elements[id]
        for _ in steps:
            found = found[-1]
        return found

    def _empty(self, target: etree._Element) -> None:
        for element in target.iterdescendants():
            self._elements.pop(element.get("id", ""), None)
        for child in list(target):
            target.remove(child)
        target.text = None

    def _append(self, target: etree._Element, partial: etree._Element) -> None:
        if partial.text:
            if len(target):
                target[-1].tail = (target[-1].tail or "") + partial.text
            else:
                target.text = (target.text or "") + partial.text
        for child in list(partial):
            target.append(child)
            self._know(child)

    def text(self) -> str:
        return "".join(self._answer.itertext())
