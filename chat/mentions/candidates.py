"""People whom somebody may mention in a conversation, by a part of their name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chat import access
from chat.mentions.records import nameable
from chat.models import Conversation, User
from chat.search.tokens import folded

# Shown at once; a longer word finds the others.
MOST_FOUND = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A person, and the text of their mention without "@": the email address if others have their name."""

    person: User
    name: str
    has_access: bool


def candidates(user: User, conversation: Conversation, words: str) -> Sequence[Candidate]:
    """The people with access first, then by name. A word begins the name, or one of its parts."""
    wanted = folded(words.strip())
    members = nameable(user, conversation).select_related("user")
    people = [member.user for member in members.order_by("user__name", "user__email")]
    alike = Counter(person.name.casefold() for person in people)
    found = [person for person in people if person.pk != user.pk and _is_named(person, wanted)]
    readers = access.readers_of(conversation).filter(user__in=found)
    able = set(readers.values_list("user", flat=True))
    in_order = sorted(found, key=lambda person: person.pk not in able)
    return [
        Candidate(
            person=person,
            name=person.name if alike[person.name.casefold()] == 1 else person.email,
            has_access=person.pk in able,
        )
        for person in in_order[:MOST_FOUND]
    ]


def _is_named(person: User, wanted: str) -> bool:
    name = folded(person.name)
    return (
        name.startswith(wanted) or f" {wanted}" in name or folded(person.email).startswith(wanted)
    )
