"""Renders what has changed on conversation pages that have a live connection, once for all that show the same
to people with the same rights.

The patches are those of `chat.conversations.page.changes`, but for the list beside the page. What depends
on more than the rights is left to a request: a branch that somebody reads while a colleague goes on in
another one, a composer that appears, and pages that need everything anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.http import Http404
from django.template.loader import render_to_string
from django.utils import timezone

from chat import access
from chat.conversations.page import changes_context
from chat.conversations.page_diff import difference
from chat.conversations.page_state import PageState, read_page_state
from chat.conversations.transcript import read_path
from chat.core.prepared import Prepared
from chat.core.time_zones import zone_named
from chat.live.page_updates import CSRF_PLACE, KEY_PLACE, PageReader, PageUpdate
from chat.models import BranchChoice, Conversation, User


class Rights(NamedTuple):
    """What a page shows of its conversation depends on this, beside what it shows already."""

    may_write: bool
    is_owner: bool
    is_pinned: bool
    # In the conversation's project; without one its name is not shown.
    project_role: str | None
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
    """Who may not read the conversation is left out."""
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
            may_write=access.may_write(user, conversation),
            is_owner=conversation.owner_id == person,
            is_pinned=conversation.is_pinned,
            project_role=access.project_role_of(conversation),
            choices=frozenset(choices[person]),
        )
        for person, (user, conversation) in members.items()
    }


def _update_all(
    readers: Sequence[PageReader], members: Mapping[int, Member]
) -> dict[PageReader, PageUpdate | None]:
    """Of readers with the same page and the same rights."""
    first = readers[0]
    update, is_personal = _update(first, members[first.person])
    updates: dict[PageReader, PageUpdate | None] = dict.fromkeys(readers, update)
    if is_personal:
        for reader in readers[1:]:
            updates[reader], _ = _update(reader, members[reader.person])
    return updates


def _update(reader: PageReader, member: Member) -> tuple[PageUpdate | None, bool]:
    """And whether it is for this person alone."""
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
        # The live connection sends it.
        "place": "",
        "days": None,
    }


def _names_answerers(context: Mapping[str, Any]) -> bool:
    """Whether it says of a question who is answering it, which that person is told in other words."""
    turns = [*context["appended"], *(each.turn for each in context["changed"])]
    cards = (card for turn in turns for run in turn.runs for card in run.asked)
    return any(card.mark != "open" for card in cards if card.is_open)
