"""Exports of many conversations: which ones, one after the other, and each as a file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

from django.db import DatabaseError
from django.db.models import Exists, Q, QuerySet
from msgspec import MsgspecError

from chat.exports.forms import FORMS
from chat.exports.json_form import write_json
from chat.exports.names import unique_stem_of
from chat.exports.reading import Source, exportable, read_source
from chat.models import (
    Conversation,
    JobScope,
    Membership,
    ProjectAccess,
    Team,
    TeamRole,
    User,
    Visibility,
)

# What reading or writing one conversation raises; the others can be exported all the same.
UNREADABLE = (OSError, ValueError, MsgspecError, zlib.error, DatabaseError)
# The forms of many conversations.
FORMS_OF_MANY = ("markdown", "json", "html")


def owned_by(user: User) -> QuerySet[Conversation]:
    """Not what is in a team that they have left: that is no longer theirs to read."""
    return exportable(Conversation.objects.visible_to(user).filter(owner=user))


def shared_in(team: Team) -> QuerySet[Conversation]:
    """What the whole team reads, also in projects."""
    in_open_project = Q(visibility=Visibility.PROJECT, project__access=ProjectAccess.TEAM)
    shared = Q(visibility=Visibility.TEAM) | in_open_project
    return exportable(Conversation.objects.filter(shared, team=team))


def everything() -> QuerySet[Conversation]:
    return exportable(Conversation.objects.all())


def allowed_to(user: User, scope: str, team: Team | None) -> QuerySet[Conversation]:
    """What this user may export of this scope: for owners of the team what it shares, as far as
    they can read it, and for administrators everything. Their rights are part of the query, so that
    they count whenever it is evaluated."""
    if scope == JobScope.OWN:
        return owned_by(user)
    if scope == JobScope.TEAM and team is not None:
        owners = Membership.objects.filter(user=user, team=team, role=TeamRole.OWNER)
        visible = Conversation.objects.visible_to(user).values("pk")
        return shared_in(team).filter(Exists(owners), pk__in=visible)
    administrators = User.objects.filter(pk=user.pk, is_staff=True, is_active=True)
    return everything().filter(Exists(administrators))


def one_by_one(keys: list[int], chosen: QuerySet[Conversation]) -> Iterator[Conversation | None]:
    """The conversations with these keys. Each is loaded when its turn comes, which may be hours
    later; ``None`` for one that is no longer among the chosen ones."""
    for key in keys:
        yield chosen.filter(pk=key).select_related("team", "owner", "upstream").first()


def keys_of(chosen: QuerySet[Conversation]) -> list[int]:
    """In the order of their creation."""
    return list(chosen.order_by("pk").values_list("pk", flat=True))


def file_name_of(conversation: Conversation, form: str) -> str:
    return f"{unique_stem_of(conversation)}.{FORMS[form].suffix}"


def write_to(
    file: IO[bytes], reader: User, conversation: Conversation, form: str, *, with_files: bool = True
) -> None:
    """Writes the conversation as ``reader`` sees it. Raises ``UNREADABLE``."""
    write: Callable[[Source], Iterator[bytes]] = FORMS[form].write
    if form == "json":
        write = partial(write_json, with_contents=with_files)
    file.writelines(write(read_source(reader, conversation)))
