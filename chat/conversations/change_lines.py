"""The lines about changes of a conversation: who renamed, shared, moved or archived it, and when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat.models import ChangeKind, Conversation, ConversationChange, ConversationRole

# Below one turn so many lines are shown one by one; more are a fold of one line.
MOST_SINGLE = 2


class Following(Protocol):
    """A record that a line is about, which follows a message."""

    @property
    def after_id(self) -> int | None: ...


F = TypeVar("F", bound=Following)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLine:
    """A change in a sentence. Its names and titles are text from people. ``revision``: that of the
    conversation from then on."""

    pk: int
    sentence: str
    at: datetime
    revision: int


_SENTENCES: Mapping[str, Promise] = {
    ChangeKind.RENAMED: gettext_lazy("%(actor)s renamed this conversation to “%(name)s”"),
    ChangeKind.LEFT: gettext_lazy("%(actor)s left this conversation"),
    ChangeKind.REMOVED: gettext_lazy("%(actor)s removed %(who)s"),
    ChangeKind.TAKEN_OVER: gettext_lazy(
        "%(actor)s took over this conversation, which had no manager"
    ),
    ChangeKind.PRIVATE: gettext_lazy("%(actor)s limited access to the people added here"),
    ChangeKind.TEAM_READS: gettext_lazy("%(actor)s let everyone in the team read"),
    ChangeKind.TEAM_WRITES: gettext_lazy("%(actor)s let everyone in the team read and reply"),
    ChangeKind.PROJECT: gettext_lazy("%(actor)s shared this conversation with its project"),
    ChangeKind.MOVED_IN: gettext_lazy("%(actor)s moved this conversation to a project"),
    ChangeKind.MOVED_OUT: gettext_lazy("%(actor)s moved this conversation out of its project"),
    ChangeKind.ARCHIVED: gettext_lazy("%(actor)s archived this conversation"),
    ChangeKind.UNARCHIVED: gettext_lazy("%(actor)s unarchived this conversation"),
    ChangeKind.KEPT: gettext_lazy("%(actor)s made this conversation permanent"),
    ChangeKind.RESTORED: gettext_lazy("%(actor)s restored this conversation from the trash"),
    ChangeKind.SETTINGS_SHOWN: gettext_lazy(
        "%(actor)s let readers see the system prompt, parameters and tools"
    ),
    ChangeKind.SETTINGS_HIDDEN: gettext_lazy(
        "%(actor)s hid the system prompt, parameters and tools from readers"
    ),
    ChangeKind.QUEUED_SENT: gettext_lazy("%(actor)s sent the queued message of %(who)s"),
    ChangeKind.QUEUED_REMOVED: gettext_lazy("%(actor)s removed the queued message of %(who)s"),
    ChangeKind.CONTEXT_CUT: gettext_lazy(
        "%(actor)s left out the messages before “%(name)s”: the model no longer gets them"
    ),
    ChangeKind.CONTEXT_WHOLE: gettext_lazy(
        "%(actor)s included all messages again: the model gets the whole conversation"
    ),
}
_BY_ROLE: Mapping[tuple[str, str], Promise] = {
    (ChangeKind.SHARED, ConversationRole.READER): gettext_lazy("%(actor)s added %(who)s as reader"),
    (ChangeKind.SHARED, ConversationRole.WRITER): gettext_lazy("%(actor)s added %(who)s as writer"),
    (ChangeKind.SHARED, ConversationRole.MANAGER): gettext_lazy(
        "%(actor)s added %(who)s as manager"
    ),
    (ChangeKind.ROLE, ConversationRole.READER): gettext_lazy("%(actor)s made %(who)s a reader"),
    (ChangeKind.ROLE, ConversationRole.WRITER): gettext_lazy("%(actor)s made %(who)s a writer"),
    (ChangeKind.ROLE, ConversationRole.MANAGER): gettext_lazy("%(actor)s made %(who)s a manager"),
}


def sentence_of(change: ConversationChange, *, for_guest: bool = False) -> str:
    """``for_guest``: a guest of the team doesn't learn the names of its groups."""
    sentence = _BY_ROLE.get((change.kind, change.role)) or _SENTENCES[change.kind]
    nobody = gettext("Deleted user")
    if change.person is not None:
        who = change.person.name
    elif for_guest and change.name:
        who = gettext("a group")
    else:
        who = change.name or nobody
    actor = change.actor.name if change.actor else nobody
    return str(sentence) % {"actor": actor, "who": who, "name": change.name}


def read_changes(conversation: Conversation) -> Sequence[ConversationChange]:
    """The changes of a conversation in their order."""
    rows = ConversationChange.objects.filter(conversation=conversation)
    return list(rows.select_related("actor", "person").order_by("pk"))


def line_of(change: ConversationChange, *, for_guest: bool = False) -> ChangeLine:
    return ChangeLine(
        pk=change.pk,
        sentence=sentence_of(change, for_guest=for_guest),
        at=change.at,
        revision=change.revision,
    )


def lines_below(
    keys: Iterable[int], conversation: Conversation, *, for_guest: bool = False
) -> dict[int, list[ChangeLine]]:
    """The lines below the turns with these keys, by key."""
    placed = placed_below(keys, read_changes(conversation))
    return {
        key: [line_of(each, for_guest=for_guest) for each in changes]
        for key, changes in placed.items()
    }


def placed_below(keys: Iterable[int], records: Iterable[F]) -> dict[int, list[F]]:
    """The records below the last of these turns that existed at their time, whichever branch it is on; the
    first turn has the earlier ones."""
    order = sorted(keys)
    found: dict[int, list[F]] = {}
    for record in records:
        position = bisect_right(order, record.after_id or 0)
        for key in order[max(position - 1, 0) :][:1]:
            found.setdefault(key, []).append(record)
    return found
