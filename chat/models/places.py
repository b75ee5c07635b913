"""The place of what people set up once and use often: a person's own, a project's, or a team's."""

from __future__ import annotations

from django.db.models import Q


def one_of(*names: str) -> Q:
    """The condition that exactly one of these fields is set."""
    condition = Q()
    for name in names:
        condition |= Q(**{f"{each}__isnull": each != name for each in names})
    return condition
