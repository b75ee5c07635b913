"""Pins, archive and trash. Callers have loaded every conversation through `chat.access`."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat import access
from chat.conversations.actions.conversation import count_rearrangement
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, ChangeKind, Conversation, ConversationChange, Pin, User

# The topic of the task that erases what nobody can restore any more.
PURGE = "purge"
# Pins fill at most a screen and a half; more would push the recent ones out of sight.
MOST_PINS = 50


# --- pins ---------------------------------------------------------------------------------------


def shown_pins(user: User) -> Sequence[Pin]:
    """A person's pins in their order, without those of conversations that are archived, or that they
    can't read at present."""
    listed = access.visible_conversations(user).filter(archived_at__isnull=True)
    return list(_pins(user).filter(conversation__in=listed))


def _pins(user: User) -> QuerySet[Pin]:
    return Pin.objects.filter(user=user).order_by("position", "pk")


def pin(user: User, conversation: Conversation, place: int | None = None) -> None:
    """Pins a conversation for this person, or moves its pin. ``place`` counts the pins that are
    shown, from 0; without one a new pin is the last, and an old one stays where it is."""
    with transaction.atomic():
        _count_change(user)
        order = list(_pins(user))
        mine = next((each for each in order if each.conversation_id == conversation.pk), None)
        if mine is None:
            if len(order) >= MOST_PINS:
                raise ActionRefused(_too_many())
            mine = Pin.objects.create(user=user, conversation=conversation, position=len(order))
            order.append(mine)
        if place is not None:
            order.remove(mine)
            order.insert(_index_of(order, shown_pins(user), mine, place), mine)
        for position, each in enumerate(order):
            each.position = position
        Pin.objects.bulk_update(order, ["position"])


def _index_of(order: Sequence[Pin], shown: Sequence[Pin], mine: Pin, place: int) -> int:
    """The index in ``order``, without ``mine``, that puts the pin at this place among the shown ones."""
    others = [each for each in shown if each != mine]
    if place < len(others):
        return order.index(others[place])
    return order.index(others[-1]) + 1 if others else len(order)


def _too_many() -> str:
    return ngettext(
        "You can pin at most %(count)d conversation.",
        "You can pin at most %(count)d conversations.",
        MOST_PINS,
    ) % {"count": MOST_PINS}


def unpin(user: User, conversation: Conversation) -> None:
    with transaction.atomic():
        _count_change(user)
        Pin.objects.filter(user=user, conversation=conversation).delete()


def _count_change(user: User) -> None:
    """Part of the version of the person's list (`chat.conversations.list_version`). It comes first: changes
    of the same person's pins wait for each other at this row."""
    User.objects.filter(pk=user.pk).update(pin_changes=F("pin_changes") + 1)


# --- archive and trash --------------------------------------------------------------------------


def archive(user: User, conversation: Conversation) -> None:
    """Takes a conversation out of the sidebar of everybody. Its runs continue."""
    with transaction.atomic():
        row = _row(conversation, archived_at__isnull=True)
        if _change(conversation, row, archived_at=timezone.now()):
            ConversationChange.objects.record(user, conversation, ChangeKind.ARCHIVED)


def unarchive(user: User, conversation: Conversation) -> None:
    with transaction.atomic():
        if _change(conversation, _row(conversation, archived_at__isnull=False), archived_at=None):
            ConversationChange.objects.record(user, conversation, ChangeKind.UNARCHIVED)


def keep(user: User, conversation: Conversation) -> None:
    """A temporary conversation becomes an ordinary one."""
    with transaction.atomic():
        if _change(conversation, _row(conversation, expires_at__gt=Now()), expires_at=None):
            ConversationChange.objects.record(user, conversation, ChangeKind.KEPT)


def restore(user: User, conversation: Conversation) -> None:
    """Takes a conversation out of the trash, to where it was."""
    with transaction.atomic():
        _change_trashed(conversation, access.trashed_conversations(user), deleted_at=None)
        ConversationChange.objects.record(user, conversation, ChangeKind.RESTORED)
        _record(user, "conversation.restore", conversation)


def erase(user: User, conversation: Conversation) -> None:
    """Deletes what is in the trash for ever: from now on nobody can restore it, and a runner removes
    its rows, as soon as no answer is written into them."""
    with transaction.atomic():
        _change_trashed(conversation, access.own_trashed_conversations(user), expires_at=Now())
        _record(user, "conversation.erase", conversation)
    notify.publish_after_commit(PURGE)


def _change_trashed(
    conversation: Conversation, trashed: QuerySet[Conversation], **changes: object
) -> None:
    rows = Conversation.objects.filter(pk__in=trashed.filter(pk=conversation.pk).values("pk"))
    if not _change(conversation, rows, **changes):
        raise ActionRefused(gettext("This conversation isn’t in the trash anymore."))


def _record(user: User, verb: str, conversation: Conversation) -> None:
    AuditEvent.objects.record(
        user, verb, subject=conversation.owner, target=str(conversation.public_id)
    )


def _row(conversation: Conversation, **conditions: object) -> QuerySet[Conversation]:
    return Conversation.objects.filter(pk=conversation.pk, **conditions)


def _change(conversation: Conversation, rows: QuerySet[Conversation], **changes: object) -> bool:
    """Changes the row if it is still as ``rows`` expects it; False if somebody else was faster."""
    with transaction.atomic():
        if not rows.update(**changes):
            return False
        conversation.touch_quietly()
        count_rearrangement(conversation)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
    return True
