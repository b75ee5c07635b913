"""What is somebody else's, what is deleted and what never was: one answer for all."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import Conversation, User
from tests.views.conftest import HTMX, Room, end_run

PLACES = [
    ("get", "conversation", "conversation"),
    ("get", "conversation_changes", "conversation"),
    ("post", "conversation_send", "conversation"),
    ("post", "conversation_rename", "conversation"),
    ("post", "conversation_delete", "conversation"),
    ("post", "conversation_visibility", "conversation"),
    ("get", "message_edit", "message"),
    ("post", "message_retry", "message"),
    ("post", "message_show", "message"),
    ("get", "message_source", "message"),
    ("get", "run_details", "run"),
    ("post", "run_stop", "run"),
]


def seen(answer: HttpResponse) -> tuple[int, bytes, dict[str, str], list[str]]:
    """Everything that a client can tell answers apart by."""
    return answer.status_code, answer.content, dict(answer.headers), sorted(answer.cookies)


@pytest.fixture
def ids(room: Room, alice: User) -> dict[str, uuid.UUID]:
    run = room.ask(alice, "Where does it spring?")
    end_run(run)
    return {
        "conversation": room.conversation.public_id,
        "message": run.message.public_id,
        "run": run.public_id,
    }


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
@pytest.mark.parametrize(("method", "route", "kind"), PLACES)
def test_foreign_and_missing_are_the_same_to_the_byte(
    charlie: User,
    signed_in: Callable[[User], Client],
    ids: dict[str, uuid.UUID],
    method: str,
    route: str,
    kind: str,
    headers: dict[str, str],
) -> None:
    ask = getattr(signed_in(charlie), method)

    foreign = ask(reverse(route, args=[ids[kind]]), headers=headers)
    missing = ask(reverse(route, args=[uuid.uuid4()]), headers=headers)

    assert foreign.status_code == 404
    assert seen(foreign) == seen(missing)


def test_what_its_owner_deleted_is_like_what_never_was(
    alice: User, signed_in: Callable[[User], Client], ids: dict[str, uuid.UUID]
) -> None:
    client = signed_in(alice)
    Conversation.objects.update(deleted_at=timezone.now())

    deleted = client.get(reverse("conversation", args=[ids["conversation"]]))
    missing = client.get(reverse("conversation", args=[uuid.uuid4()]))

    assert seen(deleted) == seen(missing)


def test_an_address_that_leads_nowhere_looks_no_different(
    charlie: User, signed_in: Callable[[User], Client], ids: dict[str, uuid.UUID]
) -> None:
    client = signed_in(charlie)

    foreign = client.get(reverse("conversation", args=[ids["conversation"]]))

    assert seen(foreign) == seen(client.get("/nowhere/"))
