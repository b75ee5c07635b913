"""Servers: who may send to them, with which models, and who may change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Self
from uuid import UUID

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.http import Http404

from chat.access.not_here import NOT_HERE, check_is_active, existing
from chat.core.prepared import Prepared
from chat.models import (
    FavoriteModel,
    GroupMember,
    ModelGrant,
    Run,
    Team,
    Upstream,
    User,
)

# The runs in which the models are looked for that a person used last.
RECENT_RUNS = 50
# The key of nobody, for runs of deleted accounts: a prepared statement takes no ``None``.
NOBODY = 0


# --- the rule ---------------------------------------------------------------------------------------


def _grants(person: Any) -> QuerySet[ModelGrant]:
    """The rule, stated here only: what teams may use of limited servers, and groups of them that the person is in. The
    caller chooses the teams; what counts is the team of the conversation, because a conversation belongs to a team."""
    in_group = GroupMember.objects.filter(group=OuterRef("group"), user=person)
    return ModelGrant.objects.filter(
        Q(group__isnull=True) | Q(Exists(in_group), group__team=F("team"))
    )


_grants_of: Prepared[ModelGrant] = Prepared(
    lambda upstream, person, team: (
        _grants(person).filter(upstream=upstream, team=team).order_by("pk")
    )
)


def grants_at(upstream: int, team: int, person: int | None) -> list[ModelGrant]:
    """The grants of one limited server, for a person in a conversation of this team."""
    return _grants_of.all(upstream=upstream, team=team, person=person or NOBODY)


class _UsableUpstreams(QuerySet[Upstream]):
    """Servers that know the grants of a person in some teams (`Upstream.known_grants`). They are queried only if a server
    is limited."""

    granted: QuerySet[ModelGrant] | None = None

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]
        clone.granted = self.granted
        return clone

    def _fetch_all(self) -> None:
        is_new = self._result_cache is None
        super()._fetch_all()
        found: Sequence[Any] = self._result_cache or ()
        limited = [each for each in found if isinstance(each, Upstream) and each.is_limited]
        if not is_new or not limited or self.granted is None:
            return
        by_server: dict[int, list[ModelGrant]] = defaultdict(list)
        for grant in self.granted.filter(upstream__in=limited).order_by("pk"):
            by_server[grant.upstream_id].append(grant)
        for each in limited:
            each.known_grants = by_server[each.pk]


def _teams_of(user: User) -> QuerySet[Any, Any]:
    return Team.objects.filter(memberships__user=user).values("pk")


# --- who may send -------------------------------------------------------------------------------------


def usable_upstreams(
    user: User, teams: Iterable[Any] | None = None, *, without_models: bool = False
) -> QuerySet[Upstream]:
    """The servers that a user may send to, in conversations of one of these ``teams``, or of any of theirs: every enabled
    one, and of those that are limited to teams the ones that one of the teams has. They offer the models that it has.
    Servers without a list of models are included with ``without_models``, for callers that name a model."""
    if not user.is_authenticated or not user.is_active:
        return Upstream.objects.none()
    if teams is None:
        teams = _teams_of(user)
    granted = _grants(user).filter(team__in=teams)
    is_granted = Q(is_limited=False) | Q(Exists(granted.filter(upstream=OuterRef("pk"))))
    servers = _UsableUpstreams(Upstream).filter(is_granted)
    servers.granted = granted
    return _offered(servers, without_models=without_models)


def enabled_upstreams() -> QuerySet[Upstream]:
    """Every enabled server, for settings of the whole installation, which only administrators change."""
    return _offered(Upstream.objects.all(), without_models=False)


def _offered(servers: QuerySet[Upstream], *, without_models: bool) -> QuerySet[Upstream]:
    # The demo servers in the order of set-up: the first shows the most.
    order_of_demos = Case(When(is_demo=True, then="pk"), default=0)
    enabled = servers.filter(is_enabled=True)
    offered = enabled if without_models else enabled.exclude(model_list=[])
    return offered.order_by("is_demo", order_of_demos, "name")


def get_usable_upstream(
    user: User, public_id: UUID, team: Team | int | None = None, *, known: Upstream | None = None
) -> Upstream:
    """``team``: that of the conversation; without one any team of the person counts. ``known`` is a server that was
    loaded a moment ago: if it is the right one, it is not loaded again."""
    check_is_active(user)
    if known is not None and known.public_id == public_id:
        upstream = known if known.is_enabled else None
    else:
        upstream = Upstream.objects.filter(is_enabled=True, public_id=public_id).first()
    if upstream is None or not _is_granted(user, upstream, team):
        raise Http404(NOT_HERE)
    return upstream


def _is_granted(user: User, upstream: Upstream, team: Team | int | None) -> bool:
    """Returns whether the person may use any of its models, and lets the server know which."""
    if not upstream.is_limited:
        return True
    if team is None:
        grants = list(_grants(user).filter(upstream=upstream, team__in=_teams_of(user)))
    else:
        grants = grants_at(upstream.pk, team.pk if isinstance(team, Team) else team, user.pk)
    upstream.known_grants = grants
    return bool(grants)


def default_model(usable: Iterable[Upstream]) -> tuple[Upstream, str] | None:
    """The model with which new conversations begin, if the teams for which these servers were loaded have one."""
    servers = {each.pk: each for each in usable}
    granted = [grant for each in servers.values() for grant in each.known_grants or ()]
    # The default of a group comes before that of its team, because it is about fewer people.
    for grant in sorted(granted, key=lambda each: (each.group_id is None, each.pk)):
        server = servers[grant.upstream_id]
        if grant.default_model and not server.is_off(grant.default_model):
            return server, grant.default_model
    return None


def favorite_models(user: User) -> list[tuple[UUID, str]]:
    """The models of enabled servers that the user has marked, in this order, each with its server's public id."""
    rows = FavoriteModel.objects.filter(user=user, upstream__is_enabled=True).order_by("pk")
    return list(rows.values_list("upstream__public_id", "model"))


def recent_models(user: User) -> list[tuple[UUID, str]]:
    """The models of enabled servers that the user's last runs used, the last one first. An index has these runs in their
    order, and sending a message stores nothing for it."""
    runs = Run.objects.filter(requested_by=user).order_by("-queued_at")
    rows = runs.values_list("upstream__public_id", "upstream__is_enabled", "model")[:RECENT_RUNS]
    return list(dict.fromkeys((server, model) for server, is_enabled, model in rows if is_enabled))


def get_upstream(user: User, public_id: UUID) -> Upstream:
    """A server's settings: for administrators only; for everyone else it does not exist."""
    if not user.is_authenticated or not user.is_active or not user.is_staff:
        raise Http404(NOT_HERE)
    return existing(Upstream.objects.filter(public_id=public_id).first())


def get_grant(user: User, public_id: UUID, grant_id: UUID) -> ModelGrant:
    """A grant of a server, for administrators only."""
    rows = ModelGrant.objects.filter(upstream=get_upstream(user, public_id), public_id=grant_id)
    return existing(rows.select_related("upstream", "team", "group").first())
