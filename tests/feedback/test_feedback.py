"""Feedback on answers: who gives it, what is kept, and what pages cost that have none."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse

from chat.conversations.actions.messages import ModelChoice, retry, send_message
from chat.core.errors import ActionRefused, InvalidForm
from chat.feedback import actions
from chat.forks.actions import fork
from chat.models import (
    AuditEvent,
    Feedback,
    FeedbackKind,
    Message,
    Preset,
    PresetVersion,
    Run,
    Upstream,
    User,
)
from chat.models.feedback import NOTE_LIMIT
from chat.runs.admission import Trigger
from chat.runs.resume import queue_follow_up
from tests.exports.test_downloads import content_of
from tests.support.rooms import Room, end_run

pytestmark = pytest.mark.databases(slow=True)


@pytest.fixture
def answer(room: Room) -> Message:
    return room.turn("Where does it begin?")


def values(kind: str = FeedbackKind.RATING) -> list[tuple[str, int, list[str], str]]:
    rows = Feedback.objects.filter(kind=kind).order_by("pk")
    return [(row.person.name, row.value, row.reasons, row.note) for row in rows]


def test_rating_is_stored_replaced_and_withdrawn(
    answer: Message, alice: User, viewer: User
) -> None:
    actions.rate(alice, answer, 1, ["clear", "correct", "not_correct"], " Good \x00 \ud800 ")
    actions.rate(viewer, answer, -1)
    first = values()
    actions.rate(alice, answer, -1, ["other", "too_long"], "")
    second = values()
    actions.withdraw(alice, answer)
    actions.withdraw(alice, answer)

    assert first == [
        (alice.name, 1, ["correct", "clear"], "Good \u2400 ?"),
        (viewer.name, -1, [], ""),
    ]
    assert second[0] == (alice.name, -1, ["too_long", "other"], "")
    assert [name for name, *_ in values()] == [viewer.name]


def test_change_is_no_news(room: Room, answer: Message, alice: User) -> None:
    room.conversation.refresh_from_db()
    answer.refresh_from_db()
    before, revision = room.conversation.updated_at, answer.revision

    actions.rate(alice, answer, 1)

    room.conversation.refresh_from_db()
    answer.refresh_from_db()
    assert room.conversation.updated_at == before
    assert (answer.revision, answer.feedback_revision) == (revision, room.conversation.revision)


def test_choice_has_a_row_for_each_compared_answer(
    room: Room, answer: Message, alice: User, upstream: Upstream
) -> None:
    choice = ModelChoice(upstream=upstream, model="demo/other")
    others = []
    for _ in range(2):
        run = retry(alice, answer, choice=choice, idempotency_key=uuid.uuid4())
        end_run(run)
        others.append(run.message)
    first, second = others
    with transaction.atomic():
        actions.store_choice(alice, first, [answer, first, second])
    actions.rate(alice, answer, 1)
    with transaction.atomic():
        actions.store_choice(alice, answer, others)

    rows = Feedback.objects.filter(kind=FeedbackKind.CHOICE, person=alice)
    assert dict(rows.values_list("answer", "value")) == {answer.pk: 1, first.pk: -1, second.pk: -1}
    assert values() == [(alice.name, 1, [], "")]


@pytest.mark.parametrize(
    ("value", "note"), [(0, ""), (2, ""), (1, "x" * (NOTE_LIMIT + 1))], ids=["0", "2", "long"]
)
def test_invalid_rating_is_refused(answer: Message, alice: User, value: int, note: str) -> None:
    with pytest.raises(InvalidForm):
        actions.rate(alice, answer, value, (), note)

    assert not Feedback.objects.exists()


def test_only_finished_answers_are_rated(room: Room, answer: Message, alice: User) -> None:
    assert answer.parent is not None
    live = room.ask("And where does it end?", below=answer).message
    room.conversation.refresh_from_db()
    revision = room.conversation.revision

    for message in (live, answer.parent):
        with pytest.raises(ActionRefused):
            actions.rate(alice, message, 1)

    room.conversation.refresh_from_db()
    assert room.conversation.revision == revision
    assert not Feedback.objects.exists()


def test_ratings_are_limited(answer: Message, alice: User, settings: object) -> None:
    cache.clear()
    settings.FEEDBACK_PER_MINUTE = 2  # type: ignore[attr-defined]
    actions.rate(alice, answer, 1)
    actions.withdraw(alice, answer)

    with pytest.raises(ActionRefused, match="Too many ratings"):
        actions.rate(alice, answer, 1)


def test_run_names_the_preset_of_its_conversation(
    room: Room, answer: Message, alice: User, upstream: Upstream
) -> None:
    preset = Preset.objects.create(owner=alice, name="Brief")
    version = PresetVersion.objects.create(preset=preset, number=1, model="demo/model", icon="cpu")
    chosen = ModelChoice(upstream=upstream, model="demo/model", preset=version, keeps_preset=False)
    kept = ModelChoice(upstream=upstream, model="demo/model")

    def send(choice: ModelChoice, below: Message) -> Run:
        room.conversation.refresh_from_db()
        run = send_message(
            alice,
            room.conversation,
            parent=below,
            text="On",
            choice=choice,
            idempotency_key=uuid.uuid4(),
        )
        end_run(run)
        return run

    first = send(chosen, answer)
    second = send(kept, first.message)
    third = queue_follow_up(second, [], Trigger.CONTINUATION, requested_by=alice)

    assert answer.runs.get().preset_version is None
    assert {run.preset_version_id for run in (first, second, third)} == {version.pk}
    preset.delete()
    assert set(Run.objects.values_list("preset_version", flat=True)) == {None}


def test_manager_removes_a_note_and_not_the_rating(
    answer: Message, alice: User, viewer: User
) -> None:
    rating = actions.rate(viewer, answer, -1, ["other"], "Rude words")

    actions.remove_note(alice, Feedback.objects.select_related("answer__conversation").get())
    actions.remove_note(alice, rating)

    assert values() == [(viewer.name, -1, ["other"], "")]
    event = AuditEvent.objects.get(verb="feedback.note_removed")
    assert (event.actor, event.subject) == (alice, viewer)


def test_feedback_is_exported_and_goes_with_account_and_copy(
    room: Room, answer: Message, alice: User, viewer: User, as_alice: Client
) -> None:
    actions.rate(viewer, answer, -1, ["other"], "No.")
    actions.store_choice(alice, answer, [])
    address = reverse("conversation_export", args=[room.conversation.public_id, "json"])

    document = json.loads(content_of(as_alice.get(address)))
    copy = fork(alice, room.conversation, at=answer, idempotency_key=uuid.uuid4())
    viewer.delete()

    assert [
        (row["turn"], row["person"]["name"], row["kind"], row["value"], row["reasons"], row["note"])
        for row in document["feedback"]
    ] == [
        (str(answer.public_id), viewer.name, "rating", -1, ["other"], "No."),
        (str(answer.public_id), alice.name, "choice", 1, [], ""),
    ]
    assert set(copy.messages.values_list("feedback_revision", flat=True)) == {0}
    assert not Feedback.objects.filter(answer__conversation=copy).exists()
    assert not Feedback.objects.filter(kind=FeedbackKind.RATING).exists()
