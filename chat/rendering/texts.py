"""Messages, refusals and reasoning: Markdown that grows, and what is said around it."""

from typing import ClassVar

from django.utils.safestring import SafeString

from chat.events import Citation
from chat.rendering import figures
from chat.rendering.anatomy import SHOWN_ENTRIES, Entry, TextSlot, fill, name_of
from chat.rendering.flow import Flow
from chat.rendering.markdown import host_of, is_safe_link


class Text(Entry):
    """A message: Markdown, and the sources that it cites."""

    kind: ClassVar[str] = "message"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq)
        self.phase = ""
        self.is_open = True
        self.flow = Flow(id, seq)
        self.cites = TextSlot(f"{id}-cites", seq, classes="citations")
        self.sources: list[dict[str, str]] = []
        self.citations = 0
        self.hold(self.flow, self.cites)

    def frame(self, contents: list[SafeString]) -> str:
        return fill("message", id=self.id, phase=self.phase, flow=contents[0], cites=contents[1])

    def add(self, text: str, seq: int, t: int = 0) -> None:
        self.flow.feed(text, seq)

    def end(self, seq: int, t: int = 0) -> None:
        if self.is_open:
            self.is_open = False
            self.flow.end(seq)

    def cite(self, citation: Citation, seq: int) -> None:
        self.citations += 1
        if self.citations <= SHOWN_ENTRIES:
            self.sources.append(_source(citation))
        more = self.citations - len(self.sources)
        self.cites.show("citations", sources=self.sources, total=self.citations, more=more)
        self.cites.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        self.end(seq, t)


def _source(citation: Citation) -> dict[str, str]:
    url = citation.url if citation.url and is_safe_link(citation.url) else ""
    title = citation.title or host_of(url) or citation.url or citation.kind
    return {
        "url": url,
        "title": name_of(title),
        "host": name_of(host_of(url)),
        "text": name_of(citation.cited_text or ""),
    }


class Refusal(Text):
    """A refusal: Markdown in a card that names the category, once it is known."""

    kind = "refusal"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq, t=t)
        self.head = TextSlot(f"{id}-head", seq, classes="card-line")
        self.head.show("refusal_head", category="")
        self.hold(self.head, self.flow, self.cites)

    def name_category(self, category: str | None, seq: int) -> None:
        if category:
            self.head.show("refusal_head", category=name_of(category).replace("_", " "))
            self.head.touch(seq)

    def frame(self, contents: list[SafeString]) -> str:
        head, flow, cites = contents
        return fill("refusal", id=self.id, head=head, flow=flow, cites=cites)


class Reasoning(Text):
    """Thinking: a fold whose head says how long it went on."""

    kind = "reasoning"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq, t=t)
        self.started_t = self.last_t = t
        self.reasoning_kind = "full"
        self.head = TextSlot(f"{id}-head", seq, tag="summary")
        self.aside = TextSlot(f"{id}-aside", seq, classes="aside")
        self.hold(self.head, self.aside, self.flow, self.cites)
        self._show_head()

    def name_kind(self, kind: str, seq: int) -> None:
        self.reasoning_kind = kind
        self.aside.show("reasoning_aside", kind=kind)
        self.aside.touch(seq)
        self._show_head()
        self.head.touch(seq)

    def frame(self, contents: list[SafeString]) -> str:
        head, aside, flow, cites = contents
        return fill("reasoning", id=self.id, head=head, aside=aside, flow=flow, cites=cites)

    def add(self, text: str, seq: int, t: int = 0) -> None:
        super().add(text, seq, t)
        before, self.last_t = self.last_t, max(t, self.last_t)
        # The running time changes once a second, however many deltas there are.
        if (self.last_t - self.started_t) // 1000 != (before - self.started_t) // 1000:
            self._show_head()
            self.head.touch(seq)

    def end(self, seq: int, t: int = 0) -> None:
        if not self.is_open:
            return
        super().end(seq, t)
        self.last_t = max(t, self.last_t)
        self._show_head()
        self.head.touch(seq)

    def _words(self) -> str:
        words = 0 if self.is_open else self.flow.words()
        return figures.count(words) if words else ""

    def _show_head(self) -> None:
        milliseconds = self.last_t - self.started_t
        self.head.show(
            "reasoning_head",
            is_live=self.is_open,
            kind=self.reasoning_kind,
            since=str(self.started_t),
            milliseconds=str(milliseconds),
            elapsed=figures.elapsed(milliseconds),
            duration=figures.duration(milliseconds) if milliseconds else "",
            words=self._words(),
        )
