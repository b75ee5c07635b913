"""A list can be asked only for what its filters offer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import Run, User
from tests.administration.pages import list_url
from tests.conftest import MakeUser

REFUSED = [
    ("user", "password__startswith", "md5"),
    ("user", "conversations__title__contains", "r"),
    ("invitation", "token_hash__startswith", "0"),
    ("invitation", "invited_by__password__startswith", "md5"),
    ("upstream", "sealed_key__startswith", "g"),
    ("conversation", "system_prompt__contains", "r"),
    ("conversation", "messages__text__contains", "r"),
    ("conversation", "team__name__contains", "r"),
    ("run", "result__contains", "mill"),
    ("run", "system_prompt__contains", "r"),
    ("run", "requested_by__password__startswith", "md5"),
    ("auditevent", "actor__password__startswith", "md5"),
]
OFFERED = [
    ("user", {"is_staff__exact": "1"}),
    ("user", {"date_joined__gte": "2020-01-01 00:00:00+00:00"}),
    ("conversation", {"person": "1"}),
    ("conversation", {"team__id__exact": "1"}),
    ("conversation", {"updated_at__year": "2026"}),
    ("run", {"status__exact": "completed"}),
    ("run", {"requested_by__id__exact": "1"}),
    ("run", {"model": "demo/model"}),
    ("auditevent", {"verb": "test"}),
    ("upstream", {"is_enabled__exact": "1"}),
    ("runner", {}),
]


@pytest.fixture
def staff_client(make_user: MakeUser, signed_in: Callable[[User], Client]) -> Client:
    """An administrator who is not a superuser."""
    return signed_in(make_user("Stan", is_staff=True))


def test_lookups_without_a_filter_are_refused(
    staff_client: Client, private_run: Run, subtests: pytest.Subtests
) -> None:
    for model, lookup, value in REFUSED:
        with subtests.test(model=model, lookup=lookup):
            assert staff_client.get(list_url(model), {lookup: value}).status_code == 400


def test_lookups_of_filters_are_accepted(
    staff_client: Client, private_run: Run, subtests: pytest.Subtests
) -> None:
    for model, query in OFFERED:
        with subtests.test(f"{model} {query}"):
            assert staff_client.get(list_url(model), query).status_code == 200


def test_autocomplete_does_not_search_conversations(staff_client: Client, private_run: Run) -> None:
    query = {"app_label": "chat", "model_name": "run", "field_name": "conversation"}

    response = staff_client.get(reverse("admin:autocomplete"), {**query, "term": "spring"})

    assert response.status_code == 404
    assert private_run.conversation.title.encode() not in response.content
