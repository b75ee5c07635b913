"""Groups of a team: create, rename, delete, and their members. The managers of the team may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.core.text import without_hidden
from chat.models import AuditEvent, Group, GroupMember, Team, User


def create_group(user: User, team: Team, name: str) -> Group:
    name = _checked(name)
    with _unique_name(), transaction.atomic():
        group = Group.objects.create(team=team, name=name)
        AuditEvent.objects.record(user, "group.created", target=name, team=team.name)
    return group


def rename_group(user: User, group: Group, name: str) -> None:
    name, before = _checked(name), group.name
    if name == before:
        return
    with _unique_name(), transaction.atomic():
        if not Group.objects.filter(pk=group.pk).update(name=name):
            raise _gone()
        AuditEvent.objects.record(
            user, "group.renamed", target=before, team=group.team.name, name=name
        )
    group.name = name


def delete_group(user: User, group: Group) -> None:
    """Deletes a group. Its people lose what they may read through it only."""
    with transaction.atomic():
        if not Group.objects.filter(pk=group.pk).delete()[0]:
            raise _gone()
        AuditEvent.objects.record(user, "group.deleted", target=group.name, team=group.team.name)
    notify.publish_after_commit(notify.ROOMS)


def add_member(user: User, group: Group, person: User) -> None:
    with transaction.atomic():
        if not Group.objects.select_for_update().filter(pk=group.pk).exists():
            raise _gone()
        if access.membership_of(person, group.team_id) is None:
            raise ActionRefused(gettext("This person isn’t on the team of this group."))
        _refuse_managed(group, person)
        _, is_new = GroupMember.objects.get_or_create(group=group, user=person)
        if is_new:
            _record(user, "group.member_added", group, person)
    notify.publish_after_commit(notify.ROOMS)


def _refuse_managed(group: Group, person: User) -> None:
    """Raises ``ActionRefused`` if a provider decides: it would change the group back at the next sign-in."""
    if provider := access.manager_in_group(person, group):
        text = gettext("%(provider)s decides who of its people is in this group.")
        raise ActionRefused(text % {"provider": provider})


def remove_member(user: User, group: Group, person: User) -> None:
    with transaction.atomic():
        _refuse_managed(group, person)
        if not GroupMember.objects.filter(group=group, user=person).delete()[0]:
            raise ActionRefused(gettext("This person is no longer in the group."))
        _record(user, "group.member_removed", group, person)
    notify.publish_after_commit(notify.ROOMS)


def _record(user: User, verb: str, group: Group, person: User) -> None:
    AuditEvent.objects.record(user, verb, subject=person, target=group.name, team=group.team.name)


def _checked(name: str) -> str:
    name = without_hidden(" ".join(name.split()))[:80].strip()
    if not name:
        raise ActionRefused(gettext("Enter a name."))
    return name


def _gone() -> ActionRefused:
    return ActionRefused(gettext("This group was deleted."))


@contextmanager
def _unique_name() -> Iterator[None]:
    """Refuses a name that another group of the team has."""
    try:
        yield
    except IntegrityError:
        raise ActionRefused(gettext("Another group has this name.")) from None
