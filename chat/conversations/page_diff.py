"""Differences between a page that a browser shows and the conversation as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chat.conversations.page_parts import PageCard
from chat.conversations.page_state import PageState
from chat.conversations.paths import Path
from chat.conversations.transcript import PAGE_TURNS, ShownRun, Turn, last_page, read_changed
from chat.models.tree import path_to


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDifference:
    """The changes from a page to the visible path: messages to remove, turns to append, turns whose actions
    changed. ``is_whole``: nothing of the page can stay."""

    is_whole: bool
    gone: Sequence[str]
    start: int
    changed: Sequence[int] = ()


def difference(path: Path, position: PageState | None, *, may_write: bool = True) -> PageDifference:
    """``may_write`` is the reader's current right. If it differs from that of the page, the actions of all turns
    have changed."""
    whole = PageDifference(is_whole=True, gone=(), start=last_page(path).start)
    if position is None or position.revision > path.conversation.revision:
        # The page is newer than the database, which was restored from a backup.
        return whole
    first = path.index_of(position.first)
    shown = _chain_to(path, position.tail)
    if first is None or not shown:
        return whole
    gone = [hex_id for hex_id in shown if path.index_of(hex_id) is None]
    if position.tail not in gone and position.compares != _is_compared(path, position.tail):
        # The turn stays, but as columns or no longer as columns.
        gone.append(position.tail)
    kept = [path.index_of(hex_id) for hex_id in shown if hex_id not in gone]
    start = max((index for index in kept if index is not None), default=-1) + 1
    if start <= first or len(path.places) - start > PAGE_TURNS:
        return whole
    # Below the last turn that stays there may be lines that were below those that go, or the other way.
    last = start - 1 if gone and path.has_lines else None
    return PageDifference(
        is_whole=False,
        gone=gone,
        start=start,
        changed=(
            _changed_turns(path, range(first, start), position, last)
            if position.writes == may_write
            else range(first, start)
        ),
    )


def _is_compared(path: Path, hex_id: str) -> bool:
    """Returns whether the page of this path ends with this turn, as columns."""
    tail = path.tail
    return path.undecided is not None and tail is not None and tail.public_id.hex == hex_id


def _chain_to(path: Path, tail: str) -> list[str]:
    """The messages that a page with the last turn ``tail`` can show: that message and its ancestors."""
    message = next((m for m in path.messages.values() if m.public_id.hex == tail), None)
    if message is None:
        return []
    return [above.public_id.hex for above in path_to(message, path.messages)]


def _changed_turns(path: Path, indices: range, position: PageState, last: int | None) -> list[int]:
    """Turns with a new sibling, with another version that was continued, with a new line below, or with new
    feedback, answers that are live on the page but have ended, and the ``last`` one."""
    newest = path.newest_sibling_revisions()
    places = path.places
    changed = [
        index
        for index in indices
        if newest[places[index].message.parent_id] > position.revision
        or path.has_newer_continuation(places[index].message, since=position.revision)
        or not position.open.isdisjoint(path.answers_at(places[index].message))
        or index == last
        or path.has_line_since(places[index].message, position.revision)
        or places[index].message.feedback_revision > position.revision
    ]
    if path.context is not None and path.context.below in changed:
        # With the line where the context starts now, the one of an earlier choice goes.
        changed = sorted({*changed, *(path.context.former & set(indices))})
    return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTurn:
    """Changes inside a turn: ``runs`` are not on the page yet, ``asking`` are runs whose questions are not.

    ``cards`` are to be rendered again: in another stage, or with other rights of the reader. In
    ``lines`` only the line with the person who answers changes: somebody may be typing below it.
    ``there`` are the unchanged runs.
    """

    turn: Turn
    runs: Sequence[ShownRun] = ()
    asking: Sequence[ShownRun] = ()
    cards: Sequence[PageCard] = ()
    lines: Sequence[PageCard] = ()
    there: Sequence[ShownRun] = ()


def changed_turns(
    path: Path, indices: Sequence[int], position: PageState | None, *, may_write: bool
) -> list[ChangedTurn]:
    known = position or PageState()
    turns = read_changed(path, indices, known_runs=known.runs)
    has_other_rights = known.writes != may_write
    changed: list[ChangedTurn] = []
    for turn in turns:
        if not turn.columns:
            changed.append(_changed(turn, known, has_other_rights))
            continue
        changed += [
            _changed(each, known, has_other_rights)
            for each in turn.columns
            if has_other_rights or _is_changed(path, each, known)
        ]
        # The lines below the columns.
        changed.append(ChangedTurn(turn=turn))
    return changed


def _is_changed(path: Path, column: Turn, position: PageState) -> bool:
    """Only columns with news are rendered again: somebody may be about to press a button of another."""
    message = path.messages[column.message.pk]
    has_more = not column.is_live or any(run.answer is not None for run in column.runs)
    was_open = message.public_id.hex in position.open
    return message.revision > position.revision or (was_open and has_more)


def _changed(turn: Turn, position: PageState, has_other_rights: bool) -> ChangedTurn:
    known = [run for run in turn.runs if run.hex in position.runs]
    there = [run for run in known if len(run.asked) == position.runs[run.hex]]
    shown = [one for run in there for one in run.asked if one.hex in position.asks]
    cards = [
        one
        for one in shown
        if has_other_rights or one.stage != position.asks[one.hex].partition("-")[0]
    ]
    return ChangedTurn(
        turn=turn,
        runs=[run for run in turn.runs if run.answer is not None],
        asking=[run for run in known if run not in there],
        cards=cards,
        lines=[one for one in shown if one not in cards and one.mark != position.asks[one.hex]],
        there=there,
    )
