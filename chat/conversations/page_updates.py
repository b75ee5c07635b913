"""Renders what has changed on conversation pages that have a live connection, once for all that show the same
to people with the same rights.

The patches are those of `chat.conversations.page.changes`, but for the list beside the page. Pages
request changes that depend on more than the rights: a branch that somebody reads while a colleague
continues another one, a composer that appears, and complete renderings.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django.http import Http404
from django.template.loader import render_to_string
from django.utils import timezone

from chat import access
from chat.conversations.page import cards_in, changes_context
from chat.conversations.page_diff import difference
from chat.conversations.page_state import PageState, read_page_state
from chat.conversations.paths import read_path
from chat.core.prepared import Prepared
from chat.core.time_zones import zone_named
from chat.live.messages import encode
from chat.models import BranchChoice, Conversation, User

# Placeholders in the HTML of an update for the viewer's own CSRF token, and for an idempotency key that
# no other page has. Nobody can know them, so no text of a conversation contains one.
CSRF_PLACE = secrets.token_hex(16)
KEY_PLACE = secrets.token_hex(16)


class PageReader(NamedTuple):
    """A person and the page that they look at. ``zone`` is the name of their time zone, if it is known."""

    person: int
    state: bytes
    zone: str = ""


@dataclass(frozen=True, kw_only=True)
class PageUpdate:
    """Patches that bring a page to this revision, with placeholders for the values of each viewer."""

    revision: int
    html: str

    @cached_property
    def _encoded(self) -> list[str]:
        """The HTML as JSON, split at the places of keys."""
        return encode(self.html).split(KEY_PLACE)

    def message(self, room: UUID, number: int, csrf_token: str) -> str:
        first, *others = self._encoded
        parts = [first, *(f"{uuid.uuid4()}{other}" for other in others)]
        content = "".join(parts).replace(CSRF_PLACE, csrf_token)
        about = f'"channel":"page","room":"{room.hex}","revision":{self.revision},"page":{number}'
        return f'{{{about},"content":{content}}}'


class Rights(NamedTuple):
    """The rights that decide, beside its state, how a page is updated."""

    may_write: bool
    may_manage: bool
    is_owner: bool
    is_guest: bool
    is_pinned: bool
    may_fork: bool
    # The name of the project is shown only to people who read it.
    reads_project: bool
    # The branches that they have chosen.
    choices: frozenset[tuple[int, bool]]


class Member(NamedTuple):
    """A person who may read the conversation, and the conversation as it was loaded for them. Only the key
    of ``user`` is set: what is rendered is the same for others."""

    user: User
    conversation: Conversation


def render_updates(
    room: UUID, readers: Sequence[PageReader]
) -> dict[PageReader, PageUpdate | None]:
    """The updates of those readers who may still read the conversation."""
    members = _members(room, {reader.person for reader in readers})
    rights = _rights(members)
    alike: defaultdict[object, list[PageReader]] = defaultdict(list)
    for reader in readers:
        if reader.person in members:
            alike[reader.state, reader.zone, rights[reader.person]].append(reader)
    updates: dict[PageReader, PageUpdate | None] = {}
    for some in alike.values():
        updates |= _update_all(some, members)
    return updates


def _members(room: UUID, people: Collection[int]) -> dict[int, Member]:
    """The right to read is checked by the function that requests use."""
    members: dict[int, Member] = {}
    for person in sorted(people):
        user = User(pk=person)
        try:
            members[person] = Member(user, access.get_conversation(user, room))
        except Http404:
            continue
    return members


_choices_in: Prepared[Any] = Prepared(
    lambda room: BranchChoice.objects.filter(conversation=room).values_list(
        "user_id", "chosen_id", "is_kept"
    )
)


def _rights(members: Mapping[int, Member]) -> dict[int, Rights]:
    choices: defaultdict[int, set[tuple[int, bool]]] = defaultdict(set)
    if len(members) > 1:
        conversation = next(iter(members.values())).conversation
        for person, chosen, is_kept in _choices_in.all(room=conversation.pk):
            choices[person].add((chosen, is_kept))
    return {
        person: Rights(
            may_write=context.may_write,
            may_manage=context.may_manage,
            is_guest=context.is_guest,
            is_owner=conversation.owner_id == person,
            is_pinned=context.is_pinned,
            may_fork=context.may_fork,
            reads_project=context.reads_project,
            choices=frozenset(choices[person]),
        )
        for person, (user, conversation) in members.items()
        for context in [access.context_of(user, conversation)]
    }


def _update_all(
    readers: Sequence[PageReader], members: Mapping[int, Member]
) -> dict[PageReader, PageUpdate | None]:
    """The updates of readers with the same page and the same rights."""
    first = readers[0]
    update, is_personal = _update(first, members[first.person])
    updates: dict[PageReader, PageUpdate | None] = dict.fromkeys(readers, update)
    if is_personal:
        for reader in readers[1:]:
            updates[reader], _ = _update(reader, members[reader.person])
    return updates


def _update(reader: PageReader, member: Member) -> tuple[PageUpdate | None, bool]:
    """The update, and whether it is for this person alone."""
    position = read_page_state(reader.state)
    context = None if position is None else _context(member, position)
    if context is None:
        return None, False
    with timezone.override(zone_named(reader.zone)):
        html = render_to_string("conversations/changes.html", context)
    revision = member.conversation.revision
    return PageUpdate(revision=revision, html=html), _names_answerers(context)


def _context(member: Member, position: PageState) -> dict[str, Any] | None:
    """``None`` for what is left to a request."""
    user, conversation = member
    may_write = access.may_write(user, conversation)
    path = read_path(user, conversation)
    change = difference(path, position, may_write=may_write)
    if position.writes != may_write or change.is_whole or path.overtaken(position.tail):
        return None
    context = changes_context(user, path, position, change)
    if may_write and bool(position.tools) != bool(context["tool_choice"].mark):
        return None
    return context | {
        "user": user,
        "csrf_token": CSRF_PLACE,
        "retry_key": KEY_PLACE,
    }


def _names_answerers(context: Mapping[str, Any]) -> bool:
    """Returns whether it says of a question who is answering it, which that person is told in other words, or shows
    decisions of one person."""
    turns = [*context["appended"], *(each.turn for each in context["changed"])]
    is_for_one = getattr(context.get("tool_choice"), "names_reader", False)
    waits = context["waits"]
    is_for_one = is_for_one or (waits is not None and waits.person is not None)
    return is_for_one or any(card.names_reader for card in cards_in(turns))
