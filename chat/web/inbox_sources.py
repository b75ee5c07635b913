"""Sources of the inbox: a feature says with a query what waits for people, and nothing is stored twice.

The inbox lists an entry as long as a query finds it. So it goes when its cause goes, and people who lose access
to the conversation lose the entry. `chat.apps` registers the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSource:
    """One kind of entries.

    ``rows`` returns the text of a query in plain SQL, without placeholders, which reads from ``asked
    (person)`` and has the columns ``person, key, conversation_id, message_id, actor_id, at, revision,
    detail``: the person's key, the public id of the cause, the keys of the conversation, of the turn
    (or ``NULL``) and of the person who caused it (or ``NULL``), its time, the conversation's revision (or ``NULL``)
    and a short text, such as the beginning of what was said. Of a table that grows with use, only the newest
    rows of a person may be read (`newest_since`).
    """

    kind: str
    icon: str
    # The name of the kind, in settings.
    label: str | Promise
    # The line of an entry; ``%(person)s`` is the name of the person who caused it.
    line: str | Promise
    # The text of the browser's notification; empty: there is none.
    notice: str | Promise = ""
    rows: Callable[[], str]
    # The entry goes when the person has read the conversation up to its revision or, without one, its time.
    is_read_by_reading: bool = True
    # It has no part in what is new in the conversation, and goes when the person has it open afterwards.
    is_read_by_visit: bool = False
    # The text that the inbox shows of the detail.
    words: Callable[[str], str] = str
    # The part of the conversation's page, with the places ``{key}`` and ``{message}``.
    anchor: str = "m{message}"


_sources: dict[str, InboxSource] = {}


def use_inbox_sources(*sources: InboxSource) -> None:
    """Sets the sources of this process. `chat.apps` calls it once."""
    _sources.clear()
    _sources.update({source.kind: source for source in sources})


def inbox_sources() -> tuple[InboxSource, ...]:
    return tuple(_sources.values())


def source_of(kind: str) -> InboxSource:
    return _sources[kind]


def newest_since(table: str, person: str, moment: str, *, count: int) -> str:
    """The people asked about, each with the time ``since`` which the table has the newest ``count`` rows of
    theirs. ``person`` and ``moment`` are the columns of an index."""
    return f"""(
        SELECT asked.person, COALESCE((
            SELECT recent.{moment} FROM {table} recent
            WHERE recent.{person} = asked.person
            ORDER BY recent.{moment} DESC LIMIT 1 OFFSET {count - 1}
        ), '2000-01-01') AS since
        FROM asked
    )"""  # noqa: S608
