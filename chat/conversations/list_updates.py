"""The changed lines of the list of conversations, for pages that have a live connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.template.loader import render_to_string
from django.utils import timezone

from chat.conversations.listing import PlacedLine, day_of, lines_of_some
from chat.conversations.tags import line_html
from chat.core.time_zones import zone_named
from chat.live.list_updates import Lines, ListReader

# More at once cost a page as much as its whole list does.
MOST_LINES = 20


def render_lines(people: Sequence[ListReader]) -> dict[ListReader, Lines | None]:
    """One query for each person, with the right to read of `visible_to`."""
    return {reader: _lines(reader) for reader in people}


def _lines(reader: ListReader) -> Lines | None:
    found = lines_of_some(reader.person, reader.changed)
    if not found or len(found) > MOST_LINES:
        # Nothing: something went that nobody else could see, such as a conversation of one's own.
        return None
    with timezone.override(zone_named(reader.zone)):
        return {
            "lines": [_line(each, reader.person) for each in found],
            "day": day_of(found[-1].line.updated_at),
            "inbox": _inbox(found[0].line.waiting_count),
        }


def _line(placed: PlacedLine, person_pk: int) -> Mapping[str, str]:
    """One that stands nowhere has no HTML."""
    line, place = placed
    in_project = place not in ("", "pinned", "recent")
    html = line_html(line, person_pk, in_project=in_project) if place else ""
    return {"room": line.public_id.hex, "place": place, "html": html}


def _inbox(waiting_count: int) -> str:
    if not waiting_count:
        return ""
    return render_to_string(
        "conversations/_inbox_count.html", {"waiting_count": waiting_count}
    ).strip()
