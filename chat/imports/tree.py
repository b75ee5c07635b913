"""Messages of an export as a tree of turns: hidden ones are removed, damaged links repaired, and
consecutive messages of one answer joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from chat.imports.conversations import Call, Output, Part, Side, Turn, Unreadable
from chat.imports.reading import call_with
from chat.imports.words import gettext

# Nobody has written more; they are stored in one transaction, which takes up to ten seconds.
MOST_MESSAGES = 10_000


@dataclass(slots=True, kw_only=True)
class Node:
    """A message of the file. Without ``parts`` it is hidden, and its children move up, unless it
    ``is_shown`` as an empty answer. ``children`` is their order, if the file has one."""

    source_id: str
    role: Side = "assistant"
    parent: str = ""
    children: Sequence[str] = ()
    parts: list[Part] = field(default_factory=list)
    author: str = ""
    model: str = ""
    created_at: datetime | None = None
    error: str = ""
    is_shown: bool = False

    @property
    def is_kept(self) -> bool:
        return bool(self.parts or self.error or self.is_shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    turns: tuple[Turn, ...] = ()
    leaf: str = ""
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A turn while messages are added to it."""

    node: Node
    parent: str
    parts: list[Part] = field(default_factory=list)


Rule = Literal["newest", "last"]


def build(nodes: Iterable[Node], *, leaf: str = "", otherwise: Rule = "newest") -> Tree:
    """The turns of the messages. ``leaf`` is the message that the file names as the end of the
    visible branch. If it names none, or a missing one, ``otherwise`` decides: the newest message,
    or the last one of each fork."""
    known, problems = _by_id(nodes)
    children, circles = _children(known)
    problems += circles
    kept_parent, order = _spliced(known, children)
    drafts, turn_of = _merged([known[key] for key in order], kept_parent)
    turns = tuple(_turn(draft) for draft in drafts.values())
    shown = _kept(leaf, known, turn_of) if leaf in known else ""
    if not shown:
        shown = _newest(known, turn_of) if otherwise == "newest" else _last(turns)
    return Tree(turns=turns, leaf=shown, problems=tuple(problems))


def _by_id(nodes: Iterable[Node]) -> tuple[dict[str, Node], list[str]]:
    known: dict[str, Node] = {}
    problems: list[str] = []
    for number, node in enumerate(nodes):
        if number == MOST_MESSAGES:
            words = gettext("More than %(count)s messages.")
            raise Unreadable(words % {"count": f"{MOST_MESSAGES:,}"})
        if node.source_id in known:
            problems.append(gettext("Two messages have the same ID; the first was kept."))
            continue
        node.source_id = node.source_id or f"#{number}"
        known[node.source_id] = node
    return known, problems


def _children(known: Mapping[str, Node]) -> tuple[dict[str, list[str]], list[str]]:
    """The children of each message, in order; under "" messages without a parent, or with a missing
    one."""
    children: dict[str, list[str]] = {"": []}
    for key, node in known.items():
        if node.parent not in known or node.parent == key:
            node.parent = ""
        children.setdefault(node.parent, []).append(key)
    for key, node in known.items():
        places = {child: place for place, child in enumerate(node.children) if child in known}
        if places and key in children:
            last = len(places)
            children[key].sort(key=lambda child: places.get(child, last))
    reached: set[str] = set()
    _reach(children[""], children, reached)
    problems = []
    for key, node in known.items():
        if key not in reached:
            problems.append(gettext("The messages form a loop."))
            children[node.parent].remove(key)
            node.parent = ""
            children[""].append(key)
            _reach([key], children, reached)
    return children, problems


def _reach(keys: Iterable[str], children: Mapping[str, list[str]], reached: set[str]) -> None:
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            waiting += children.get(key, ())


def _spliced(
    known: Mapping[str, Node], children: Mapping[str, list[str]]
) -> tuple[dict[str, str], list[str]]:
    """The nearest kept ancestor of each message that is kept, and their ids in the order of the
    tree."""
    above: dict[str, str] = {}
    waiting = [(key, "") for key in reversed(children[""])]
    while waiting:
        key, parent = waiting.pop()
        is_kept = known[key].is_kept
        if is_kept:
            above[key] = parent
        below = key if is_kept else parent
        waiting += [(child, below) for child in reversed(children.get(key, ()))]
    return above, list(above)


def _merged(
    nodes: Sequence[Node], kept_parent: Mapping[str, str]
) -> tuple[dict[str, _Draft], dict[str, str]]:
    """Joins an answer with the answer that is its only child. At a fork a new turn begins."""
    counts: dict[str, int] = {}
    for parent in kept_parent.values():
        counts[parent] = counts.get(parent, 0) + 1
    drafts: dict[str, _Draft] = {}
    turn_of: dict[str, str] = {}
    for node in nodes:
        parent = kept_parent[node.source_id]
        turn = drafts.get(turn_of.get(parent, ""))
        is_more = (
            turn is not None
            and turn.node.role == node.role == "assistant"
            and counts[parent] == 1
            and not turn.node.error
        )
        if turn is not None and is_more:
            turn.parts += node.parts
            turn.node.model = node.model or turn.node.model
            turn.node.error = node.error
            turn_of[node.source_id] = turn.node.source_id
        else:
            key = node.source_id
            drafts[key] = _Draft(node, turn_of.get(parent, ""), list(node.parts))
            turn_of[key] = key
    return drafts, turn_of


def _turn(draft: _Draft) -> Turn:
    node = draft.node
    return Turn(
        source_id=node.source_id,
        role=node.role,
        parts=tuple(joined_calls(draft.parts)),
        parent=draft.parent,
        author=node.author,
        model=node.model,
        created_at=node.created_at,
        error=node.error,
    )


def joined_calls(parts: Iterable[Part]) -> list[Part]:
    """Joins results of tools to their calls: by id, else to the last call if it has no result or is
    of the same tool. A result without a call becomes a call with unknown arguments."""
    whole: list[Part] = []
    by_id: dict[str, int] = {}
    outputs: dict[int, list[Output]] = {}
    last: int | None = None
    for part in parts:
        if isinstance(part, Output):
            place = by_id.get(part.call_id) if part.call_id else _open(last, part, whole, outputs)
            if place is None:
                place = len(whole)
                whole.append(Call(tool=part.tool or "tool", call_id=part.call_id))
            outputs.setdefault(place, []).append(part)
            continue
        if isinstance(part, Call):
            last = len(whole)
            by_id.setdefault(part.call_id, last)
        whole.append(part)
    for place, found in outputs.items():
        call = whole[place]
        assert isinstance(call, Call)
        texts = [*filter(None, [call.output]), *(each.text for each in found)]
        whole[place] = call_with(
            call, output="\n".join(texts), has_failed=any(each.has_failed for each in found)
        )
    return whole


def _open(
    last: int | None,
    output: Output,
    parts: Sequence[Part],
    outputs: Mapping[int, list[Output]],
) -> int | None:
    """The place of the last call, if the output can be its result."""
    if last is None:
        return None
    call = parts[last]
    assert isinstance(call, Call)
    is_empty = call.output is None and last not in outputs
    return last if is_empty or call.tool == output.tool else None


def _kept(key: str, known: Mapping[str, Node], turn_of: Mapping[str, str]) -> str:
    """The turn of a message; for a hidden one, that of the nearest message above it."""
    while key and key not in turn_of:
        key = known[key].parent
    return turn_of.get(key, "")


_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def _newest(known: Mapping[str, Node], turn_of: Mapping[str, str]) -> str:
    """The turn of the newest message; of several, and without times, the last in the file."""
    newest, at = "", _BEFORE_ALL
    for key, node in known.items():
        time = node.created_at or _BEFORE_ALL
        if key in turn_of and time >= at:
            newest, at = turn_of[key], time
    return newest


def _last(turns: Sequence[Turn]) -> str:
    last: dict[str, str] = {turn.parent: turn.source_id for turn in turns}
    key = ""
    while key in last:
        key = last[key]
    return key
