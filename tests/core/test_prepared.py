"""Prepared statements return and write what the ORM's own do."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.core.prepared import Prepared, PreparedUpdate, insert
from chat.models import Conversation, Message, Role, Run, RunStatus, Team, Upstream, User

pytestmark = pytest.mark.databases

rooms = Prepared(
    lambda person, room: (
        Conversation.objects.filter(team__memberships__user=person, public_id=room)
        .select_related("team", "owner", "upstream")
        .annotate(role=F("team__memberships__role"))
    )
)


def fields_of(one: Any) -> dict[str, object]:
    return {field.attname: getattr(one, field.attname) for field in one._meta.concrete_fields}


def test_object_comes_with_its_related_objects(
    alice: User, conversation: Conversation, upstream: Upstream
) -> None:
    Conversation.objects.filter(pk=conversation.pk).update(
        parameters={"temperature": 0.5}, upstream=upstream
    )
    expected = Conversation.objects.select_related("team").get(pk=conversation.pk)

    for _ in range(7):  # The server keeps a plan of its own from the sixth time on.
        found = rooms.first(person=alice.pk, room=conversation.public_id)

    assert found is not None
    assert fields_of(found) == fields_of(expected)
    assert found.parameters == {"temperature": 0.5}
    assert found.role == "owner"
    with CaptureQueriesContext(connection) as asked:
        assert (found.team, found.owner, found.upstream) == (expected.team, alice, upstream)
    assert not len(asked)


def test_missing_related_object_is_none(alice: User, conversation: Conversation) -> None:
    found = rooms.first(person=alice.pk, room=conversation.public_id)

    assert found is not None
    assert found.upstream is None


def test_nothing_found_is_none(alice: User, conversation: Conversation) -> None:
    for room in (uuid.UUID(int=7), uuid.UUID(int=2**128 - 1)):
        assert rooms.first(person=alice.pk, room=room) is None


def test_values_have_their_types(conversation: Conversation) -> None:
    prepared = Prepared(
        lambda before: Conversation.objects.filter(created_at__lt=before).values_list(
            "public_id", "parameters", "created_at"
        )
    )

    assert prepared.all(before=timezone.now() + timedelta(hours=1)) == [
        (conversation.public_id, conversation.parameters, conversation.created_at)
    ]
    assert prepared.all(before=timezone.now() - timedelta(hours=1)) == []


def test_flat_values_come_without_tuples(team: Team, alice: User) -> None:
    names = Prepared(lambda name: Team.objects.filter(name__lt=name).values_list("name", flat=True))

    assert names.all(name="Z") == ["River"]


def test_none_is_refused_as_a_parameter(alice: User) -> None:
    with pytest.raises(ValueError, match="not set"):
        rooms.all(person=alice.pk, room=None)


def test_update_sets_columns_and_returns_the_count(conversation: Conversation) -> None:
    remember = PreparedUpdate(
        lambda room, model, parameters, deleted_at: (
            Conversation.objects.filter(pk=room),
            {
                "revision": F("revision") + 1,
                "model": model,
                "parameters": parameters,
                "deleted_at": deleted_at,
                "updated_at": Now(),
            },
        )
    )
    values = {"model": "it's", "parameters": {"a": [1, "%s"]}}

    assert remember(room=conversation.pk, deleted_at=None, **values) == 1
    assert remember(room=conversation.pk + 1, deleted_at=None, **values) == 0

    found = Conversation.objects.get(pk=conversation.pk)
    assert (found.revision, found.model) == (conversation.revision + 1, "it's")
    assert (found.parameters, found.deleted_at) == ({"a": [1, "%s"]}, None)
    at = timezone.now()
    remember(room=conversation.pk, deleted_at=at, **values)
    assert Conversation.objects.get(pk=conversation.pk).deleted_at == at


def test_inserted_row_equals_a_saved_one(
    conversation: Conversation, alice: User, upstream: Upstream
) -> None:
    def fresh(message: Message) -> Run:
        return Run(
            conversation=conversation,
            message=message,
            upstream=upstream,
            model="demo/model",
            parameters={"stop": ["100 %"]},
            requested_by=alice,
            idempotency_key=uuid.uuid4(),
            status=RunStatus.QUEUED,
        )

    message = insert(Message(conversation=conversation, role=Role.USER, text="100 %", author=alice))
    one, other = insert(fresh(message)), fresh(message)
    other.position = 1
    other.save()

    assert not one._state.adding
    assert fields_of(Run.objects.get(pk=one.pk)) == fields_of(one)
    own = {"id", "public_id", "idempotency_key", "queued_at", "position"}
    made, saved = (fields_of(Run.objects.get(pk=run.pk)) for run in (one, other))
    assert {name: made[name] for name in made if name not in own} == {
        name: saved[name] for name in saved if name not in own
    }
    assert Message.objects.get(pk=message.pk).text == "100 %"


def test_each_call_is_one_statement(
    alice: User, conversation: Conversation, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(2):
        rooms.first(person=alice.pk, room=conversation.public_id)
        rooms.first(person=alice.pk, room=conversation.public_id)


def test_constants_stand_in_the_text(alice: User, team: Team) -> None:
    """The planner must know them: few runs are queued, and nearly all are completed."""
    title = '50 % of "it\'s"'
    Conversation.objects.create(team=team, owner=alice, title=title)
    mine = Prepared(
        lambda person: Conversation.objects.filter(
            owner=person, title=title, visibility__in=("team", "private"), revision__gte=0
        ).values_list("title", flat=True)
    )

    assert mine.all(person=alice.pk) == [title]
    text = mine._known[connection.vendor].text
    assert "'team'" in text.text
    assert text._parameters == [("person", None)]
