"""What the elements of an answer have in common: templates, excerpts, frames around parts."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from uuid import UUID

from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe

from chat.events import Json
from chat.rendering import figures
from chat.rendering.markdown import code_block
from chat.rendering.parts import Part, Patches, Piece, Slot
from chat.rendering.safety import reveal, storable

# A card shows this much of arguments, results and files; the run's details have the rest.
SHOWN_CHARACTERS = 32_000
# More than this inside a fold is not in the page before the fold is opened.
INLINE_CHARACTERS = 4_000
# And so many of a list's entries: a list is sent anew whenever one is added.
SHOWN_ENTRIES = 200


@cache
def _template(name: str) -> Callable[[dict[str, object]], str]:
    return get_template(f"rendering/{name}.html").render


def fill(name: str, /, **context: object) -> SafeString:
    """One of the templates in ``templates/rendering/``; whatever is not marked safe is escaped."""
    return mark_safe(_template(name)(context).strip())  # noqa: S308


def safe(html: str) -> SafeString:
    """HTML that one of our renderers made."""
    return mark_safe(html)  # noqa: S308


def name_of(text: str) -> str:
    """A name or title that came from outside: one line, nothing hidden in it."""
    return " ".join(reveal(storable(text)).split())


def pretty(value: Json, indent: int | None = 2) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        return "(nested too deeply to be shown here; the run's details have it)"


def excerpt(text: str, language: str = "") -> SafeString:
    """Text as a code block, cut where a card would become a burden; the cut is told."""
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
    """One element in the order of the answer: a fixed frame around parts that change."""

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.parts: list[Part] = []

    def frame(self, contents: list[SafeString]) -> str:
        """The element around its parts' HTML, given in the order of `parts`."""
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
        """The run has ended; whatever is still open will not go on. The status is that of the
        result, or ``paused`` where another run goes on with it."""


class Card(Slot):
    """An entry that is small enough to be replaced as a whole."""

    classes = "item card"

    def conclude(self, seq: int, t: int, status: str) -> None:
        """Nothing of a card stays open."""


class Foldable(Part):
    """A part inside a fold: what is large comes only when somebody opens the fold."""

    # Where nobody can ask for it later (the pages of the administration), it stands in the page.
    is_inline = False

    def whole(self) -> SafeString:
        """What is inside its element when the fold is open."""
        raise NotImplementedError

    def later(self, words: str) -> SafeString:
        """What stands there before: the page asks for the rest when the fold opens."""
        run = UUID(self.id[1:33])
        return fill("later", address=f"/r/{run}/part/{self.id}/", words=words)


class TextSlot(Slot):
    """A slot whose content somebody else computes."""

    def __init__(self, id: str, seq: int, *, tag: str = "div", classes: str = "") -> None:
        super().__init__(id, seq)
        self.tag = tag  # type: ignore[misc]
        self.classes = classes  # type: ignore[misc]
        self.template = ""
        self.context: dict[str, object] = {}

    def show(self, template: str, /, **context: object) -> None:
        self.template = template
        self.context = context

    def content(self) -> str:
        return fill(self.template, **self.context) if self.template else ""


class FoldedSlot(Foldable, TextSlot):
    """A slot inside a fold. `show` may be given values as functions, which are called when it is
    looked at; ``size`` says how much there is to look at, in characters."""

    size = 0
    words = ""

    def whole(self) -> SafeString:
        return safe(super().content())

    def content(self) -> str:
        is_large = self.size > INLINE_CHARACTERS and not self.is_inline
        return self.later(self.words) if is_large else self.whole()
