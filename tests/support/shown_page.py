"""The page of a conversation in one person's browser, as its scripts keep it (`static/conversations/`): it
applies the server's patches, and says what it shows."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpResponse
from django.test import Client
from lxml import html

from chat.conversations.page_updates import PageReader, PageUpdate, render_updates
from chat.message_queue.channel import QueueReader, render_queue
from chat.models import Conversation, User
from tests.support.rooms import HTMX, url_of

PARTS = ("room-head", "earlier", "turns", "strip", "queue", "composer-slot")
# Values of one rendering, what live frames bring, what only an action of this page has brought, and the models that its
# reader has used, which each new page reads.
OWN_VALUES = ("csrfmiddlewaretoken", "key")
OWN_ATTRIBUTES = (
    *("data-seq", "data-check", "data-live", "aria-busy", "data-worded", "data-sent", "data-state"),
    *("data-elapsed-ms", "data-fresh", "data-recent", "autofocus", "tabindex"),
)


def has_class(name: str) -> str:
    return f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')"


OF_TURN = f"./*[{has_class('runs')}]/*[{has_class('answer')}]"
ANSWERS = f"{OF_TURN} | .//*[{has_class('column')}]/*[{has_class('runs')}]/*[{has_class('answer')}]"
LIVE = " or ".join(map(has_class, ("answer", "phase", "place")))
OF_ACTIONS = "contains(@id, '-note')"


class ShownPage:
    """``number`` counts its states; an update is made for one of them."""

    def __init__(self, client: Client, user: User, room: Conversation) -> None:
        self.client, self.user, self.room = client, user, room
        self.is_gone = self.has_lost = False
        self.reload()

    def reload(self) -> None:
        response = self.client.get(url_of("conversation", self.room))
        assert response.status_code in (200, 404)
        self.is_gone = response.status_code == 404
        if not self.is_gone:
            self._tree = html.fromstring(response.content.decode())
            self.revision = int(self._by_id("room").get("data-revision"))

    def _by_id(self, id: str) -> Any:
        return self._tree.get_element_by_id(id, None)

    def find(self, path: str) -> list[Any]:
        return [] if self.is_gone else self._tree.xpath(path)

    # --- what it says -------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        return self._by_id("composer") is not None

    @property
    def is_pinned(self) -> bool:
        return bool(self.find("//*[@id='room-head']//form[contains(@action, '/unpin/')]"))

    def state(self) -> dict[str, Any]:
        turns = self._by_id("turns")
        shown = list(turns)
        open_footers = turns.xpath(".//footer[@data-open]")
        open_turns = [
            turn for turn in shown if turn is shown[-1] or turn.xpath("./footer[@data-open]")
        ]
        answers = [each for turn in open_turns for each in turn.xpath(ANSWERS)]
        return {
            "first": shown[0].get("data-turn", "") if shown else "",
            "tail": shown[-1].get("data-turn", "") if shown else "",
            "revision": self.revision,
            "open": [footer.get("id")[1:] for footer in open_footers],
            "strip": self._mark("//*[@id='strip']"),
            "action": self._mark("//*[@id='composer-action']"),
            "tools": self._mark("//*[@id='tools-count']"),
            "runs": {each.get("data-run"): self._asks_of(each) for each in answers},
            "asks": {
                line.get("data-ask"): line.get("data-mark") for line in turns.find_class("ask-line")
            },
            "head": self._mark("//*[@id='room-head']//*[@data-mark]"),
            "writes": self.writes,
            "is_behind": bool(turns.find_class("newer")),
            "compares": bool(shown) and "compared-turn" in shown[-1].get("class"),
        }

    def _mark(self, path: str) -> str:
        found = self.find(path)
        return found[0].get("data-mark", "") if found else ""

    def _asks_of(self, answer: Any) -> int:
        asks = self._by_id(f"asks-{answer.get('data-run')}")
        return 0 if asks is None else len(asks.xpath(f"./*[{has_class('ask')}]"))

    @property
    def headers(self) -> dict[str, str]:
        number = self.find("//*[@id='turns']/*[last()]/@data-number")
        position = {**self.state(), "number": int(number[0]) if number else 0, "lines": 0}
        return {**HTMX, "X-Room-Position": json.dumps(position)}

    # --- what it is sent --------------------------------------------------------------------

    def post(self, url: str, *, is_lost: bool = False, **data: object) -> HttpResponse:
        """``is_lost``: the response does not arrive."""
        response = self.client.post(url, data, headers=self.headers)
        assert response.status_code < 500, response.content
        if is_lost:
            self.has_lost = True
        else:
            self._take(response)
        return response

    def pull(self) -> None:
        """Requests its changes, as it also does some time after it has lost a response."""
        self.has_lost = False
        if not self.is_gone:
            self._take(
                self.client.get(url_of("conversation_changes", self.room), headers=self.headers)
            )

    def _take(self, response: HttpResponse) -> None:
        if "HX-Redirect" in response.headers or (
            response.status_code == 404 and "changes" in response.request["PATH_INFO"]
        ):
            self.is_gone = True
        elif response.status_code == 200 and response.content:
            self.apply(response.content.decode())
            self.revision = max(self.revision, int(response.headers.get("X-Room-Revision", 0)))
        elif response.status_code == 409:
            self.apply(response.content.decode())
            self.pull()

    def update(self) -> tuple[str, PageUpdate | None]:
        """The update that the live channel makes for the page as it is, with its state."""
        state = json.dumps(self.state())
        reader = PageReader(self.user.pk, state.encode())
        return state, render_updates(self.room.public_id, [reader]).get(reader)

    def take_update(self, state: str, update: PageUpdate | None) -> None:
        """One for another state is dropped. Without one the page is told to ask."""
        if self.is_gone:
            return
        if update is None:
            self.pull()
        elif state == json.dumps(self.state()):
            self.apply(update.html)
            self.revision = max(self.revision, update.revision)

    def take_queue(self) -> None:
        reader = QueueReader(self.user.pk, "token")
        rendered = render_queue(self.room.public_id, [reader]).get(reader)
        if rendered is not None and not self.is_gone:
            self.apply(rendered.html)

    def apply(self, content: str) -> None:
        """As htmx: finds all targets, then changes them."""
        partials = html.fragment_fromstring(content, create_parent="body").xpath(
            "./*[local-name()='hx-partial']"
        )
        tasks = [(each.get("hx-swap"), self._target(each), each) for each in partials]
        for swap, target, partial in tasks:
            if target is not None:
                self._swap(swap, target, partial)

    def _target(self, partial: Any) -> Any:
        target = self._by_id(partial.get("hx-target").removeprefix("#"))
        # The list beside the page is not modeled; notes of dialogs are only where these are open.
        is_elsewhere = partial.get("hx-target") in ("#conversations", "#sharing", "#head-note")
        assert target is not None or is_elsewhere or "note" in partial.get("hx-target"), (
            f"no {partial.get('hx-target')} on the page"
        )
        return target

    def _swap(self, swap: str, target: Any, partial: Any) -> None:
        nodes = list(partial)
        if swap == "delete":
            target.getparent().remove(target)
        elif swap == "outerHTML":
            parent, at = target.getparent(), target.getparent().index(target)
            parent.remove(target)
            for node in reversed(nodes):
                parent.insert(at, node)
        elif swap == "beforeend":
            # What crossed on the way does not come a second time.
            target.extend(node for node in nodes if self._by_id(node.get("id", "")) is None)
        else:
            assert swap in ("innerHTML", "innerMorph"), swap
            target.text = partial.text
            target[:] = nodes

    # --- what it looks like -----------------------------------------------------------------

    def differences(self, other: ShownPage) -> Iterator[str]:
        for part in PARTS:
            pair = (_lines(self._by_id(part)), _lines(other._by_id(part)))
            yield from (
                f"{part}: {line}"
                for line in difflib.unified_diff(*pair, n=0, lineterm="")
                if line[:3] not in ("---", "+++") and line[:2] != "@@"
            )


def _lines(part: Any) -> list[str]:
    """The tags and texts of an element, one a line."""
    part = copy.deepcopy(part)
    for each in part.xpath(f".//*[{LIVE} or {OF_ACTIONS}]"):
        each.text = None
        each[:] = []
    lines: list[str] = []
    for each in part.iter():
        own = each.tag == "input" and each.get("name") in OWN_VALUES
        attributes = {
            name: "" if own and name == "value" else value
            for name, value in sorted(each.attrib.items())
            if name not in OWN_ATTRIBUTES
        }
        shown = "".join(f' {name}="{value}"' for name, value in attributes.items())
        texts = [" ".join((text or "").split()) for text in (each.text, each.tail)]
        lines.append(f"<{each.tag}{shown}>{texts[0]}")
        if texts[1] and each is not part:
            lines.append(texts[1])
    return lines
