"""Cases of the order among conversations: lists, the archive and the trash."""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone

from chat.models import Conversation
from tests.access_matrix.case import (
    Case,
    MakeInThread,
    Outcome,
    Outcomes,
    Thread,
    Values,
    World,
    alice_only,
    in_private,
    in_shared,
    owner_only,
    readers,
    shared_and_private,
    signed_in_only,
)
from tests.access_matrix.objects import _conversation, _conversation_of_a_viewer


def _chosen(thread: Thread) -> Values:
    return {"conversation": thread.conversation.public_id.hex, "title": "Springs"}


def _trashed(thread: Thread) -> Values:
    Conversation.objects.filter(pk=thread.conversation.pk).update(deleted_at=timezone.now())
    return _chosen(thread)


def _of_a_viewer(world: World) -> Values:
    _conversation_of_a_viewer(world)
    return _chosen(world.shared)


def changes(
    verb: str, rights: Callable[[Outcome], Outcomes], data: MakeInThread = _chosen
) -> list[Case]:
    return [
        Case(
            "conversations_change", outcomes, f"{verb} {of}", lambda _: {"verb": verb}, "post", make
        )
        for of, outcomes, make in (
            ("shared", rights(302), in_shared(data)),
            ("private", alice_only(302), in_private(data)),
        )
    ]


ORGANIZATION_CASES = [
    Case("conversations", signed_in_only(200)),
    Case("conversations_archived", signed_in_only(200)),
    Case("conversations_trash", signed_in_only(200)),
    # Everybody's own.
    Case("trash_empty", signed_in_only(302), method="post"),
    *shared_and_private("conversation_options", readers, 200, _conversation),
    *(case for verb in ("pin", "unpin") for case in changes(verb, readers)),
    *(
        case
        for verb in ("rename", "archive", "unarchive", "keep", "delete")
        for case in changes(verb, owner_only)
    ),
    *(case for verb in ("restore", "erase") for case in changes(verb, alice_only, _trashed)),
    # A conversation outside of the trash can't be deleted for ever.
    Case(
        "conversations_change",
        signed_in_only(404),
        "erase of what is no trash",
        lambda _: {"verb": "erase"},
        "post",
        in_shared(_chosen),
    ),
    *(
        Case(
            "conversations_change",
            readers(403) if verb != "restore" else signed_in_only(404),
            f"{verb} of a viewer",
            lambda _, verb=verb: {"verb": verb},
            "post",
            _of_a_viewer,
        )
        for verb in ("archive", "delete", "restore")
    ),
]
