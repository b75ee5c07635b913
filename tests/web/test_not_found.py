"""What is foreign, deleted or missing gets the same response, to the byte but for the token of forms."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import Conversation, User
from tests.support.rooms import HTMX, Room, end_run, without_token

REQUESTS = [
    ("get", "conversation", "conversation"),
    ("get", "conversation_changes", "conversation"),
    ("post", "conversation_send", "conversation"),
    ("post", "conversation_rename", "conversation"),
    ("get", "conversation_options", "conversation"),
    ("post", "conversation_visibility", "conversation"),
    ("get", "message_edit", "message"),
    ("post", "message_retry", "message"),
    ("post", "message_show", "message"),
    ("get", "message_source", "message"),
    ("get", "run_details", "run"),
    ("get", "run_text", "run"),
    ("post", "run_stop", "run"),
]


def visible(response: HttpResponse) -> tuple[int, bytes, dict[str, str], list[str]]:
    """Everything by which a client could tell responses apart."""
    headers = dict(response.headers)
    return response.status_code, without_token(response), headers, sorted(response.cookies)


@pytest.fixture
def ids(room: Room) -> dict[str, uuid.UUID]:
    run = room.ask("Where does it spring?")
    end_run(run)
    return {
        "conversation": room.conversation.public_id,
        "message": run.message.public_id,
        "run": run.public_id,
    }


@pytest.fixture
def as_charlie(charlie: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(charlie)


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
def test_foreign_and_missing_get_the_same_response(
    as_charlie: Client,
    ids: dict[str, uuid.UUID],
    headers: dict[str, str],
    subtests: pytest.Subtests,
) -> None:
    for method, route, kind in REQUESTS:
        with subtests.test(msg=f"{method} {route}"):
            request = getattr(as_charlie, method)

            foreign = request(reverse(route, args=[ids[kind]]), headers=headers)
            missing = request(reverse(route, args=[uuid.uuid4()]), headers=headers)

            assert foreign.status_code == 404
            assert visible(foreign) == visible(missing)


def test_deleted_and_missing_get_the_same_response(
    as_alice: Client, ids: dict[str, uuid.UUID]
) -> None:
    Conversation.objects.update(deleted_at=timezone.now())

    deleted = as_alice.get(reverse("conversation", args=[ids["conversation"]]))
    missing = as_alice.get(reverse("conversation", args=[uuid.uuid4()]))

    assert visible(deleted) == visible(missing)


def test_foreign_and_unknown_url_get_the_same_response(
    as_charlie: Client, ids: dict[str, uuid.UUID]
) -> None:
    foreign = as_charlie.get(reverse("conversation", args=[ids["conversation"]]))

    assert visible(foreign) == visible(as_charlie.get("/nowhere/"))


@pytest.mark.parametrize("address", ["/nowhere/", "/admin/chat/run/"])
def test_error_page_keeps_the_sidebar_of_who_is_signed_in(
    as_alice: Client, client: Client, room: Room, address: str
) -> None:
    inside, outside = as_alice.get(address, follow=True), client.get("/nowhere/")

    assert inside.status_code in (403, 404)
    assert room.conversation.title in inside.content.decode()
    assert 'id="palette"' in inside.content.decode()
    assert 'id="sidebar"' not in outside.content.decode()
