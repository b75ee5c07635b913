"""The changed lines of the list of conversations, for pages that have a live connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.utils import timezone

from chat.conversations.listing import PlacedLine, day_of, lines_of_some
from chat.conversations.tags import line_html
from chat.core.time_zones import zone_named

# The members of a message to the page.
Lines = Mapping[str, object]


class ListReader(NamedTuple):
    """A person, their time zone if it is known, and the conversations (keys) that may have changed."""

    person: int
    zone: str
    changed: tuple[int, ...]


# A page gets its whole list for more lines than this, which costs the same.
MOST_LINES = 20


def render_lines(people: Sequence[ListReader]) -> dict[ListReader, Lines | None]:
    """The lines of each reader, with one query each and the right of `access.visible_conversations`.
    ``None``: the page has to ask for its list."""
    return {reader: _lines(reader) for reader in people}


def _lines(reader: ListReader) -> Lines | None:
    found = lines_of_some(reader.person, reader.changed)
    if not found or len(found) > MOST_LINES:
        # Empty: something was removed that only this person saw, such as their own conversation.
        return None
    with timezone.override(zone_named(reader.zone)):
        return {
            "lines": [_line(each, reader.person) for each in found],
            "day": day_of(found[-1].line.updated_at),
        }


def _line(placed: PlacedLine, person_pk: int) -> Mapping[str, str]:
    """The members of one line; a line without a place in the list has no HTML."""
    line, place = placed
    in_project = place not in ("", "pinned", "recent")
    html = line_html(line, person_pk, in_project=in_project) if place else ""
    return {"room": line.public_id.hex, "place": place, "html": html}
