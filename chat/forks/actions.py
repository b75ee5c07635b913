"""Forks a conversation: a person goes on with a copy of it, in a conversation of their own.

Callers have loaded the conversation through `chat.access`, with the right to fork it.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.conversations.paths import read_path
from chat.core import notify
from chat.core.errors import ActionRefused, AnswerLive, storage_errors
from chat.files.storage import check_room
from chat.forks.copying import NotEnded, PathCopy, files_of, has_ended
from chat.models import (
    AuditEvent,
    Conversation,
    Fork,
    Message,
    Project,
    Role,
    RunInstructions,
    User,
)
from chat.models.imports import imported_names
from chat.models.tree import path_to


def fork(
    user: User, conversation: Conversation, *, at: Message | None = None, idempotency_key: UUID
) -> Conversation:
    """A private conversation of this user with the path that leads to a message; without one, with the
    path that they see, up to its last answer that has ended. The same key always gives the same
    conversation. Raises ``ActionRefused``."""
    with storage_errors():
        if known := _known(user, idempotency_key):
            return known
        messages = _path(user, conversation, at)
        try:
            with transaction.atomic():
                return _fork(user, conversation, messages, idempotency_key)
        except NotEnded:
            raise AnswerLive(_not_ended()) from None
        except IntegrityError:
            # A concurrent request may have inserted the same key first.
            if known := _known(user, idempotency_key):
                return known
            raise ActionRefused(
                gettext("This conversation has just changed. Reload the page.")
            ) from None


def _not_ended() -> str:
    return gettext("This answer isn’t finished yet. Wait for it to finish, or stop it.")


def _known(user: User, key: UUID) -> Conversation | None:
    rows = Fork.objects.filter(person=user, idempotency_key=key).select_related("conversation")
    known = rows.first()
    return known.conversation if known is not None else None


def _path(user: User, conversation: Conversation, at: Message | None) -> Sequence[Message]:
    path = read_path(user, conversation)
    if at is None:
        light = [place.message for place in path.places]
        if path.undecided is not None:
            light[-1:] = path.answers_of(path.undecided)
            if not has_ended(light):
                del light[-1 - len(path.answers_of(path.undecided)) :]
        # The answer that is written now, and the message that it answers.
        while light and not has_ended(light[-1:]):
            del light[-2:]
    else:
        light = path_to(path.messages[at.pk], path.messages)
        if not has_ended(light):
            raise AnswerLive(_not_ended())
    if not light:
        raise ActionRefused(gettext("There is nothing to copy yet."))
    full = Message.objects.in_bulk([each.pk for each in light])
    return [full[each.pk] for each in light if each.pk in full]


def _fork(user: User, source: Conversation, messages: Sequence[Message], key: UUID) -> Conversation:
    with_settings = access.may_see_settings(user, source)
    _check_storage(user, messages)
    room = _create_room(user, source, with_settings=with_settings)
    copy = PathCopy(
        room=room,
        owner=user,
        messages=messages,
        with_settings=with_settings,
        names=imported_names(source.pk),
        projects=_readable_projects(user, source),
    )
    copy.copy()
    Fork.objects.create(
        conversation=room,
        source=source,
        person=user,
        idempotency_key=key,
        names=copy.copied_names,
    )
    AuditEvent.objects.record(
        user,
        "conversation.forked",
        subject=source.owner,
        target=str(source.public_id),
        into=str(room.public_id),
    )
    notify.publish_after_commit(notify.room_topic(room.public_id))
    return room


def _create_room(user: User, source: Conversation, *, with_settings: bool) -> Conversation:
    """It stays in the project if its owner writes there. A copy of a temporary conversation ends when that
    does."""
    upstream = source.upstream
    if upstream is not None:
        servers = access.usable_upstreams(user, [source.team])
        upstream = servers.filter(pk=upstream.pk).first()
    settings = {
        "system_prompt": source.system_prompt,
        "parameters": source.parameters,
        "preset_version": source.preset_version,
    }
    room = Conversation.objects.create(
        team=source.team,
        owner=user,
        project=_writable_project(user, source),
        title=source.title,
        upstream=upstream,
        model=source.model if upstream is not None else "",
        expires_at=source.expires_at,
        updated_at=timezone.now(),
        **(settings if with_settings else {}),
    )
    if with_settings:
        room.tools.set(source.tools.all())
        room.skills.set(access.visible_skills(user).filter(conversations=source))
    return room


def _writable_project(user: User, source: Conversation) -> Project | None:
    if source.project_id is None:
        return None
    return access.writable_projects(user).filter(pk=source.project_id).first()


def _readable_projects(user: User, source: Conversation) -> frozenset[int]:
    sent = RunInstructions.objects.filter(run__conversation=source)
    readable = access.visible_projects(user).filter(pk__in=sent.values("project"))
    return frozenset(readable.values_list("pk", flat=True))


def _check_storage(user: User, messages: Sequence[Message]) -> None:
    """Files that people attached count for the owner of the copy, too. Those of answers are never
    refused."""
    keys = [each.pk for each in messages if each.role == Role.USER]
    files = [each for each in files_of(keys, []) if not each.is_deleted]
    check_room(user, {each.sha256: each.size_bytes for each in files})
