"""Who may do what in a project: each relation to it, each right, in both kinds of projects."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404

from chat import access
from chat.live import access_monitor
from chat.live.access_monitor import Identity
from chat.models import Conversation, Project, ProjectAccess, Team, User
from tests.projects.conftest import Scene
from tests.support.files import store_file

pytestmark = pytest.mark.databases(slow=True)

# read, write, manage; members: change who is selected. The letters of a person's rights.
RIGHTS: dict[str, tuple[str, str]] = {
    # relation: (in a project for everyone on the team, in one of selected people)
    "team owner": ("read write manage members", "members"),
    "admin": ("read write manage members", "members"),
    "creator": ("read write manage members", ""),
    "manager": ("read write", "read write manage members"),
    "writer": ("read write", "read write"),
    "reader": ("read write", "read"),
    "member": ("read write", ""),
    "owner": ("read write", ""),
    "viewer": ("read", ""),
    "viewing manager": ("read", "read"),
    "not on the team": ("", ""),
    "administrator": ("", ""),
}
KINDS = (ProjectAccess.TEAM, ProjectAccess.MEMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_rights_in_a_project(scene: Scene, kind: ProjectAccess, subtests: pytest.Subtests) -> None:
    scene.is_for(kind)
    project = Project.objects.get()

    for name, rights in RIGHTS.items():
        with subtests.test(name):
            expected = set(rights[KINDS.index(kind)].split())
            assert rights_of(scene.people[name], project) == expected
            assert opened_by(scene.people[name], project) == expected
    readers = {name for name, rights in RIGHTS.items() if "read" in rights[KINDS.index(kind)]}
    assert set(access.readers_of_project(project)) == {scene.people[name] for name in readers}


def rights_of(person: User, project: Project) -> set[str]:
    questions = {
        "read": access.may_read_project,
        "write": access.may_write_in_project,
        "manage": access.may_manage_project,
        "members": access.may_manage_members,
    }
    return {right for right, may in questions.items() if may(person, project)}


def opened_by(person: User, project: Project) -> set[str]:
    ways = {
        "read": lambda: access.get_project(person, project.public_id),
        "write": lambda: access.get_project(person, project.public_id, for_write=True),
        "manage": lambda: access.get_project(person, project.public_id, for_manage=True),
        "members": lambda: access.get_project_with_members(person, project.public_id),
    }
    # Who may read nothing of it must not learn that it exists.
    refusal = PermissionDenied if access.may_read_project(person, project) else Http404
    opened = set()
    for right, way in ways.items():
        with suppress(refusal):
            way()
            opened.add(right)
    return opened


def queried(person: User) -> set[str]:
    rights = {
        "read": access.visible_conversations(person),
        "write": access.writable_conversations(person),
    }
    return {right for right, rooms in rights.items() if rooms.count() == 1}


def loaded(person: User, room: Conversation) -> set[str]:
    try:
        known = access.get_conversation(person, room.public_id)
    except Http404:
        return set()
    assert access.may_write(person, known) == access.may_write(person, room)
    return {"read", "write"} if access.may_write(person, known) else {"read"}


def monitored(person: User, room: Conversation) -> set[str]:
    identity = Identity(user_pk=person.pk)
    (verdict,) = access_monitor.check([(identity, frozenset([room.public_id]))]).verdicts
    if isinstance(verdict, str):
        return set()
    return {"read", "write"} if verdict[0].may_write else {"read"}


def test_file_of_a_project_is_for_its_readers(scene: Scene, subtests: pytest.Subtests) -> None:
    file = store_file(project=scene.project, body=b"x")

    for name, rights in RIGHTS.items():
        with subtests.test(name):
            if "read" in rights[1]:
                assert access.get_file(scene.people[name], file.public_id) == file
            else:
                with pytest.raises(Http404):
                    access.get_file(scene.people[name], file.public_id)


def test_inactive_person_has_no_project(scene: Scene) -> None:
    manager = scene.people["manager"]
    assert manager in access.readers_of_project(scene.project)

    User.objects.filter(pk=manager.pk).update(is_active=False)

    assert not access.visible_projects(manager)
    assert not access.managed_projects(manager)
    assert manager not in access.readers_of_project(scene.project)


def test_project_of_another_team_gives_nothing(
    scene: Scene, other_team: Team, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """No action makes this; a change of rows by hand must not open a conversation with it."""
    monkeypatch.setattr(access_monitor, "_is_signed_in", lambda *_: True)
    for kind in KINDS:
        scene.is_for(kind)
        Project.objects.update(team=other_team)
        room = Conversation.objects.get()
        for name in ("manager", "reader", "team owner", "not on the team"):
            with subtests.test(name, kind=kind):
                person = scene.people[name]
                assert queried(person) == loaded(person, room) == monitored(person, room) == set()


def test_team_goes_with_its_projects(scene: Scene, team: Team) -> None:
    team.delete()

    assert not Project.objects.exists()
    assert not Conversation.objects.exists()
