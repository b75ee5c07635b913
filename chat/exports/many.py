"""Exports of many conversations: which ones, one after the other, and each as a file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

from django.db import DatabaseError
from django.db.models import Exists, QuerySet
from msgspec import MsgspecError

from chat import access
from chat.exports.forms import FORMS
from chat.exports.json_form import write_json
from chat.exports.names import unique_stem_of
from chat.exports.reading import Source, exportable, read_source
from chat.models import Conversation, JobScope, Team, User

# Errors of one conversation, after which the others are still exported.
UNREADABLE = (OSError, ValueError, MsgspecError, zlib.error, DatabaseError)
FORMS_OF_MANY = ("markdown", "json", "html")


def owned_by(user: User) -> QuerySet[Conversation]:
    """The user's conversations, also if the account is disabled."""
    return exportable(access.owned_conversations(user))


def shared_in(team: Team) -> QuerySet[Conversation]:
    return exportable(access.conversations_shared_with(team))


def everything() -> QuerySet[Conversation]:
    return exportable(Conversation.objects.all())


def allowed_to(user: User, scope: str, team: Team | None) -> QuerySet[Conversation]:
    """The conversations of this scope that this user may export: for owners of the team those it
    shares and they can read, for administrators all. The user's rights are part of the query, so
    they count whenever it is evaluated."""
    if scope == JobScope.OWN:
        return exportable(access.visible_conversations(user).filter(owner=user))
    if scope == JobScope.TEAM and team is not None:
        visible = access.visible_conversations(user).values("pk")
        owned = access.owned_teams(user).values("pk")
        return shared_in(team).filter(team__in=owned, pk__in=visible)
    administrators = User.objects.filter(pk=user.pk, is_staff=True, is_active=True)
    return everything().filter(Exists(administrators))


def one_by_one(keys: list[int], chosen: QuerySet[Conversation]) -> Iterator[Conversation | None]:
    """The conversations with these keys. Each is loaded when its turn comes, which may be hours
    later; ``None`` for one that is no longer among the chosen ones."""
    for key in keys:
        yield chosen.filter(pk=key).select_related("team", "owner", "upstream").first()


def keys_of(chosen: QuerySet[Conversation]) -> list[int]:
    return list(chosen.order_by("pk").values_list("pk", flat=True))


def file_name_of(conversation: Conversation, form: str) -> str:
    return f"{unique_stem_of(conversation)}.{FORMS[form].suffix}"


def write_to(
    file: IO[bytes],
    reader: User,
    conversation: Conversation,
    form: str,
    *,
    with_files: bool = True,
    is_complete: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Writes the conversation as ``reader`` sees it, or for an administrator completely. ``check`` is called for each part and may
    raise to end the export. Raises ``UNREADABLE``."""
    write: Callable[[Source], Iterator[bytes]] = FORMS[form].write
    if form == "json":
        write = partial(write_json, with_contents=with_files)
    for part in write(read_source(reader, conversation, is_complete=is_complete)):
        file.write(part)
        check()
