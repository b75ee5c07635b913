"""Rights that people have by their groups at a provider, applied at each sign-in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db import transaction

from chat import access
from chat.accounts.actions.people import end_membership
from chat.core.notify import QUEUED, publish_after_commit
from chat.identity.claims import is_below
from chat.models import (
    AuditEvent,
    GroupMember,
    GroupRule,
    Identity,
    ManagedMembership,
    Membership,
    TeamRole,
    User,
)

logger = logging.getLogger(__name__)

# The first of those that the rules give counts.
BY_POWER = (TeamRole.OWNER, TeamRole.ADMIN, TeamRole.MEMBER, TeamRole.VIEWER, TeamRole.GUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Roles by the key of the team, keys of groups of teams, and administrator rights."""

    roles: Mapping[int, str] = field(default_factory=dict)
    groups: frozenset[int] = frozenset()
    is_administrator: bool = False


def rights_of(claimed: Iterable[str], rules: Iterable[GroupRule]) -> Rights:
    """The rights that the rules of a provider give to somebody with these groups. Of several roles in a team, the
    strongest counts."""
    claimed = tuple(claimed)
    matched = [rule for rule in rules if any(is_below(each, rule.claimed) for each in claimed)]
    roles: dict[int, str] = {}
    for rule in matched:
        if rule.team_id is not None:
            roles[rule.team_id] = stronger(rule.role, roles.get(rule.team_id))
    return Rights(
        roles=roles,
        groups=frozenset(rule.group_id for rule in matched if rule.group_id is not None),
        is_administrator=any(rule.makes_administrator for rule in matched),
    )


def stronger(role: str, other: str | None) -> str:
    return role if other is None else min(role, other, key=lambda each: BY_POWER.index(each))


def apply_rights(user: User) -> None:
    """Gives the person what their groups at all of their providers give, and takes what came from groups that they no
    longer have. What people of this installation gave stays."""
    with transaction.atomic():
        # Two sign-ins of a person at once apply their rights one after the other.
        user = User.objects.select_for_update().get(pk=user.pk)
        identities = list(
            Identity.objects.filter(user=user)
            .select_related("provider")
            .prefetch_related("provider__rules")
        )
        given = {
            identity: rights_of(identity.groups, identity.provider.rules.all())
            for identity in identities
        }
        _apply_roles(user, given)
        _apply_groups(user, given)
        _apply_administrator(user, given)
        # Waiting runs of somebody who has lost a team end when a runner looks at them.
        publish_after_commit(QUEUED)


def _apply_roles(user: User, given: Mapping[Identity, Rights]) -> None:
    wanted: dict[int, tuple[str, Identity]] = {}
    for identity, rights in given.items():
        for team, role in rights.roles.items():
            before = wanted.get(team)
            if before is None or stronger(role, before[0]) != before[0]:
                wanted[team] = role, identity
    rows = Membership.objects.filter(user=user).select_related("team", "user", "managed")
    for membership in rows:
        role, source = wanted.pop(membership.team_id, (None, None))
        if role is not None and source is not None:
            _change_role(membership, role, source)
            _mark(membership, source)
        elif hasattr(membership, "managed"):
            _end(membership)
    for team, (role, source) in wanted.items():
        membership = Membership.objects.create(team_id=team, user=user, role=role)
        _mark(membership, source)
        _audit("identity.team_joined", membership, source, role=role)


def _mark(membership: Membership, identity: Identity) -> None:
    ManagedMembership.objects.update_or_create(
        membership=membership, defaults={"identity": identity}
    )


def _change_role(membership: Membership, role: str, source: Identity) -> None:
    before = membership.role
    if before == role or (before == TeamRole.OWNER and _is_last_owner(membership)):
        return
    Membership.objects.filter(pk=membership.pk).update(role=role)
    _audit("identity.role_changed", membership, source, before=before, after=role)


def _end(membership: Membership) -> None:
    source = membership.managed.identity
    if membership.role == TeamRole.OWNER and _is_last_owner(membership):
        return
    end_membership(membership)
    _audit("identity.team_left", membership, source, role=membership.role)


def _is_last_owner(membership: Membership) -> bool:
    """A team without an owner could not be managed any more, so its last one stays."""
    members = Membership.objects.select_for_update(of=("self",)).order_by("pk")
    others = [
        each
        for each in members.select_related("user").filter(
            team=membership.team_id, role=TeamRole.OWNER
        )
        if each.pk != membership.pk and each.user.is_active
    ]
    if not others:
        logger.warning(
            "identity.kept_last_owner user=%d team=%d", membership.user_id, membership.team_id
        )
    return not others


def _audit(verb: str, membership: Membership, source: Identity, **detail: object) -> None:
    """The person acts by signing in; ``provider`` says where the change comes from."""
    AuditEvent.objects.record(
        membership.user,
        verb,
        subject=membership.user,
        target=membership.team.name,
        provider=source.provider.name,
        **detail,
    )


def _apply_groups(user: User, given: Mapping[Identity, Rights]) -> None:
    """The groups that rules name have exactly the people whom the rules put there, as far as they come from the
    provider."""
    teams = set(Membership.objects.filter(user=user).values_list("team", flat=True))
    named = {
        rule.group_id
        for identity in given
        for rule in identity.provider.rules.all()
        if rule.group_id is not None and rule.team_id in teams
    }
    wanted = {group for rights in given.values() for group in rights.groups} & named
    present = GroupMember.objects.filter(user=user, group__in=named)
    present.exclude(group__in=wanted).delete()
    known = set(present.values_list("group", flat=True))
    GroupMember.objects.bulk_create(
        (GroupMember(group_id=group, user=user) for group in wanted - known), ignore_conflicts=True
    )


def _apply_administrator(user: User, given: Mapping[Identity, Rights]) -> None:
    is_managed = False
    for identity in given:
        manages = any(rule.makes_administrator for rule in identity.provider.rules.all())
        is_managed = is_managed or manages or identity.manages_administrator
        if identity.manages_administrator != manages:
            identity.manages_administrator = manages
            identity.save(update_fields=["manages_administrator"])
    # The person who set up the installation and the emergency account keep their rights whatever a provider says.
    emergency = access.password_setting().emergency_account_id
    if not is_managed or user.is_superuser or user.pk == emergency:
        return
    wanted = any(rights.is_administrator for rights in given.values())
    if user.is_staff == wanted:
        return
    others = User.objects.filter(is_staff=True, is_active=True).exclude(pk=user.pk)
    if not wanted and not others.exists():
        logger.warning("identity.kept_last_administrator user=%d", user.pk)
        return
    User.objects.filter(pk=user.pk).update(is_staff=wanted)
    AuditEvent.objects.record(
        user,
        "identity.administrator_made" if wanted else "identity.administrator_removed",
        subject=user,
        target=user.email,
        provider=next(iter(given)).provider.name,
    )
