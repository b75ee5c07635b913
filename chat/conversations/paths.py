"""The path through a conversation's messages that a person sees, without their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, OuterRef, Subquery

from chat.conversations.change_lines import ChangeLine, lines_below, placed_below
from chat.conversations.comparisons import preferred_in, read_comparisons
from chat.conversations.context_start import ContextOfPath, context_of_path
from chat.core.prepared import Prepared
from chat.models import (
    AccessReason,
    BranchChoice,
    Comparison,
    Conversation,
    Message,
    User,
)
from chat.models.tree import Place, newest_below, newest_version, visible_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaking:
    """A reader's branch, which ends with ``tail``, is no longer the one that newcomers see. That has
    another ``version`` of a turn, which may be newer, and ``newest`` is the last message in it."""

    tail: Message
    version: Message
    newest: Message
    is_newer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The visible path without texts, and all messages of the tree."""

    conversation: Conversation
    places: Sequence[Place]
    messages: dict[int, Message]
    # `BranchChoice.is_kept` by the keys of the messages that the reader chose.
    choices: Mapping[int, bool]
    # True if there are lines below turns and the conversation was loaded with its context.
    has_lines: bool
    # Openings by administrators, and changes, by the key of the turn that they follow.
    openings: Mapping[int, Sequence[AccessReason]] = field(default_factory=dict)
    changes: Mapping[int, Sequence[ChangeLine]] = field(default_factory=dict)
    # The part that the next answer is sent, where somebody chose that.
    context: ContextOfPath | None = None
    # The comparisons by the keys of their answers.
    comparisons: Mapping[int, Comparison] = field(default_factory=dict)
    # Positions of the turns by the ids of their messages.
    _positions: dict[str, int] = field(default_factory=dict)
    _newest: dict[int, Message] = field(default_factory=dict)

    @property
    def tail(self) -> Message | None:
        return self.places[-1].message if self.places else None

    def index_of(self, hex_id: str) -> int | None:
        if len(self._positions) != len(self.places):
            for index, place in enumerate(self.places):
                self._positions[place.message.public_id.hex] = index
        return self._positions.get(hex_id)

    def current_version(self, message: Message) -> Message:
        """The version of this turn that newcomers see: the one that was continued last."""
        siblings = [each for each in self.messages.values() if each.parent_id == message.parent_id]
        newest = {each.pk: self.newest_below(each) for each in siblings}
        return self.messages[newest_version(newest, newest, preferred_in(self.comparisons))]

    @property
    def undecided(self) -> Comparison | None:
        """The comparison at the end of the path, if nobody has chosen the answer to go on with."""
        found = self.comparisons.get(self.tail.pk) if self.tail else None
        return found if found is not None and found.chosen_id is None else None

    def answers_of(self, comparison: Comparison) -> list[Message]:
        """The answers of a comparison, in their order."""
        return [self.messages[key] for key, each in self.comparisons.items() if each is comparison]

    def answers_at(self, message: Message) -> set[str]:
        """The ids of the messages that a turn shows: its own, or those of all columns of a comparison."""
        shown = [message]
        if self.undecided is not None and self.tail is not None and message.pk == self.tail.pk:
            shown = self.answers_of(self.undecided)
        return {each.public_id.hex for each in shown}

    def is_passed_over(self, message: Message) -> bool:
        """True for an answer of a comparison that nobody has chosen or continued, if another one was chosen."""
        comparison = self.comparisons.get(message.pk)
        is_other = comparison is not None and comparison.chosen_id not in (None, message.pk)
        return is_other and self.newest_below(message).pk == message.pk

    def has_newer_continuation(self, message: Message, *, since: int) -> bool:
        """True if another version of a turn, of which the reader keeps an old one, got a message since this
        revision."""
        if not self.choices.get(message.pk):
            return False
        return self.newest_below(self.current_version(message)).revision > since

    def newest_below(self, message: Message) -> Message:
        """The newest message of the branch that begins with this one."""
        if not self._newest:
            self._newest.update(newest_below(self.messages.values()))
        return self._newest[message.pk]

    def overtaken(self, hex_id: str) -> Overtaking | None:
        """How the branch with this turn has left the path. ``None``: it is on the path, or they
        chose another version themselves."""
        tail = next((each for each in self.messages.values() if each.public_id.hex == hex_id), None)
        on_path = {place.message.parent_id: place.message for place in self.places}
        each = tail
        while each is not None and each.parent_id not in on_path:
            each = self.messages.get(each.parent_id) if each.parent_id else None
        if tail is None or each is None:
            return None
        # The lowest turn whose parent is on the path, where both branches part.
        version = on_path[each.parent_id]
        if version.pk == each.pk or version.pk in self.choices or self.is_passed_over(each):
            return None
        return Overtaking(
            tail=tail,
            version=version,
            newest=self.newest_below(version),
            is_newer=version.pk > each.pk,
        )

    def has_line_since(self, message: Message, revision: int) -> bool:
        """Returns whether a line below this turn is newer than the revision."""
        lines = (*self.openings.get(message.pk, ()), *self.changes.get(message.pk, ()))
        return any(line.revision > revision for line in lines)

    def newest_sibling_revisions(self) -> dict[int | None, int]:
        newest: dict[int | None, int] = {}
        for message in self.messages.values():
            newest[message.parent_id] = max(newest.get(message.parent_id, 0), message.revision)
        return newest


_messages_of: Prepared[Any] = Prepared(
    lambda room, person: (
        Message.objects.filter(conversation=room)
        .only(
            *("id", "public_id", "conversation_id", "parent_id", "role", "revision"),
            "feedback_revision",
        )
        .annotate(
            is_kept=Subquery(
                BranchChoice.objects.filter(chosen=OuterRef("pk"), user=person).values("is_kept")[
                    :1
                ]
            ),
            # Columns that `chat.conversations.context_start` reads.
            start=F("context_start__pk"),
            start_kind=F("context_start__kind"),
            start_at=F("context_start__created_at"),
            start_by=F("context_start__person__name"),
        )
    )
)


def read_path(user: User, conversation: Conversation) -> Path:
    rows = _messages_of.all(room=conversation.pk, person=user.pk)
    choices = {row.pk: row.is_kept for row in rows if row.is_kept is not None}
    context = conversation.context
    comparisons = read_comparisons(conversation)
    chosen = {row.parent_id: row.pk for row in rows if row.pk in choices}
    places = visible_path(rows, chosen, preferred_in(comparisons))
    keys = [place.message.pk for place in places]
    was_opened = context is not None and context.was_opened
    was_changed = context is not None and context.was_changed
    return Path(
        conversation=conversation,
        places=places,
        messages={row.pk: row for row in rows},
        choices=choices,
        has_lines=was_opened or was_changed,
        openings=placed_below(keys, _openings(conversation)) if was_opened else {},
        changes=(
            lines_below(keys, conversation, for_guest=context.is_guest)
            if context is not None and was_changed
            else {}
        ),
        context=context_of_path(places),
        comparisons=comparisons,
    )


def _openings(conversation: Conversation) -> Sequence[AccessReason]:
    return list(AccessReason.objects.filter(conversation=conversation).order_by("pk"))
