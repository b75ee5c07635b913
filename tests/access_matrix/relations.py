"""What each relation to Alice's private conversation allows, by hand. Strangers to the team can't take part, so for
them it never exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chat.models import Conversation, Group, GroupMember, Membership, Participant, Visibility
from chat.projects.actions import create_project
from tests.access_matrix.case import (
    Make,
    MakeInThread,
    Outcome,
    Outcomes,
    Values,
    World,
    nothing,
    signed_in_only,
)
from tests.access_matrix.exports import _as
from tests.access_matrix.objects import (
    _answer,
    _artifact,
    _comment,
    _compared,
    _conversation,
    _export,
    _file,
    _mockup,
    _new_message,
    _picture,
    _private,
    _question,
    _run,
    _stored_picture,
    _title,
    _words,
)
from tests.access_matrix.organization import _chosen
from tests.access_matrix.questions import _open_question, _reply


@dataclass(frozen=True)
class Relations:
    """The people who take part in Alice's private conversation, and what each may do: "read", "write" or "manage".
    Who is not named sees nothing."""

    label: str
    join: Callable[[World], None]
    rights: Mapping[str, str]


def _take_part(world: World, **roles: str) -> None:
    for name, role in roles.items():
        Participant.objects.create(
            conversation=world.private.conversation, person=getattr(world, name), role=role
        )


def _join_group(world: World, role: str, *names: str) -> None:
    group = Group.objects.create(team=world.team, name=f"The {role}s")
    Participant.objects.create(conversation=world.private.conversation, group=group, role=role)
    for name in names:
        GroupMember.objects.create(group=group, user=getattr(world, name))


def _readers_and_writers(world: World) -> None:
    _take_part(world, bob="reader", guest="writer", viewer="writer")


def _managers(world: World) -> None:
    _take_part(world, bob="manager", guest="reader", viewer="manager")


def _groups(world: World) -> None:
    _join_group(world, "writer", "bob")
    _join_group(world, "reader", "guest")


def _managing_group(world: World) -> None:
    _take_part(world, bob="reader")
    _join_group(world, "manager", "bob", "guest")


def _team_reads(world: World) -> None:
    Conversation.objects.filter(pk=world.private.conversation.pk).update(
        visibility=Visibility.TEAM, shared_role="reader"
    )
    _take_part(world, viewer="reader")


def _has_left(world: World) -> None:
    """Roles of people who are not on the team any more count for nothing."""
    _take_part(world, bob="manager", guest="writer")
    _join_group(world, "writer", "bob", "guest")
    Membership.objects.filter(user__in=[world.bob.pk, world.guest.pk]).delete()


RELATIONS = [
    # A viewer of the team reads, whatever their role is.
    Relations(
        "readers and writers",
        _readers_and_writers,
        {"bob": "read", "guest": "write", "viewer": "read"},
    ),
    Relations("managers", _managers, {"bob": "manage", "guest": "read", "viewer": "read"}),
    Relations("groups", _groups, {"bob": "write", "guest": "read"}),
    # The strongest of all roles counts; a guest manages nothing.
    Relations("a managing group", _managing_group, {"bob": "manage", "guest": "write"}),
    Relations("read by the team", _team_reads, {"bob": "read", "viewer": "read"}),
    Relations("people who have left", _has_left, {}),
]


def _add_viewer(world: World) -> Values:
    return {"who": f"person:{world.viewer.public_id}", "role": "reader"}


def _into_project(world: World) -> Values:
    project = create_project(world.alice, world.team, name="Springs")
    return {
        **_chosen(world.private),
        "project": str(project.public_id),
        "confirmed": "1",
    }


# Each verb of the table: what it takes, the answer to those who may, its address and what is sent.
VERBS: list[tuple[str, str, int, MakeInThread, str, Make]] = [
    *(
        ("read", route, 200, make, "get", nothing)
        for route, make in (
            ("conversation", _conversation),
            ("conversation_changes", _conversation),
            ("conversation_people", _conversation),
            ("conversation_find", _conversation),
            ("conversation_files", _conversation),
            ("conversation_options", _conversation),
            ("conversation_export", _as("json")),
            ("conversation_print", _conversation),
            ("file", _file),
            ("artifact", _artifact),
            ("mockup", _mockup),
            ("message_source", _answer),
            ("run_log", _run),
            ("run_details", _run),
            ("run_replay", _run),
            ("run_export", _export),
        )
    ),
    ("read", "conversation_comments", 200, _conversation, "get", nothing),
    ("read", "conversation_context", 200, _conversation, "get", nothing),
    ("write", "context_start", 302, _conversation, "post", nothing),
    ("read", "message_comments", 302, _answer, "post", _words),
    ("read", "comparison", 200, _compared, "get", nothing),
    ("write", "comparison_stop", 302, _compared, "post", nothing),
    ("write", "answer_choose", 302, _compared, "post", nothing),
    ("read", "comment_reply", 302, _comment, "post", _words),
    ("write", "comment_resolve", 302, _comment, "post", nothing),
    ("manage", "comment_delete", 302, _comment, "post", nothing),
    ("write", "conversation_send", 302, _conversation, "post", _new_message),
    ("write", "message_edit", 302, _question, "post", _new_message),
    ("write", "message_retry", 302, _answer, "post", _new_message),
    ("write", "run_stop", 302, _run, "post", nothing),
    ("write", "question_answer", 302, _open_question, "post", _reply),
    ("write", "question_claim", 302, _open_question, "post", _reply),
    ("write", "run_pictures", 200, _stored_picture, "post", _picture),
    ("read", "mention_find", 200, _conversation, "get", nothing),
    ("manage", "conversation_rename", 302, _conversation, "post", _title),
    ("manage", "conversation_visibility", 302, _conversation, "post", _private),
    ("manage", "participant_search", 200, _conversation, "get", nothing),
    ("manage", "conversation_settings", 302, _conversation, "post", lambda _: {"shown": "1"}),
    ("manage", "participant_add", 302, _conversation, "post", _add_viewer),
]


def by_relation(
    relations: Relations, needed: str, outcome: Outcome, *, otherwise: Outcome = 403
) -> Outcomes:
    strength = ("read", "write", "manage")
    outcomes = signed_in_only(404, alice=outcome)
    for actor, right in relations.rights.items():
        is_enough = strength.index(right) >= strength.index(needed)
        outcomes[actor] = outcome if is_enough else otherwise
    return outcomes


def joined(relations: Relations, make: Make) -> Make:
    def make_joined(world: World) -> Values:
        relations.join(world)
        return make(world)

    return make_joined


def _begin_nothing(relations: Relations) -> Outcomes:
    return dict.fromkeys({"viewer", "guest"} & relations.rights.keys(), 403)
