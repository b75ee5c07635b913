"""Changes of who may use a server: everyone, or selected teams with their models and limits. Administrators only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Group, ModelGrant, Team, Upstream, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a grant: names and patterns of models, none for all of them, and the largest values of parameters."""

    model_names: Sequence[str] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    default_model: str = ""


def set_limited(actor: User, upstream: Upstream, *, is_limited: bool) -> bool:
    """Limits the server to teams with a grant, or opens it to everyone, which keeps the grants. Returns whether this
    changed anything. Runs that are queued or active go on."""
    with transaction.atomic():
        rows = Upstream.objects.filter(pk=upstream.pk, is_limited=not is_limited)
        changed = rows.update(is_limited=is_limited)
        if changed:
            _record(actor, "upstream.limit" if is_limited else "upstream.unlimit", upstream)
    return bool(changed)


def give(actor: User, upstream: Upstream, place: Team | Group, terms: Terms) -> ModelGrant:
    """Lets a team, or a group of it, use the server. Raises ``ActionRefused`` if it has a grant."""
    group = place if isinstance(place, Group) else None
    team = place.team if isinstance(place, Group) else place
    grant = ModelGrant(upstream=upstream, team=team, group=group)
    try:
        with transaction.atomic():
            _store(actor, grant, terms)
    except IntegrityError:
        words = gettext("%(place)s already has access. Change its entry instead.")
        raise ActionRefused(words % {"place": place_name(grant)}) from None
    return grant


def change(actor: User, grant: ModelGrant, terms: Terms) -> None:
    with transaction.atomic():
        _store(actor, grant, terms)


def _store(actor: User, grant: ModelGrant, terms: Terms) -> None:
    grant.model_names = list(terms.model_names)
    grant.limits = dict(terms.limits)
    grant.default_model = terms.default_model
    grant.save()
    if terms.default_model:
        others = ModelGrant.objects.filter(team=grant.team, group=grant.group).exclude(pk=grant.pk)
        others.update(default_model="")
    _record(
        actor,
        "upstream.grant",
        grant.upstream,
        place=place_name(grant),
        models=grant.model_names,
        limits=grant.limits,
        default=grant.default_model,
    )


def revoke(actor: User, grant: ModelGrant) -> None:
    with transaction.atomic():
        deleted, _ = ModelGrant.objects.filter(pk=grant.pk).delete()
        if deleted:
            _record(actor, "upstream.revoke", grant.upstream, place=place_name(grant))


def place_name(grant: ModelGrant) -> str:
    return f"{grant.team} / {grant.group}" if grant.group else str(grant.team)


def _record(actor: User, verb: str, upstream: Upstream, **detail: object) -> None:
    target = f"{upstream.name} {upstream.public_id}"
    AuditEvent.objects.record(actor, verb, target=target, **detail)  # type: ignore[arg-type]
