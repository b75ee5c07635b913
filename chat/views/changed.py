"""What has changed inside turns that a page shows already: further runs, and their questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chat.views.asked import Asked
from chat.views.position import Position
from chat.views.transcript import Path, ShownRun, Turn, read_changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTurn:
    """``runs`` are not on the page yet, ``asking`` are runs whose questions are not.

    Of the questions that are there, ``cards`` are shown anew: settled, or for a reader who may
    write now, or no longer. Of the ``lines`` only the line that says who is at it changes:
    somebody may be typing below it. ``there`` are the runs that stay as they are.
    """

    turn: Turn
    runs: Sequence[ShownRun] = ()
    asking: Sequence[ShownRun] = ()
    cards: Sequence[Asked] = ()
    lines: Sequence[Asked] = ()
    there: Sequence[ShownRun] = ()


def changed_turns(
    path: Path, indices: Sequence[int], position: Position | None, *, may_write: bool
) -> list[ChangedTurn]:
    known = position or Position()
    turns = read_changed(path, indices, known_runs=known.runs)
    return [_changed(turn, known, known.writes != may_write) for turn in turns]


def _changed(turn: Turn, position: Position, has_other_rights: bool) -> ChangedTurn:
    known = [run for run in turn.runs if run.hex in position.runs]
    there = [run for run in known if len(run.asked) == position.runs[run.hex]]
    shown = [one for run in there for one in run.asked if one.hex in position.asks]
    cards = [one for one in shown if has_other_rights or not one.is_open]
    return ChangedTurn(
        turn=turn,
        runs=[run for run in turn.runs if run.answer is not None],
        asking=[run for run in known if run not in there],
        cards=cards,
        lines=[one for one in shown if one not in cards and one.mark != position.asks[one.hex]],
        there=there,
    )
