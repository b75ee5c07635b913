"""Grants: the models of a limited server that a team, or a group of it, may use, and with which parameters."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from fnmatch import fnmatchcase

from django.db import models
from django.utils.translation import gettext_lazy

from chat.models.participant import Group
from chat.models.team import Team
from chat.models.upstream import Upstream


class ModelGrant(models.Model):
    """A team's access to a server that is limited (`Upstream.is_limited`), or that of a group of it. Several grants add up: a model is
    allowed if one of them allows it, and the most generous limit holds."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    upstream = models.ForeignKey(
        # The constraints' indexes do this, too.
        Upstream,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="grants",
    )
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="model_grants")
    # The group of the team whose members alone have the grant; without one, the whole team has it.
    group = models.ForeignKey(
        Group, null=True, blank=True, on_delete=models.CASCADE, related_name="model_grants"
    )
    # Names of models, and patterns such as "gpt-5*"; empty for all models.
    model_names = models.JSONField(default=list, blank=True)
    # The largest value of numeric parameters, by name.
    limits = models.JSONField(default=dict, blank=True)
    # The model with which new conversations begin. One grant of a team has one, and one of each of its groups.
    default_model = models.CharField(
        gettext_lazy("default model"), max_length=200, blank=True, default=""
    )

    class Meta:
        constraints = [
            # Databases count rows without a group as different, hence the second constraint.
            models.UniqueConstraint(
                fields=["upstream", "team", "group"], name="model_grant_unique_group"
            ),
            models.UniqueConstraint(
                fields=["upstream", "team"],
                condition=models.Q(group__isnull=True),
                name="model_grant_unique_team",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.upstream_id} for {self.team_id}/{self.group_id}"

    def allows(self, model: str) -> bool:
        return not self.model_names or any(
            fnmatchcase(model, pattern) for pattern in self.model_names
        )


def limits_of(grants: Iterable[ModelGrant], model: str) -> dict[str, float]:
    """The largest values of parameters with a model: of several grants the most generous one, and none where one of
    them has none."""
    found = [grant.limits for grant in grants if grant.allows(model)]
    if not found:
        return {}
    named_by_all = set(found[0]).intersection(*found[1:])
    return {name: max(each[name] for each in found) for name in sorted(named_by_all)}
