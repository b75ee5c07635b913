"""Base classes and helpers of an answer's elements: templates, excerpts, entries, folds."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from uuid import UUID

from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from chat.events import Json
from chat.rendering import figures
from chat.rendering.markdown import code_block
from chat.rendering.parts import Part, Patches, Piece, Slot
from chat.rendering.safety import reveal, storable

# A card shows this much of arguments, results and files; the run's details show all.
SHOWN_CHARACTERS = 32_000
# Larger content of a fold is loaded when the fold is opened.
INLINE_CHARACTERS = 4_000
# Lists show this many entries, because a list is sent again with every new entry.
SHOWN_ENTRIES = 200


@cache
def _template(name: str) -> Callable[[dict[str, object]], str]:
    return get_template(f"rendering/{name}.html").render


def fill(name: str, /, **context: object) -> SafeString:
    """One of the templates in ``templates/rendering/``; everything that is not marked safe is escaped."""
    return mark_safe(_template(name)(context).strip())  # noqa: S308


def safe(html: str) -> SafeString:
    """Marks HTML that a renderer has made as safe."""
    return mark_safe(html)  # noqa: S308


def name_of(text: str) -> str:
    """A name or title from outside as one line without invisible characters."""
    return " ".join(reveal(storable(text)).split())


def pretty(value: Json, indent: int | None = 2) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        return gettext("(nested too deeply to show here; see Run details)")


def more_note(count: int) -> SafeString:
    """A note with the number of entries that are not shown; empty without any."""
    return fill("more", more=count, more_shown=figures.count(count)) if count > 0 else safe("")


def excerpt(text: str, language: str = "") -> SafeString:
    """Text as a code block, cut at the limit of a card with a note that it was cut."""
    text = reveal(storable(text))
    html = code_block(text[:SHOWN_CHARACTERS], language)
    if len(text) <= SHOWN_CHARACTERS:
        return safe(html)
    return safe(
        html + fill("cut", shown=figures.count(SHOWN_CHARACTERS), total=figures.count(len(text)))
    )


def excerpt_of_json(value: Json) -> SafeString:
    return excerpt(pretty(value), "json")


def output_excerpt(text: str) -> SafeString:
    """A tool's output: pretty-printed if it is a JSON object or list, else as it is."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= SHOWN_CHARACTERS:
        try:
            return excerpt_of_json(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return excerpt(text)


class Entry(Part):
    """One element of the answer in order: a fixed frame around parts that change."""

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.parts: list[Part] = []

    def frame(self, contents: list[SafeString]) -> str:
        """The element around the HTML of its parts, in the order of `parts`."""
        raise NotImplementedError

    def html(self) -> str:
        return self.frame([safe(part.html()) for part in self.parts])

    def shell(self) -> str:
        return self.frame([safe(part.shell()) for part in self.parts])

    def pieces(self) -> Iterator[Piece]:
        for part in self.parts:
            yield from part.pieces()

    def patch(self, since: int, patches: Patches) -> None:
        for part in self.parts:
            if part.changed_seq > since:
                part.patch(since, patches)

    def hold(self, *parts: Part) -> None:
        self.parts = list(parts)
        for part in parts:
            part.parent = self

    def conclude(self, seq: int, t: int, status: str) -> None:
        """The run has ended, so open parts stay as they are. ``status`` is that of the result, or ``paused``
        if another run continues the answer."""


class Card(Slot):
    """A small entry, which is replaced as a whole."""

    classes = "item card"

    def conclude(self, seq: int, t: int, status: str) -> None:
        """Cards have no open parts."""


class Foldable(Part):
    """A part inside a fold. Large content is loaded when the fold is opened."""

    # Pages of the administration cannot load it later, so they contain it.
    is_inline = False

    def whole(self) -> SafeString:
        """The content of the element in an open fold."""
        raise NotImplementedError

    def later(self, words: str) -> SafeString:
        """The placeholder in a closed fold, which loads the content when the fold is opened."""
        run = UUID(self.id[1:33])
        return fill("later", address=f"/r/{run}/part/{self.id}/", words=words)


class TextSlot(Slot):
    """A slot whose content is set from outside."""

    def __init__(self, id: str, seq: int, *, tag: str = "div", classes: str = "") -> None:
        super().__init__(id, seq)
        self.tag = tag  # type: ignore[misc]
        self.classes = classes  # type: ignore[misc]
        self.template = ""
        self.context: dict[str, object] = {}

    def set_content(self, template: str, /, **context: object) -> None:
        self.template = template
        self.context = context

    def content(self) -> str:
        return fill(self.template, **self.context) if self.template else ""


class FoldedSlot(Foldable, TextSlot):
    """A slot inside a fold. `set_content` takes values or functions, which are called when the content is needed;
    ``size`` is the length of the content in characters."""

    size = 0
    words = ""

    def whole(self) -> SafeString:
        return safe(super().content())

    def content(self) -> str:
        is_large = self.size > INLINE_CHARACTERS and not self.is_inline
        return self.later(self.words) if is_large else self.whole()
