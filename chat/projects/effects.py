"""The people who gain and lose access to conversations by a move or a change of a project's readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from chat import access
from chat.models import Conversation, Project, ProjectAccess, User


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEffect:
    """The people who may read something only after a change, and those only before it, by name."""

    gaining: Sequence[User] = ()
    losing: Sequence[User] = ()

    @classmethod
    def between(cls, before: Iterable[User], after: Iterable[User]) -> AccessEffect:
        readers, later = set(before), set(after)
        return cls(gaining=_by_name(later - readers), losing=_by_name(readers - later))

    @classmethod
    def of_all(cls, effects: Iterable[AccessEffect]) -> AccessEffect:
        """Somebody may gain access to one conversation and lose it to another."""
        known = list(effects)
        return cls(
            gaining=_by_name({person for each in known for person in each.gaining}),
            losing=_by_name({person for each in known for person in each.losing}),
        )


def _by_name(people: Iterable[User]) -> list[User]:
    return sorted(people, key=lambda person: (str(person).casefold(), person.pk))


def effect_of_move(conversation: Conversation, project: Project | None) -> AccessEffect:
    before = {member.user for member in access.readers_of(conversation)}
    after = {member.user for member in access.members_taking_part(conversation)}
    if project is not None and project.pk == conversation.project_id:
        after = before
    elif project is not None:
        after |= set(access.readers_of_project(project))
    return AccessEffect.between(before, after)


def effect_of_access(user: User, project: Project, new_access: str) -> AccessEffect:
    """The effect of giving the project this access; ``user``, who does it, stays a reader."""
    after = set(access.readers_of_project(project, new_access=new_access))
    if new_access == ProjectAccess.MEMBERS:
        after.add(user)
    return AccessEffect.between(access.readers_of_project(project), after)


def effect_of_adding(project: Project, person: User) -> AccessEffect:
    is_new = project.access == ProjectAccess.MEMBERS and not _reads(project, person)
    return AccessEffect(gaining=[person] if is_new else [])


def effect_of_removing(project: Project, person: User) -> AccessEffect:
    is_loss = project.access == ProjectAccess.MEMBERS and _reads(project, person)
    return AccessEffect(losing=[person] if is_loss else [])


def _reads(project: Project, person: User) -> bool:
    return access.readers_of_project(project).filter(pk=person.pk).exists()


def shared_conversations(user: User, project: Project) -> QuerySet[Conversation]:
    """The conversations that readers of the project read through it, if this user reads them, too."""
    inside = access.visible_conversations(user).filter(project=project)
    return inside.filter(access.IS_SHARED_WITH_PROJECT).order_by("-updated_at", "-pk")
