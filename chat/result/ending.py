"""The end of a run: closes open items, makes `chat.end`, folds a whole log."""

from collections.abc import Iterable
from typing import Literal, Protocol

from chat.events import (
    Cause,
    ChatEnd,
    ChatStart,
    Ending,
    ErrorInfo,
    Event,
    MessageItem,
    RefusalItem,
    Result,
    Stop,
)
from chat.result.folding import CUT, Fold
from chat.result.items import closing_event

# --- endings -----------------------------------------------------------------------


class ClosableParser(Protocol):
    """The members of a dialect's parser that ``finish`` needs."""

    ending: Ending | None

    def close(self, cause: Cause = "eof", *, error: ErrorInfo | None = None) -> list[Event]: ...


def fold(events: Iterable[Event]) -> Result:
    """The result of a list of events; without a ``chat.end`` the run counts as cut."""
    state = Fold()
    state.extend(events)
    return state.result()


def finish(
    parser: ClosableParser,
    fold: Fold,
    cause: Cause = "eof",
    *,
    error: ErrorInfo | None = None,
    t: int = 0,
) -> list[Event]:
    """Closes the parser and returns the last events, with the one ``chat.end`` at the end. All of
    them are folded and have ``t``. Empty for a run that has its ``chat.end``."""
    if fold.end is not None:
        return []
    events = parser.close(cause, error=error)
    return _conclude(fold, events, parser.ending or CUT, t)


def close_open(
    fold: Fold,
    cause: Literal["interrupted", "stopped"] = "interrupted",
    *,
    by: str | None = None,
    model: str = "",
    dialect: str = "",
    endpoint: str = "",
    t: int = 0,
) -> list[Event]:
    """The last events of a run whose parser is gone: ends of open items, then ``chat.end``. ``by``
    is the name of the person who stopped it. For a run that never started they are ``chat.start``
    and ``chat.end``."""
    if fold.end is not None:
        return []
    events: list[Event] = []
    if fold.start is None:
        events.append(
            ChatStart(
                model_instance_id=model, dialect=dialect, endpoint=endpoint, requested_model=model
            )
        )
    events += [event for part in fold.open_parts() if (event := closing_event(part)) is not None]
    return _conclude(fold, events, Ending(status=cause, stop=Stop(reason=cause, by=by)), t)


def _conclude(fold: Fold, events: list[Event], ending: Ending, t: int) -> list[Event]:
    for event in events:
        event.t = t
        fold.add(event)
    end = ChatEnd(result=fold.result(ending), t=t)
    fold.add(end)
    return [*events, end]


# --- text of a result ------------------------------------------------------------------


def plain_text(result: Result) -> str:
    """The text of the answer: its messages and refusals, without reasoning and tools."""
    texts = (
        item.content.strip()
        for item in result.output
        if isinstance(item, MessageItem | RefusalItem)
    )
    return "\n\n".join(text for text in texts if text)
