"""Favorite and recent models of a person, as the picker gets them."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.favorites.actions import MOST_FAVORITES
from chat.models import Conversation, FavoriteModel, Message, Role, Run, Upstream, User

MODELS = [{"id": f"m{number}", "label": f"Model {number}"} for number in range(40)]


@pytest.fixture
def server(upstream: Upstream) -> Upstream:
    upstream.model_list = MODELS
    upstream.save()
    return upstream


def post(client: Client, server: Upstream, model: str, route: str = "favorite") -> tuple[int, str]:
    data = {"server": str(server.public_id), "model": model}
    response = client.post(reverse(route), data)
    return response.status_code, response.content.decode()


def shown(client: Client, name: str, address: str = "/") -> list[str]:
    """The names of models in one of the lists of the picker on a page."""
    (select,) = html.fromstring(client.get(address).content).xpath("//select[@id='id_choice']")
    values = select.get(f"data-{name}").split("\n")
    return [each.partition(":")[2] for each in values if each]


def test_favorites_are_those_of_the_person(
    as_alice: Client, as_bob: Client, server: Upstream, conversation: Conversation
) -> None:
    assert [post(as_alice, server, name)[0] for name in ("m3", "m1", "m3")] == [204, 204, 204]

    room = reverse("conversation", args=[conversation.public_id])
    assert shown(as_alice, "favorites") == shown(as_alice, "favorites", room) == ["m3", "m1"]
    assert shown(as_bob, "favorites") == []
    assert post(as_alice, server, "m3", "favorite_remove")[0] == 204
    assert post(as_alice, server, "m3", "favorite_remove")[0] == 204
    assert shown(as_alice, "favorites") == ["m1"]


def test_model_that_is_gone_is_kept_and_not_shown(as_alice: Client, server: Upstream) -> None:
    post(as_alice, server, "m1")
    post(as_alice, server, "m2")
    server.model_list = [{**MODELS[1], "is_off": True}, *MODELS[5:]]
    server.save()

    assert shown(as_alice, "favorites") == []
    assert post(as_alice, server, "m2")[0] == 409

    server.model_list = MODELS
    server.save()
    assert shown(as_alice, "favorites") == ["m1", "m2"]


def test_server_that_is_off_can_not_be_marked(as_alice: Client, server: Upstream) -> None:
    post(as_alice, server, "m1")
    Upstream.objects.update(is_enabled=False)

    assert post(as_alice, server, "m2")[0] == 404
    assert post(as_alice, server, "")[0] == 404


def test_favorites_have_a_limit(as_alice: Client, alice: User, server: Upstream) -> None:
    for entry in MODELS[:MOST_FAVORITES]:
        assert post(as_alice, server, str(entry["id"]))[0] == 204

    status, words = post(as_alice, server, "m39")

    assert (status, FavoriteModel.objects.filter(user=alice).count()) == (409, MOST_FAVORITES)
    assert words == f"You can have up to {MOST_FAVORITES} favorites. Remove one first."


def test_recent_models_are_those_of_the_last_answers(
    as_alice: Client, as_bob: Client, alice: User, server: Upstream, conversation: Conversation
) -> None:
    for name in ("m1", "m2", "m1", "gone", "m3", "m4", "m5", "m6", "m7"):
        answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT)
        Run.objects.create(
            conversation=conversation,
            message=answer,
            upstream=server,
            model=name,
            requested_by=alice,
            idempotency_key=uuid.uuid4(),
        )

    assert shown(as_alice, "recent") == ["m7", "m6", "m5", "m4", "m3"]
    assert shown(as_bob, "recent") == []
