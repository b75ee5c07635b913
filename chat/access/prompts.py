"""Prompts: who uses them, who changes them."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext

from chat.access.not_here import existing
from chat.models import Membership, Prompt, PromptVersion, User
from chat.models.team import FULL_ROLES, WRITING_ROLES


def visible_prompts(user: User) -> QuerySet[Prompt]:
    """The person's own prompts, and those of teams that they are in, but not as a guest; with ``number``, ``text`` and
    ``variables`` of their newest version."""
    newest = PromptVersion.objects.filter(prompt=OuterRef("pk")).order_by("-number")
    return (
        Prompt.objects.filter(_is_of(user, FULL_ROLES))
        .select_related("team")
        .annotate(
            number=Subquery(newest.values("number")[:1]),
            text=Subquery(newest.values("text")[:1]),
            variables=Subquery(newest.values("variables")[:1]),
        )
    )


def editable_prompts(user: User) -> QuerySet[Prompt]:
    """Their own, and those of teams in which they write."""
    return Prompt.objects.filter(_is_of(user, WRITING_ROLES))


def _is_of(user: User, roles: tuple[str, ...]) -> Q:
    teams = Membership.objects.filter(user=user, role__in=roles).values("team")
    return Q(owner=user) | Q(team__in=teams)


def get_prompt(user: User, public_id: UUID) -> Prompt:
    """A prompt that the user may use."""
    return existing(visible_prompts(user).filter(public_id=public_id).first())


def get_editable_prompt(user: User, public_id: UUID) -> Prompt:
    """A prompt that the user may change and delete."""
    prompt = get_prompt(user, public_id)
    if not may_edit_prompt(user, prompt):
        raise PermissionDenied(gettext("You have read-only access in this team."))
    return prompt


def may_edit_prompt(user: User, prompt: Prompt) -> bool:
    return editable_prompts(user).filter(pk=prompt.pk).exists()
