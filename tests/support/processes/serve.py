"""Runs a command of ours with one place in which the process stands still, until it is killed.

``python -m tests.support.processes.serve <place> serve …``: when the place is reached for the first time the
process says so with a file in its ``DATA_DIR`` and goes no further there; everything else in it
goes on.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

REACHED = "reached"


def stand_still() -> None:
    Path(os.environ["DATA_DIR"], REACHED).touch()
    threading.Event().wait()


def before_request() -> None:
    """Claimed; the prompt is about to be read, and nothing was sent."""
    from chat.runs import execution

    execution.prepare = lambda run_pk: stand_still()


def before_going_on() -> None:
    """What was given to an answer that waited is in its log, and nothing was sent."""
    from chat.models import Run
    from chat.runs.execution import Execution

    begin_attempt = Execution._begin_attempt

    def stopping(execution: Execution, dialect: str) -> int:
        if Run.objects.get(pk=execution.run_pk).position:
            stand_still()
        return begin_attempt(execution, dialect)

    Execution._begin_attempt = stopping  # type: ignore[method-assign]


def before_last_commit() -> None:
    """The whole answer was read; its end is not in the database."""
    _around_end(before=stand_still)


def after_last_commit() -> None:
    """The end is in the database, and nobody has been told."""
    _around_end(after=stand_still)


def _around_end(
    *, before: Callable[[], None] = lambda: None, after: Callable[[], None] = lambda: None
) -> None:
    from chat.runs import segments

    commit = segments.commit

    def stopping(writes: Any) -> Any:
        is_end = any(write.is_end for write in writes)
        if is_end:
            before()
        outcomes = commit(writes)
        if is_end:
            after()
        return outcomes

    segments.commit = stopping


def inside_last_commit() -> None:
    """Status, result and last segment are written, in a transaction that is still open."""
    from chat.runs import segments

    end = segments._end

    def stopping(write: segments.Write) -> bool:
        end(write)
        stand_still()
        return True

    # As where several answers end together: of one alone PostgreSQL makes one statement.
    segments._is_one_statement = lambda writes: False
    segments._end = stopping


PLACES = {
    place.__name__: place
    for place in (
        before_request,
        before_going_on,
        before_last_commit,
        inside_last_commit,
        after_last_commit,
    )
}


def main(place: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    PLACES[place]()
    call_command(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
