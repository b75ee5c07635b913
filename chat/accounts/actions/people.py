"""Memberships and accounts: roles, reset links, deactivation.

The caller has fetched every object through ``chat.access``. Rules that depend on both people, the
one who acts and the one acted upon, are checked here: nobody gives or takes more than they have.
"""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.accounts import adapter
from chat.core.errors import ActionRefused
from chat.core.notify import QUEUED, publish_after_commit
from chat.models import (
    Announcements,
    AuditEvent,
    GroupMember,
    InstructionsUse,
    Membership,
    Participant,
    PersonalInstructions,
    ProjectMember,
    ReadingDensity,
    ReadingSize,
    ReadingWidth,
    Team,
    TeamRole,
    ToolAccount,
    User,
)
from chat.sessions.actions import end_sessions
from chat.tools.sign_in.ending import end_accounts

_BELOW_OWNERS = (TeamRole.ADMIN, TeamRole.MEMBER, TeamRole.VIEWER, TeamRole.GUEST)
# The roles that each role may give, take and change. Administrators act as owners.
GRANTS: dict[str, tuple[TeamRole, ...]] = {
    TeamRole.OWNER: (TeamRole.OWNER, *_BELOW_OWNERS),
    TeamRole.ADMIN: _BELOW_OWNERS,
    TeamRole.MEMBER: (),
    TeamRole.VIEWER: (),
    TeamRole.GUEST: (),
}

LAST_OWNER = gettext_lazy("A team needs at least one owner. Make someone else an owner first.")
NOT_YOURS_TO_GIVE = gettext_lazy("Only a team owner can add, change or remove owners.")


def grantable_roles(user: User, team: Team) -> tuple[TeamRole, ...]:
    if user.is_staff:
        return GRANTS[TeamRole.OWNER]
    membership = access.known_membership_of(user, team)
    return GRANTS[membership.role] if membership else ()


def check_grant(user: User, team: Team, *roles: str) -> None:
    if not set(roles) <= set(grantable_roles(user, team)):
        raise PermissionDenied(str(NOT_YOURS_TO_GIVE))


# --- teams and members ---------------------------------------------------------------


def create_team(user: User, name: str) -> Team:
    """Creates a team; the administrator who creates it owns it."""
    if not user.is_staff:
        raise PermissionDenied(gettext("Only an administrator can create a team."))
    with transaction.atomic():
        team = Team.objects.create(name=name)
        Membership.objects.create(team=team, user=user, role=TeamRole.OWNER)
        AuditEvent.objects.record(user, "team.created", target=team.name)
    return team


def change_role(user: User, membership: Membership, role: str) -> None:
    """Raises ``ActionRefused`` if the team would have no owner left."""
    team = membership.team
    with transaction.atomic():
        before = _role_now(membership)
        if before == role:
            return
        check_grant(user, team, before, role)
        _refuse_managed(membership)
        _keep_an_owner(team, without=membership)
        Membership.objects.filter(pk=membership.pk).update(role=role)
        AuditEvent.objects.record(
            user,
            "membership.role_changed",
            subject=membership.user,
            target=team.name,
            before=before,
            after=role,
        )


def remove_member(user: User, membership: Membership) -> None:
    """Removes a member from a team. Everyone may leave a team, except its last owner. Conversations
    stay with the team; private ones come back if their owner does."""
    team = membership.team
    with transaction.atomic():
        role = _role_now(membership)
        if membership.user_id != user.pk:
            check_grant(user, team, role)
        _refuse_managed(membership)
        _keep_an_owner(team, without=membership)
        end_membership(membership)
        AuditEvent.objects.record(
            user, "membership.removed", subject=membership.user, target=team.name, role=role
        )
        # Waiting runs of this person are ended when a runner claims them, because it checks the
        # membership first.
        publish_after_commit(QUEUED)


def _refuse_managed(membership: Membership) -> None:
    """Raises ``ActionRefused`` if a provider decides: it would change the membership back at the next sign-in."""
    if provider := access.manager_of(membership):
        raise ActionRefused(managed_text(provider))


def managed_text(provider: str) -> str:
    text = gettext("%(provider)s manages this membership. Change the groups there instead.")
    return text % {"provider": provider}


def end_membership(membership: Membership) -> None:
    """Deletes the membership with everything that the person had by it. Call it in a transaction."""
    team, person = membership.team, membership.user_id
    Membership.objects.filter(pk=membership.pk).delete()
    # A person who comes back to the team has to be added again to its projects, groups and
    # conversations.
    ProjectMember.objects.filter(project__team=team, user=person).delete()
    GroupMember.objects.filter(group__team=team, user=person).delete()
    Participant.objects.filter(conversation__team=team, person=person).delete()
    end_accounts(ToolAccount.objects.filter(server__team=team, person=person))


def _role_now(membership: Membership) -> str:
    """The current role, with the whole team locked: of two owners who leave at once, the second
    must see that the first has left."""
    members = Membership.objects.select_for_update().filter(team=membership.team_id)
    roles = dict(members.order_by("pk").values_list("pk", "role"))
    if membership.pk not in roles:
        raise ActionRefused(gettext("This person is no longer on the team."))
    return roles[membership.pk]


def _keep_an_owner(team: Team, *, without: Membership) -> None:
    owners = Membership.objects.filter(team=team, role=TeamRole.OWNER, user__is_active=True)
    was_owner = owners.filter(pk=without.pk).exists()
    if was_owner and not owners.exclude(pk=without.pk).exists():
        raise ActionRefused(str(LAST_OWNER))


# --- accounts ------------------------------------------------------------------------------


def resettable_people(actor: User) -> QuerySet[User]:
    """The people for whom ``actor`` may create a password-reset link, which gives access to
    everything that they have.

    Administrators: everyone, but a superuser only if they are one. If no mail server sends such
    links, owners of a team: members who belong to nothing but teams of this owner, and own nothing
    themselves.
    """
    people = access.people_with_passwords().filter(is_active=True).exclude(pk=actor.pk)
    if actor.is_staff:
        return people if actor.is_superuser else people.filter(is_superuser=False)
    if settings.EMAIL_HOST:
        return people.none()
    owned = Membership.objects.filter(user=actor, role=TeamRole.OWNER).values("team_id")
    beyond = Membership.objects.exclude(team__in=owned) | Membership.objects.filter(
        role=TeamRole.OWNER
    )
    return people.filter(
        pk__in=Membership.objects.filter(team__in=owned).values("user_id"),
        is_staff=False,
        is_superuser=False,
    ).exclude(pk__in=beyond.values("user_id"))


def make_reset_link(actor: User, user: User) -> str:
    """A link to set a new password that works once and expires. It is shown once and recorded, not
    stored."""
    with transaction.atomic():
        if not resettable_people(actor).filter(pk=user.pk).exists():
            raise PermissionDenied(
                gettext("You don’t have permission to reset this person’s password.")
            )
        AuditEvent.objects.record(actor, "user.reset_link_made", subject=user, target=user.email)
    return adapter.make_reset_link(user)


def may_deactivate(actor: User, user: User) -> bool:
    if not actor.is_staff or actor.pk == user.pk:
        return False
    return actor.is_superuser or not user.is_superuser


def set_active(actor: User, user: User, *, is_active: bool) -> None:
    """Activates an account again, or deactivates it and ends all of its sessions at once."""
    if not may_deactivate(actor, user):
        raise PermissionDenied(
            gettext("You don’t have permission to deactivate or reactivate this account.")
        )
    with transaction.atomic():
        changed = User.objects.filter(pk=user.pk, is_active=not is_active).update(
            is_active=is_active
        )
        if not changed:
            return
        verb = "user.activated" if is_active else "user.deactivated"
        AuditEvent.objects.record(actor, verb, subject=user, target=user.email)
        if not is_active:
            end_accounts(ToolAccount.objects.filter(person=user))
            publish_after_commit(QUEUED)
            # All sessions are read for this, so it happens after the transaction.
            transaction.on_commit(partial(end_sessions, user))


def rename_person(user: User, name: str) -> None:
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(name=name)
        if name != user.name:
            # Messages show names, so a change that imitates another person must be traceable.
            AuditEvent.objects.record(
                user, "user.renamed", subject=user, target=user.email, before=user.name, after=name
            )


def choose_invisible(user: User, *, is_invisible: bool) -> None:
    User.objects.filter(pk=user.pk).update(is_invisible=is_invisible)


def choose_announcements(user: User, announcements: Announcements) -> None:
    User.objects.filter(pk=user.pk).update(announcements=announcements)


def choose_reading(
    user: User,
    *,
    width: ReadingWidth,
    size: ReadingSize,
    density: ReadingDensity,
    wraps_code: bool,
) -> None:
    User.objects.filter(pk=user.pk).update(
        reading_width=width, reading_size=size, reading_density=density, wraps_code=wraps_code
    )


def choose_code_wrap(user: User, *, wraps_code: bool) -> None:
    User.objects.filter(pk=user.pk).update(wraps_code=wraps_code)


def choose_time_zone(user: User, time_zone: str) -> None:
    """The zone in which times are written for the person; "" for that of the browser."""
    User.objects.filter(pk=user.pk).update(time_zone=time_zone)


def save_instructions(user: User, text: str, use: InstructionsUse) -> None:
    """The person's instructions for models, from the next request on. An empty text deletes them."""
    if text:
        PersonalInstructions.objects.update_or_create(
            user=user, defaults={"text": text, "use": use}
        )
    else:
        PersonalInstructions.objects.filter(user=user).delete()
