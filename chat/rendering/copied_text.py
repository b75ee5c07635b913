"""The events of an answer for copying its text: a message that a card divides on the page has a blank
line there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from chat.events import Event, MessageDelta
from chat.rendering.patches import Answer


def divided(events: Iterable[Event]) -> Iterator[Event]:
    # Nobody sees this HTML, so its addresses may name any run.
    answer = Answer("0" * 32, keeps_rest=False)
    # (choice, item) -> the last characters of the message.
    ends: dict[tuple[int, int], str] = {}
    for event in events:
        answer.apply(event)
        if not isinstance(event, MessageDelta):
            yield event
            continue
        message = (event.choice, event.item)
        end = ends.get(message, "")
        content = event.content
        if answer.has_begun_below_card(event):
            newlines = len(end) - len(end.rstrip("\n"))
            content = "\n" * (2 - newlines) + content.lstrip("\n")
        ends[message] = (end + content)[-2:]
        yield msgspec.structs.replace(event, content=content)
