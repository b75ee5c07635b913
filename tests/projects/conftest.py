from __future__ import annotations

from dataclasses import dataclass

import pytest

from chat.models import (
    Conversation,
    Membership,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Team,
    TeamRole,
    User,
    Visibility,
)
from tests.conftest import MakeUser


@dataclass(frozen=True)
class Scene:
    """A project of the team and Bob's conversation in it, shared with the project."""

    project: Project
    room: Conversation
    people: dict[str, User]

    def is_for(self, access: ProjectAccess) -> None:
        self.project.access = access
        self.project.save(update_fields=["access"])


@pytest.fixture
def project(team: Team) -> Project:
    return Project.objects.create(team=team, name="Bridge", access=ProjectAccess.MEMBERS)


@pytest.fixture
def scene(
    team: Team,
    project: Project,
    alice: User,
    bob: User,
    viewer: User,
    dana: User,
    administrator: User,
    make_user: MakeUser,
) -> Scene:
    on_team = {
        "admin": TeamRole.ADMIN,
        "creator": TeamRole.MEMBER,
        "manager": TeamRole.MEMBER,
        "writer": TeamRole.MEMBER,
        "reader": TeamRole.MEMBER,
        "member": TeamRole.MEMBER,
        "viewing manager": TeamRole.VIEWER,
    }
    people = {name: make_user(name.replace(" ", "")) for name in on_team}
    for name, role in on_team.items():
        Membership.objects.create(team=team, user=people[name], role=role)
    # Bob owns a conversation in the project, and has left it. Dana has left the team.
    people |= {"team owner": alice, "owner": bob, "viewer": viewer}
    people |= {"not on the team": dana, "administrator": administrator}
    selected = {
        "manager": ProjectRole.MANAGER,
        "viewing manager": ProjectRole.MANAGER,
        "writer": ProjectRole.WRITER,
        "reader": ProjectRole.READER,
        "not on the team": ProjectRole.MANAGER,
    }
    for name, role in selected.items():
        ProjectMember.objects.create(project=project, user=people[name], role=role)
    project.created_by = people["creator"]
    project.save()
    room = Conversation.objects.create(
        team=team, owner=bob, project=project, visibility=Visibility.PROJECT, title="Piers"
    )
    return Scene(project=project, room=room, people=people)
