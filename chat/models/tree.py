"""Paths through the tree of a conversation's messages, computed on loaded rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chat.models.conversation import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A message on the visible path, and its position among its siblings (from 1)."""

    message: Message
    number: int
    count: int
    previous: Message | None
    next: Message | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a message: its number in the order of the tree and among its siblings (both
    from 1)."""

    pk: int
    number: int
    parent_number: int | None
    sibling_number: int
    sibling_count: int

    @property
    def begins_branch(self) -> bool:
        """True if it does not continue the message just above."""
        follows = self.parent_number if self.parent_number is not None else 0
        return follows != self.number - 1


def children_by_parent(messages: Iterable[Message]) -> dict[int | None, list[Message]]:
    """Children in order of creation under each parent's key; roots under ``None``."""
    children: dict[int | None, list[Message]] = {}
    for message in sorted(messages, key=lambda message: message.pk):
        children.setdefault(message.parent_id, []).append(message)
    return children


def newest_below(messages: Iterable[Message]) -> dict[int, Message]:
    """By the key of each message the newest one of the branch that begins with it. Parents are
    older than their children."""
    newest: dict[int, Message] = {}
    for message in sorted(messages, key=lambda message: message.pk, reverse=True):
        found = newest.setdefault(message.pk, message)
        parent = message.parent_id
        if parent is not None and (parent not in newest or newest[parent].pk < found.pk):
            newest[parent] = found
    return newest


def visible_path(
    messages: Iterable[Message],
    choices: Mapping[int | None, int],
    preferred: Mapping[int, int] | None = None,
) -> list[Place]:
    """The path that a user sees: at each fork the chosen child, else the one whose branch was
    continued last. ``preferred``: as in `newest_version`."""
    rows = list(messages)
    children = children_by_parent(rows)
    newest = newest_below(rows) if any(len(each) > 1 for each in children.values()) else {}
    path: list[Place] = []
    parent: int | None = None
    while siblings := children.get(parent):
        place = _place(siblings, choices.get(parent), newest, preferred or {})
        path.append(place)
        parent = place.message.pk
    return path


def newest_version(
    keys: Iterable[int], newest: Mapping[int, Message], preferred: Mapping[int, int]
) -> int:
    """The one of several siblings that a newcomer sees, by its key: the one whose branch was continued last.

    ``preferred`` leads from the answers of a comparison to the one that people went on with, which stands in for those
    that nobody continued.
    """
    found = max(keys, key=lambda key: newest[key].pk)
    return preferred.get(found, found) if newest[found].pk == found else found


def _place(
    siblings: list[Message],
    chosen: int | None,
    newest: Mapping[int, Message],
    preferred: Mapping[int, int],
) -> Place:
    keys = [message.pk for message in siblings]
    if len(keys) > 1 and chosen not in keys:
        chosen = newest_version(keys, newest, preferred)
    index = keys.index(chosen) if chosen in keys else 0
    return Place(
        message=siblings[index],
        number=index + 1,
        count=len(siblings),
        previous=siblings[index - 1] if index else None,
        next=siblings[index + 1] if index + 1 < len(siblings) else None,
    )


def path_to(message: Message, messages: Mapping[int, Message]) -> list[Message]:
    """The messages from the root to ``message``, both included; ``messages`` by primary key."""
    path = [message]
    while path[-1].parent_id is not None:
        path.append(messages[path[-1].parent_id])
    return path[::-1]


def tree_order(messages: Iterable[Message]) -> list[Position]:
    """All messages, each branch to its end before the next one. Without recursion, because trees
    are deep."""
    children = children_by_parent(messages)
    numbers: dict[int | None, int] = {}
    order: list[Position] = []
    waiting: list[tuple[int | None, tuple[Message, int, int]]] = []
    waiting += [(None, place) for place in _places(children.get(None, []))][::-1]
    while waiting:
        parent, (message, number, count) = waiting.pop()
        numbers[message.pk] = len(order) + 1
        order.append(
            Position(
                pk=message.pk,
                number=len(order) + 1,
                parent_number=numbers.get(parent),
                sibling_number=number,
                sibling_count=count,
            )
        )
        below = _places(children.get(message.pk, []))
        waiting += [(message.pk, place) for place in below][::-1]
    return order


def _places(siblings: Sequence[Message]) -> list[tuple[Message, int, int]]:
    return [(message, number, len(siblings)) for number, message in enumerate(siblings, start=1)]
