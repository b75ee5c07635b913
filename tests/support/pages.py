"""A page of a run as a browser would have it, its cursor in the log, and what API clients have."""

from collections.abc import Sequence
from uuid import UUID

from chat import events as canonical
from chat.dialects.lmstudio.client_events import ClientEvents
from chat.live.snapshot import check_of
from chat.public_api.log_stream import encode_entries
from chat.rendering.patches import Answer
from chat.runs.event_buffer import LogEntry
from chat.wire.sse import Decoder
from tests.rendering.dom import Page

Cursor = tuple[int, str]
# What a page shows before the run has events.
BEGINNING: Cursor = (0, "00000000")


def page_of(run: UUID, entries: Sequence[LogEntry]) -> Page:
    """A page that was just loaded, with exactly these events."""
    answer = Answer(run.hex)
    for entry in entries:
        answer.apply(canonical.decode(entry.body))
    return Page(run.hex, answer.snapshot(), answer.phase())


def cursor_of(entries: Sequence[LogEntry]) -> Cursor:
    """Of a page that shows the log from its beginning to the last of these events."""
    return (entries[-1].seq, f"{check_of(entries):08x}") if entries else BEGINNING


def sent(run: UUID, entries: Sequence[LogEntry]) -> list[str]:
    """The data of the frames in which an API client receives these events."""
    stream = encode_entries(entries, run, ClientEvents())
    return [frame.data for frame in Decoder().feed(stream)]
