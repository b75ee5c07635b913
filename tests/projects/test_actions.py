from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied

from chat import access
from chat.accounts.actions import people
from chat.administration.sentences import sentence
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Conversation,
    Membership,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    StoredFile,
    Team,
    User,
    Visibility,
)
from chat.participants.actions import set_visibility
from chat.projects import actions
from chat.projects.effects import effect_of_move
from tests.projects.conftest import Scene
from tests.support.files import store_file


def said() -> str:
    event = AuditEvent.objects.first()
    assert event is not None
    return sentence(event, title="Piers")


def test_creator_of_a_project_of_selected_people_manages_it(team: Team, bob: User) -> None:
    project = actions.create_project(bob, team, name="  Bridge \n", access=ProjectAccess.MEMBERS)

    assert project.name == "Bridge"
    assert access.may_manage_project(bob, project)
    assert said() == "Bob created the project Bridge in River"


def test_viewer_creates_no_project(team: Team, viewer: User) -> None:
    with pytest.raises(PermissionDenied):
        actions.create_project(viewer, team, name="Bridge")


def test_owner_who_limits_a_project_keeps_it(team: Team, alice: User, bob: User) -> None:
    project = actions.create_project(bob, team, name="Bridge")

    actions.change_project(alice, project, access=ProjectAccess.MEMBERS)

    assert list(access.readers_of_project(project)) == [alice]
    assert said() == "Alice limited the project Bridge to selected people"


def test_only_managers_change_and_delete(scene: Scene) -> None:
    for name in ("writer", "team owner", "viewing manager"):
        with pytest.raises(PermissionDenied):
            actions.change_project(scene.people[name], scene.project, name="Tunnel")
        with pytest.raises(PermissionDenied):
            actions.delete_project(scene.people[name], scene.project)


def test_conversations_survive_their_project(scene: Scene) -> None:
    file = store_file(project=scene.project, body=b"x")

    actions.delete_project(scene.people["manager"], scene.project)

    room = Conversation.objects.get()
    assert (room.project, room.visibility) == (None, Visibility.PRIVATE)
    assert room.revision > scene.room.revision
    assert room.updated_at == scene.room.updated_at
    assert not Project.objects.exists()
    assert not StoredFile.objects.filter(pk=file.pk).exists()
    assert said() == "manager deleted the project Bridge"


def test_members_are_added_changed_and_removed(scene: Scene) -> None:
    alice, member = scene.people["team owner"], scene.people["member"]

    actions.set_member(alice, scene.project, member, ProjectRole.READER)
    assert said() == "Alice added member to the project Bridge (role: reader)"
    actions.set_member(alice, scene.project, member, ProjectRole.MANAGER)
    assert said() == "Alice changed member’s role in the project Bridge from reader to manager"
    assert access.may_manage_project(member, scene.project)
    actions.remove_member(alice, scene.project, member)
    assert said() == "Alice removed member from the project Bridge"
    assert not access.may_read_project(member, scene.project)


def test_writer_may_only_leave(scene: Scene) -> None:
    writer, reader = scene.people["writer"], scene.people["reader"]

    with pytest.raises(PermissionDenied):
        actions.set_member(writer, scene.project, writer, ProjectRole.MANAGER)
    with pytest.raises(PermissionDenied):
        actions.remove_member(writer, scene.project, reader)
    actions.remove_member(writer, scene.project, writer)

    assert said() == "writer left the project Bridge"
    assert not access.may_read_project(writer, scene.project)


def test_person_of_another_team_is_not_selected(scene: Scene, charlie: User) -> None:
    with pytest.raises(ActionRefused, match="isn’t on the team"):
        actions.set_member(scene.people["manager"], scene.project, charlie, ProjectRole.READER)


def test_person_removed_from_the_team_leaves_its_projects(scene: Scene) -> None:
    writer = scene.people["writer"]
    membership = Membership.objects.get(user=writer)

    people.remove_member(scene.people["team owner"], membership)

    assert not ProjectMember.objects.filter(user=writer).exists()


def test_effect_of_a_move_names_who_gains_and_who_loses(
    scene: Scene, team: Team, bob: User
) -> None:
    shared = Conversation.objects.create(
        team=team, owner=bob, visibility=Visibility.TEAM, title="Shared"
    )
    private = Conversation.objects.create(team=team, owner=bob, title="Private")
    # Vera manages it as far as a viewer does: she reads.
    selected = {scene.people[name] for name in ("manager", "writer", "reader", "viewing manager")}

    limited = effect_of_move(shared, scene.project)
    assert limited.gaining == []
    assert set(limited.losing) == set(team.members.all()) - selected - {bob}
    opened = effect_of_move(private, scene.project)
    assert (set(opened.gaining), opened.losing) == (selected, [])
    out = effect_of_move(scene.room, None)
    assert (out.gaining, set(out.losing)) == ([], selected)


def test_conversation_moves_in_and_out(scene: Scene, team: Team) -> None:
    writer = scene.people["writer"]
    room = Conversation.objects.create(team=team, owner=writer, title="Piers")

    actions.move_conversation(writer, room, scene.project)
    assert access.visible_conversations(scene.people["reader"]).filter(pk=room.pk).exists()
    assert said() == "writer moved writer’s conversation “Piers” into the project Bridge"
    actions.move_conversation(writer, room, None)
    assert not access.visible_conversations(scene.people["reader"]).filter(pk=room.pk).exists()
    assert said() == "writer moved writer’s conversation “Piers” out of the project Bridge"
    room.refresh_from_db()
    assert (room.project, room.visibility, room.revision) == (None, Visibility.PRIVATE, 3)


def test_move_to_where_it_is_changes_nothing(scene: Scene, bob: User) -> None:
    scene.is_for(ProjectAccess.TEAM)
    set_visibility(bob, scene.room, Visibility.PRIVATE)

    actions.move_conversation(bob, scene.room, scene.project)

    assert Conversation.objects.get().visibility == Visibility.PRIVATE


def test_only_owners_who_write_in_a_project_move_into_it(
    scene: Scene, team: Team, other_team: Team, alice: User
) -> None:
    for name in ("reader", "viewing manager", "member"):
        room = Conversation.objects.create(team=team, owner=scene.people[name], title=name)
        with pytest.raises(PermissionDenied):
            actions.move_conversation(scene.people[name], room, scene.project)
    with pytest.raises(PermissionDenied):
        actions.move_conversation(scene.people["manager"], scene.room, None)
    elsewhere = Project.objects.create(team=other_team, name="Mine")
    room = Conversation.objects.create(team=team, owner=alice, title="Other")
    with pytest.raises(ActionRefused, match="another team"):
        actions.move_conversation(alice, room, elsewhere)


def test_conversation_is_shared_with_its_project_only(scene: Scene, bob: User) -> None:
    """Bob has left the project: he may make his conversation private, and not share it again."""
    with pytest.raises(ActionRefused):
        set_visibility(bob, scene.room, Visibility.TEAM)
    set_visibility(bob, scene.room, Visibility.PRIVATE)
    with pytest.raises(ActionRefused, match="Bridge"):
        set_visibility(bob, scene.room, Visibility.PROJECT)
    scene.is_for(ProjectAccess.TEAM)
    set_visibility(bob, scene.room, Visibility.PROJECT)

    assert Conversation.objects.get().visibility == Visibility.PROJECT
    assert said() == "Bob shared Bob’s conversation “Piers” with its project"
