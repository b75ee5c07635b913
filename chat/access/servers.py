"""Servers: who may send to them and who may change them."""

from __future__ import annotations

from uuid import UUID

from django.db.models import (
    Case,
    QuerySet,
    When,
)
from django.http import Http404

from chat.access.not_here import NOT_HERE
from chat.models import (
    Upstream,
    User,
)


def usable_upstreams(user: User, *, without_models: bool = False) -> QuerySet[Upstream]:
    """The servers that a user may send to: every enabled one, for anyone who is signed in. Servers
    without a list of models are included with ``without_models``, for callers that name a model."""
    if not user.is_authenticated or not user.is_active:
        return Upstream.objects.none()
    # The demo servers in the order of set-up: the first shows the most.
    order_of_demos = Case(When(is_demo=True, then="pk"), default=0)
    enabled = Upstream.objects.filter(is_enabled=True)
    offered = enabled if without_models else enabled.exclude(model_list=[])
    return offered.order_by("is_demo", order_of_demos, "name")


def get_usable_upstream(user: User, public_id: UUID, *, known: Upstream | None = None) -> Upstream:
    """``known`` is a server that was loaded a moment ago: if it is the right one, it is not loaded
    again."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
    if known is not None and known.public_id == public_id:
        upstream = known if known.is_enabled else None
    else:
        upstream = Upstream.objects.filter(is_enabled=True, public_id=public_id).first()
    if upstream is None:
        raise Http404(NOT_HERE)
    return upstream


def get_upstream(user: User, public_id: UUID) -> Upstream:
    """A server's settings: for administrators only; for everyone else it does not exist."""
    if not user.is_authenticated or not user.is_active or not user.is_staff:
        raise Http404(NOT_HERE)
    upstream = Upstream.objects.filter(public_id=public_id).first()
    if upstream is None:
        raise Http404(NOT_HERE)
    return upstream
