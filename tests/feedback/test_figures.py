"""Figures of feedback and its export: what is counted, what is left out, who may have it, and what it leaves behind."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.conversations.actions.messages import ModelChoice, retry
from chat.feedback import actions
from chat.feedback.export import FeedbackExport, encode
from chat.feedback.figures import Figures, Scope, by_model, by_preset
from chat.models import (
    AccessKind,
    AccessReason,
    AuditEvent,
    Conversation,
    Feedback,
    Message,
    Preset,
    PresetVersion,
    Run,
    Team,
    Upstream,
    User,
    Visibility,
)
from chat.runs.admission import Trigger
from chat.runs.resume import queue_follow_up
from tests.exports.test_downloads import content_of
from tests.support.rooms import Room, end_run, get_page, text_of

pytestmark = pytest.mark.databases(slow=True)

EXPORT = {"reason": "Compare models", "days": "0"}


@pytest.fixture
def answer(transactional_db: None, room: Room) -> Message:
    """Committed, because exports are read by a thread of their own."""
    cache.clear()
    answer = room.turn("Where does it begin?")
    # An answer with several runs counts once.
    run = queue_follow_up(
        answer.runs.get(), [], Trigger.CONTINUATION, requested_by=room.conversation.owner
    )
    end_run(run)
    return answer


@pytest.fixture
def other(room: Room, answer: Message, alice: User, upstream: Upstream) -> Message:
    choice = ModelChoice(upstream=upstream, model="demo/other")
    run = retry(alice, answer, choice=choice, idempotency_key=uuid.uuid4())
    end_run(run, "At the \u2028 lake\x7f.")
    return run.message


@pytest.fixture
def as_staff(make_user: Callable[..., User], signed_in: Callable[[User], Client]) -> Client:
    return signed_in(make_user("Root", is_staff=True))


def line(figures: Figures) -> tuple[Any, ...]:
    return (
        *(figures.name, figures.answers, figures.up, figures.down),
        *(figures.share, figures.chosen, figures.compared),
    )


def exported(client: Client, **data: str) -> list[dict[str, Any]]:
    response = client.post(reverse("feedback_export"), {**EXPORT, **data})
    assert response.status_code == 200
    body = content_of(response).decode("ascii")
    assert not set(body) & {"\x7f", "\r"}
    return [json.loads(each) for each in body.splitlines()]


# --- figures --------------------------------------------------------------------------------------


def test_figures_by_model(
    answer: Message, other: Message, alice: User, viewer: User, team: Team
) -> None:
    actions.rate(alice, answer, 1)
    actions.rate(viewer, answer, 1)
    actions.rate(viewer, other, -1)
    actions.store_choice(alice, answer, [other])
    actions.store_choice(viewer, other, [answer])

    lines = [line(each) for each in by_model(Scope(team=team))]

    assert lines == [("demo/model", 1, 2, 0, 100, 1, 2), ("demo/other", 1, 0, 1, 0, 1, 2)]
    assert by_model(Scope(team=Team.objects.create(name="Elsewhere"))) == []


def test_figures_of_a_period(answer: Message, alice: User, viewer: User) -> None:
    actions.rate(alice, answer, 1)
    actions.rate(viewer, answer, -1)
    Feedback.objects.filter(person=viewer).update(updated_at=timezone.now() - timedelta(days=40))

    assert [line(each)[1:4] for each in by_model(Scope(days=30))] == [(1, 1, 0)]
    assert [line(each)[1:4] for each in by_model(Scope(days=0))] == [(1, 1, 1)]


def test_personal_presets_are_not_named(
    answer: Message, other: Message, room: Room, alice: User, bob: User, team: Team
) -> None:
    for owner, name, message in (
        ({"owner": alice}, "Secret one", answer),
        ({"team": team}, "Brief", other),
    ):
        preset = Preset.objects.create(name=name, **owner)
        version = PresetVersion.objects.create(preset=preset, number=1, model="m", icon="cpu")
        Run.objects.filter(message=message).update(preset_version=version)
        actions.rate(bob, message, 1)
    third = room.turn("And then?", below=answer)
    actions.rate(bob, third, -1)

    lines = {each.name: (each.place, each.up, each.down) for each in by_preset(Scope())}

    assert lines == {
        "Brief": (team.name, 1, 0),
        "Personal presets": ("", 1, 0),
        "No preset": ("", 0, 1),
    }


def test_page_shows_figures_to_administrators(
    answer: Message, other: Message, as_staff: Client, alice: User
) -> None:
    address = reverse("feedback_figures")
    empty = get_page(as_staff, address)
    actions.rate(alice, answer, 1)
    actions.store_choice(alice, answer, [other])

    page = get_page(as_staff, address)

    assert "No feedback in this period" in text_of(empty)
    rows = [text_of(row) for row in page.xpath("//*[@id='models']//tbody/tr")]
    assert all(words in rows[0] for words in ("demo/model", "100%", "1 of 1"))
    assert "0 of 1" in rows[1]


# --- the export -----------------------------------------------------------------------------------


def test_export_of_ratings_has_no_text(
    answer: Message,
    alice: User,
    viewer: User,
    as_staff: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A batch for each rating.
    monkeypatch.setattr("chat.feedback.export.BATCH_ROWS", 1)
    actions.rate(alice, answer, 1, ["clear"], "Secret note")
    actions.rate(viewer, answer, -1)

    lines = exported(as_staff)

    assert [(each["value"], each["reasons"], each["person"]) for each in lines] == [
        (1, ["clear"], 1),
        (-1, [], 2),
    ]
    assert set(lines[0]) == {
        *("kind", "value", "reasons", "rated_at", "person", "conversation"),
        *("model", "server", "preset"),
    }
    event = AuditEvent.objects.get(verb="feedback.exported")
    assert event.detail == {"count": 2, "reason": "Compare models"}
    assert not AccessReason.objects.exists()


def test_export_with_conversations_is_told(
    room: Room,
    answer: Message,
    other: Message,
    alice: User,
    team: Team,
    as_staff: Client,
    settings: Any,
) -> None:
    settings.FEEDBACK_EXPORT = "conversations"
    Conversation.objects.update(visibility=Visibility.TEAM)
    actions.rate(alice, other, -1, ["not_correct"], "Wrong \u2029 lake")
    below = room.turn("Then?", below=other)
    actions.rate(alice, below, 1)

    first, second = exported(as_staff, with_conversations="on", team=str(team.public_id))

    assert first["messages"] == [{"role": "user", "content": "Where does it begin?"}]
    assert (first["answer"], first["note"]) == ("At the \u2028 lake\x7f.", "Wrong \u2029 lake")
    assert [each["role"] for each in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][1]["content"] == first["answer"]
    assert first["conversation"] == second["conversation"] == 1
    assert not any(name in json.dumps(first) for name in (alice.name, alice.email))
    assert AuditEvent.objects.filter(verb="feedback.exported_with_conversations").count() == 1
    told = AccessReason.objects.get(kind=AccessKind.EXPORT)
    assert (told.reason, told.team) == ("Compare models", team)


@pytest.mark.parametrize(
    "change",
    [
        {"visibility": Visibility.PRIVATE},
        {"deleted_at": timezone.now()},
        {"expires_at": timezone.now() + timedelta(days=1)},
    ],
    ids=["private", "trash", "temporary"],
)
def test_conversations_that_not_everyone_reads_are_left_out(
    answer: Message, alice: User, as_staff: Client, settings: Any, change: dict[str, object]
) -> None:
    settings.FEEDBACK_EXPORT = "conversations"
    Conversation.objects.update(visibility=Visibility.TEAM)
    Conversation.objects.update(**change)
    actions.rate(alice, answer, 1)

    response = as_staff.post(reverse("feedback_export"), {**EXPORT, "with_conversations": "on"})

    assert response.status_code == 409
    assert "There is no feedback to export." in response.content.decode()
    assert not AuditEvent.objects.filter(verb__startswith="feedback.").exists()
    assert len(exported(as_staff)) == 1


@pytest.mark.parametrize(
    ("policy", "data", "status"),
    [
        ("off", {}, 409),
        ("ratings", {"with_conversations": "on"}, 409),
        ("conversations", {"reason": ""}, 422),
        ("conversations", {"team": str(uuid.uuid4())}, 404),
    ],
)
def test_policy_and_reason_are_needed(
    answer: Message,
    alice: User,
    as_staff: Client,
    settings: Any,
    policy: str,
    data: dict[str, str],
    status: int,
) -> None:
    settings.FEEDBACK_EXPORT = policy
    actions.rate(alice, answer, 1)

    response = as_staff.post(reverse("feedback_export"), {**EXPORT, **data})

    assert response.status_code == status
    assert not AuditEvent.objects.filter(verb__startswith="feedback.").exists()
    page = get_page(as_staff, reverse("feedback_figures"))
    assert bool(page.xpath("//input[@name='reason']")) == (policy != "off")
    offers = bool(page.xpath("//input[@name='with_conversations']"))
    assert offers == (policy == "conversations")


def test_rights_end_during_an_export(
    answer: Message, alice: User, make_user: Callable[..., User]
) -> None:
    root = make_user("Root", is_staff=True)
    actions.rate(alice, answer, 1)
    export = FeedbackExport(administrator=root, scope=Scope(), with_conversations=False)
    key = Feedback.objects.get().pk
    before = export.line(key)
    User.objects.filter(pk=root.pk).update(is_staff=False)

    assert before
    assert export.line(key) == b""


def test_long_conversations_are_cut_at_their_beginning(
    room: Room,
    answer: Message,
    alice: User,
    make_user: Callable[..., User],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat.feedback.export.LINE_CHARACTERS", 30)
    Conversation.objects.update(visibility=Visibility.TEAM)
    below = room.turn("And then?", below=answer)
    actions.rate(alice, below, 1)
    export = FeedbackExport(
        administrator=make_user("Root", is_staff=True), scope=Scope(), with_conversations=True
    )

    record = json.loads(export.line(Feedback.objects.get().pk))

    assert [each["role"] for each in record["messages"]] == ["user"]
    assert record["left_out"] == 2


def test_lines_are_ascii_without_control_characters() -> None:
    text = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\u2029\u202e\ufeff\U0001f30a"

    made = encode({"text": text})

    assert made[-1:] == b"\n"
    assert set(made[:-1]) <= set(range(0x20, 0x7F))
    assert json.loads(made) == {"text": text}
