from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Run, User

MakeUser = Callable[..., User]


@pytest.fixture
def staff_client(make_user: MakeUser, signed_in: Callable[[User], Client]) -> Client:
    """An administrator who is no superuser."""
    return signed_in(make_user("Stan", is_staff=True))


@pytest.mark.parametrize(
    ("model", "lookup", "value"),
    [
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
    ],
)
def test_a_list_cannot_be_asked_for_a_column_that_no_filter_offers(
    staff_client: Client, private_run: Run, model: str, lookup: str, value: str
) -> None:
    address = reverse(f"admin:chat_{model}_changelist")

    assert staff_client.get(address, {lookup: value}).status_code == 400


@pytest.mark.parametrize(
    ("model", "query"),
    [
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
    ],
)
def test_what_a_filter_offers_can_be_asked_for(
    staff_client: Client, private_run: Run, model: str, query: dict[str, str]
) -> None:
    address = reverse(f"admin:chat_{model}_changelist")

    assert staff_client.get(address, query).status_code == 200


def test_suggestions_do_not_search_the_history_behind_the_audit_trails_back(
    staff_client: Client, private_run: Run
) -> None:
    query = {"app_label": "chat", "model_name": "run", "field_name": "conversation"}

    response = staff_client.get(reverse("admin:autocomplete"), {**query, "term": "spring"})

    assert response.status_code == 404
    assert private_run.conversation.title.encode() not in response.content


@pytest.mark.parametrize("model", ["conversation", "run"])
def test_a_search_that_titles_answer_leaves_a_row(
    staff_client: Client, private_run: Run, model: str
) -> None:
    staff_client.get(reverse(f"admin:chat_{model}_changelist"), {"q": "Private"})

    event = AuditEvent.objects.get()
    assert event.verb == "conversation.search_by_administrator"
    assert event.detail == {"words": "Private"}
