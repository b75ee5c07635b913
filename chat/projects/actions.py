"""Projects: create, change, delete; their members; conversations that move in and out.

Callers have loaded every object through `chat.access`. Whether the person may still do it is checked
here, because a right in a project can end between two requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext

from chat import access
from chat.conversations.actions.conversation import count_withdrawal
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.core.text import without_hidden
from chat.models import (
    AuditEvent,
    ChangeKind,
    Conversation,
    ConversationChange,
    Membership,
    Preset,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Team,
    User,
    Visibility,
)
from chat.presets import actions as preset_actions
from chat.projects.files import release_files

# --- projects -----------------------------------------------------------------------------------


def create_project(user: User, team: Team, **fields: Any) -> Project:
    """``fields`` are those of `Project`; ``tools`` is a list of tools of the team. The creator of a
    project of selected people is its first manager."""
    if not access.writable_teams(user).filter(pk=team.pk).exists():
        raise PermissionDenied(gettext("You have read-only access in this team."))
    tools = fields.pop("tools", ())
    with transaction.atomic():
        project = Project.objects.create(team=team, created_by=user, **_checked(fields))
        _set_tools(project, tools)
        _keep_a_manager(user, project)
        AuditEvent.objects.record(user, "project.created", target=project.name, team=team.name)
    notify.publish_after_commit(notify.ROOMS)
    return project


def change_project(user: User, project: Project, **fields: Any) -> None:
    """Sets these fields of the project, and its default ``preset``. One that becomes a project of selected people is
    managed by the user who changed it."""
    tools = fields.pop("tools", None)
    sets_preset, preset = "preset" in fields, fields.pop("preset", None)
    with transaction.atomic():
        current = _locked(project)
        if not access.may_manage_project(user, current):
            raise PermissionDenied(gettext("Only managers of this project can do this."))
        values = _checked(fields)
        changed = [name for name, value in values.items() if getattr(current, name) != value]
        if tools is not None and _set_tools(current, tools):
            changed.append("tools")
        if sets_preset and _set_preset(user, current, preset):
            changed.append("preset")
        if not changed:
            return
        for each in (current, project):
            for name in values:
                setattr(each, name, values[name])
        current.save(update_fields=list(values))
        _keep_a_manager(user, current)
        # Lists show its name, and with another access other people see its conversations.
        count_withdrawal(current.team_id)
        detail: dict[str, Any] = {"access": current.access} if "access" in changed else {}
        AuditEvent.objects.record(
            user, "project.changed", target=current.name, fields=changed, **detail
        )
    notify.publish_after_commit(notify.ROOMS)


def delete_project(user: User, project: Project) -> None:
    """Deletes a project. Its conversations move out and become private to their owners; its files are
    deleted, except those that messages have."""
    with transaction.atomic():
        current = _locked(project)
        if not access.may_manage_project(user, current):
            raise PermissionDenied(gettext("Only managers of this project can do this."))
        # Conversations in the trash, too. Their times stay, so that lists keep their order.
        count = Conversation.objects.filter(project=current).update(
            project=None, visibility=Visibility.PRIVATE, revision=F("revision") + 1
        )
        count_withdrawal(current.team_id)
        AuditEvent.objects.record(user, "project.deleted", target=current.name, count=count)
        release_files(current.files.all())
        current.delete()
    notify.publish_after_commit(notify.ROOMS)


def _locked(project: Project) -> Project:
    """The project as it is now. Nothing moves in, and nobody changes it, until the transaction ends."""
    current = Project.objects.select_for_update().filter(pk=project.pk).first()
    if current is None:
        raise ActionRefused(gettext("This project was deleted."))
    return current


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    if "name" not in fields:
        return fields
    name = without_hidden(" ".join(str(fields["name"]).split()))[:80].strip()
    if not name:
        raise ActionRefused(gettext("Enter a name."))
    return {**fields, "name": name}


def _set_tools(project: Project, tools: Iterable[Any]) -> bool:
    """Returns whether that changed anything. Tools of another team, and those that are off, are left out."""
    before = set(project.tools.values_list("pk", flat=True))
    wanted = {tool.pk for tool in tools if tool.team_id == project.team_id and tool.may_be_on}
    project.tools.set(wanted)
    return before != wanted


def _set_preset(user: User, project: Project, preset: Preset | None) -> bool:
    """Returns whether that changed anything."""
    before = Preset.objects.filter(default_of__project=project).first()
    if preset == before:
        return False
    if preset is not None:
        preset_actions.set_default(user, project, preset)
    elif before is not None:
        preset_actions.remove_default(user, project, before)
    return True


def _keep_a_manager(user: User, project: Project) -> None:
    if project.access == ProjectAccess.MEMBERS:
        ProjectMember.objects.update_or_create(
            project=project, user=user, defaults={"role": ProjectRole.MANAGER}
        )


# --- members ------------------------------------------------------------------------------------


def set_member(user: User, project: Project, person: User, role: str) -> None:
    """Adds a person of the team, or changes their role."""
    role = ProjectRole(role)
    with transaction.atomic():
        current = _with_members_of(user, project)
        on_team = Membership.objects.filter(team=current.team_id, user=person)
        if not on_team.exists():
            raise ActionRefused(gettext("This person isn’t on the team of this project."))
        if access.is_guest(person, current.team_id):
            raise ActionRefused(gettext("A guest can’t be in a project."))
        before = _members(current, person).values_list("role", flat=True).first()
        if before == role:
            return
        ProjectMember.objects.update_or_create(
            project=current, user=person, defaults={"role": role}
        )
        count_withdrawal(current.team_id)
        change = {"role": role} if before is None else {"before": before, "after": role}
        verb = "project.member_added" if before is None else "project.role_changed"
        AuditEvent.objects.record(user, verb, subject=person, target=current.name, **change)
    notify.publish_after_commit(notify.ROOMS)


def remove_member(user: User, project: Project, person: User) -> None:
    """Everybody may leave a project. Conversations that the person owns stay in it, and stay theirs."""
    with transaction.atomic():
        current = _locked(project) if person == user else _with_members_of(user, project)
        if not _members(current, person).delete()[0]:
            raise ActionRefused(gettext("This person is no longer in the project."))
        count_withdrawal(current.team_id)
        AuditEvent.objects.record(
            user, "project.member_removed", subject=person, target=current.name
        )
    notify.publish_after_commit(notify.ROOMS)


def _with_members_of(user: User, project: Project) -> Project:
    current = _locked(project)
    if not access.may_manage_members(user, current):
        raise PermissionDenied(gettext("Only managers of this project can do this."))
    return current


def _members(project: Project, person: User) -> QuerySet[ProjectMember]:
    return ProjectMember.objects.filter(project=project, user=person)


# --- conversations ------------------------------------------------------------------------------


def move_conversation(
    user: User,
    conversation: Conversation,
    project: Project | None,
    *,
    is_shared: bool | None = None,
) -> None:
    """Moves a conversation that one manages into a project, where those who see the project see it, too, or
    out of one, where it is private; with ``is_shared`` it is shared, or private, there. Its runs
    continue."""
    access.check_may_manage(user, conversation)
    with transaction.atomic():
        target = _target(user, conversation, project)
        before = conversation.project
        shared = Visibility.TEAM if target is None else Visibility.PROJECT
        becomes_shared = target is not None if is_shared is None else is_shared
        visibility = shared if becomes_shared else Visibility.PRIVATE
        # A conversation that is there already stays as it is, also if it is private there.
        rows = Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=True)
        elsewhere = (
            rows.filter(project__isnull=False) if target is None else rows.exclude(project=target)
        )
        if not elsewhere.update(project=target, visibility=visibility):
            return
        conversation.touch_quietly()
        kind = ChangeKind.MOVED_OUT if target is None else ChangeKind.MOVED_IN
        ConversationChange.objects.record(user, conversation, kind)
        count_withdrawal(conversation.team_id)
        named = target or before
        AuditEvent.objects.record(
            user,
            "conversation.move",
            subject=conversation.owner,
            target=str(conversation.public_id),
            project=named.name if named else "",
            direction="out" if target is None else "in",
        )
    conversation.project, conversation.visibility = target, visibility
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _target(user: User, conversation: Conversation, project: Project | None) -> Project | None:
    if project is None:
        return None
    target = _locked(project)
    if target.team_id != conversation.team_id:
        raise ActionRefused(gettext("This project belongs to another team."))
    if not access.may_write_in_project(user, target):
        raise PermissionDenied(gettext("You can’t write in this project."))
    return target
