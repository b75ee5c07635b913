"""Cases of participants and groups."""

from __future__ import annotations

import uuid

from chat.models import Conversation, Group, GroupMember, Membership, Participant, RunSegment
from tests.access_matrix.case import (
    ADMIN,
    Case,
    Thread,
    Values,
    World,
    in_private,
    in_shared,
    nothing,
    owner_only,
    readers,
    shared_and_private,
    signed_in_only,
    team_managers,
)
from tests.access_matrix.objects import _answer, _conversation, _event, _run, _team
from tests.access_matrix.organization import _chosen, _trashed
from tests.access_matrix.relations import (
    RELATIONS,
    VERBS,
    Relations,
    _begin_nothing,
    _into_project,
    _take_part,
    by_relation,
    joined,
)


def _recording(thread: Thread) -> Values:
    _event(thread)
    RunSegment.objects.filter(run=thread.run).update(raw=b"data: {}\n\n")
    return {**_run(thread), "form": "raw"}


def _participant(world: World) -> Values:
    """Bob, who takes part as a reader."""
    _take_part(world, bob="reader", guest="writer")
    participant = Participant.objects.get(person=world.bob)
    return {**_conversation(world.private), "participant_id": participant.public_id}


def _trashed_with_manager(world: World) -> Values:
    _take_part(world, bob="manager", guest="writer")
    return _trashed(world.private)


def _without_manager(world: World) -> Values:
    """Bob's, which the team reads, and who has left."""
    Conversation.objects.filter(pk=world.shared.conversation.pk).update(owner=world.bob)
    Membership.objects.filter(user=world.bob).delete()
    return _conversation(world.shared)


def _group(world: World) -> Values:
    group = Group.objects.create(team=world.team, name="Divers")
    GroupMember.objects.create(group=group, user=world.guest)
    return {"public_id": group.public_id}


PARTICIPANT_CASES = [
    *(
        Case(
            route,
            by_relation(relations, needed, outcome),
            f"by {relations.label}",
            joined(relations, in_private(make)),
            method,
            data,
        )
        for needed, route, outcome, make, method, data in VERBS
        for relations in RELATIONS
    ),
    *(
        Case(
            "conversations_change",
            by_relation(relations, "manage", 302),
            f"{verb} by {relations.label}",
            joined(relations, lambda _, verb=verb: {"verb": verb}),
            "post",
            in_private(_chosen),
        )
        for verb in ("rename", "archive", "delete")
        for relations in RELATIONS
    ),
    *(
        Case(
            "projects_move",
            by_relation(relations, "manage", 302),
            f"by {relations.label}",
            joined(relations, nothing),
            "post",
            _into_project,
        )
        for relations in RELATIONS
    ),
    # Managers restore; only the owner deletes for ever.
    Case(
        "conversations_change",
        signed_in_only(404, alice=302, bob=302),
        "restore by a manager",
        lambda _: {"verb": "restore"},
        "post",
        _trashed_with_manager,
    ),
    Case(
        "conversations_change",
        signed_in_only(404, alice=302),
        "erase by a manager",
        lambda _: {"verb": "erase"},
        "post",
        _trashed_with_manager,
    ),
    # A guest doesn't see the tools of the team.
    Case(
        "conversation_tools",
        signed_in_only(404, alice=302, bob=403),
        "by readers and writers",
        joined(
            Relations("", lambda world: _take_part(world, bob="reader", guest="writer"), {}),
            in_private(_conversation),
        ),
        "post",
    ),
    Case(
        "participant",
        signed_in_only(404, alice=302, bob=403, guest=403),
        "Bob's role",
        _participant,
        "post",
        lambda _: {"role": "writer"},
    ),
    # Everybody may leave.
    Case(
        "participant",
        signed_in_only(404, alice=302, bob=302, guest=403),
        "Bob's leaving",
        _participant,
        "post",
        lambda _: {"remove": "1"},
    ),
    # Being an administrator of the installation is not enough.
    Case(
        "conversation_take_over",
        signed_in_only(404, alice=302),
        "without a manager",
        _without_manager,
        "post",
    ),
    Case(
        "conversation_take_over",
        signed_in_only(404),
        "with a manager",
        in_shared(_conversation),
        "post",
    ),
    # What the server sent repeats the settings of the writers.
    *(
        Case(
            "run_export",
            by_relation(relations, "write", 200, otherwise=404),
            f"recording by {relations.label}",
            joined(relations, in_private(_recording)),
        )
        for relations in RELATIONS
    ),
    # Forking and continuing as one's own are one verb: of all who read, and may begin conversations in the
    # team. Neither guests nor viewers do.
    *(
        Case(
            route,
            by_relation(relations, "read", 302) | _begin_nothing(relations),
            f"by {relations.label}",
            joined(relations, in_private(make)),
            "post",
            lambda _: {"key": str(uuid.uuid4())},
        )
        for route, make in (("conversation_fork", _conversation), ("message_fork", _answer))
        for relations in RELATIONS
    ),
    *shared_and_private(
        "conversation_settings",
        owner_only,
        302,
        _conversation,
        "post",
        lambda _: {"shown": "1"},
    ),
    Case("groups", readers(200) | {ADMIN: 200}, "", _team),
    Case("groups", team_managers(302), "", _team, "post", lambda _: {"name": "Springs"}),
    Case("group", readers(200) | {ADMIN: 200}, "", _group),
    Case("group", team_managers(302), "", _group, "post", lambda _: {"name": "Springs"}),
    Case(
        "group_member",
        team_managers(302),
        "",
        _group,
        "post",
        lambda world: {"person": world.bob.public_id},
    ),
    Case("group_delete", team_managers(302), "", _group, "post"),
]
