"""Cases of feedback on answers: readers give it, managers remove notes of others, administrators see figures."""

from __future__ import annotations

from chat.models import Feedback, User
from tests.access_matrix.case import (
    Case,
    Thread,
    Values,
    World,
    administrators,
    in_shared,
    owner_only,
    readers,
    shared_and_private,
    signed_in_only,
)
from tests.access_matrix.objects import _answer, _question


def _rating(world: World) -> Values:
    return {"value": "1", "note": "Right."}


def _note_by(person: User, thread: Thread) -> Values:
    Feedback.objects.create(answer=thread.answer, person=person, value=-1, note="Wrong.")
    return {**_answer(thread), "person": person.public_id}


def _note(thread: Thread) -> Values:
    """A note of the conversation's owner."""
    return _note_by(thread.conversation.owner, thread)


def _note_of_viewer(world: World) -> Values:
    return _note_by(world.viewer, world.shared)


def _no_note(thread: Thread) -> Values:
    return {**_answer(thread), "person": thread.conversation.owner.public_id}


def _export(world: World) -> Values:
    _note(world.private)
    return {"reason": "Report 12", "days": "0"}


FEEDBACK_CASES = [
    *shared_and_private("message_feedback", readers, 200, _answer),
    *shared_and_private("message_feedback", readers, 302, _answer, "post", _rating),
    Case("message_feedback", signed_in_only(404), "message of a person", in_shared(_question)),
    *shared_and_private("feedback_withdraw", readers, 302, _answer, "post"),
    *shared_and_private("feedback_note_remove", owner_only, 302, _note, "post"),
    Case("feedback_note_remove", signed_in_only(404), "none", in_shared(_no_note), "post"),
    Case(
        "feedback_note_remove",
        signed_in_only(404, alice=302, bob=403, viewer=302),
        "of a viewer",
        _note_of_viewer,
        "post",
    ),
    Case("feedback_figures", administrators(200)),
    Case("feedback_export", administrators(200), method="post", data=_export),
    Case("feedback_export", administrators(422), "without a reason", method="post"),
]
