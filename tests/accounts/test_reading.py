"""Reading settings: stored for the person, and on the root element of each of their pages."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import Conversation, User

FORM = {"width": "wide", "size": "large", "density": "compact", "wraps_code": "on"}


def root_of(client: Client, address: str = "/") -> dict[str, str]:
    return dict(html.fromstring(client.get(address).content).attrib)


@pytest.mark.parametrize(
    ("posted", "reading", "wraps"),
    [
        ({}, None, None),
        (FORM, "wide large compact", "wraps-code"),
        ({"width": "full"}, "full", None),
        ({"size": "largest", "density": "relaxed"}, "largest relaxed", None),
        ({"wraps_code": "on"}, None, "wraps-code"),
    ],
)
def test_choices_are_on_the_root_element(
    as_alice: Client, posted: dict[str, str], reading: str | None, wraps: str | None
) -> None:
    response = as_alice.post(reverse("reading"), posted)

    assert response.headers["Location"] == f"{reverse('settings')}#reading"
    root = root_of(as_alice)
    assert (root.get("data-reading"), root.get("class")) == (reading, wraps)


def test_nobody_else_has_them(
    as_alice: Client, as_bob: Client, client: Client, conversation: Conversation
) -> None:
    as_alice.post(reverse("reading"), FORM)

    room = reverse("conversation", args=[conversation.public_id])
    assert root_of(as_alice, room)["data-reading"] == "wide large compact"
    for other, address in ((as_bob, room), (client, reverse("account_login"))):
        assert "data-reading" not in root_of(other, address)
    # What open pages fetch is the same for all readers.
    changes = as_alice.get(reverse("conversation_changes", args=[conversation.public_id]))
    assert 'data-reading="' not in changes.content.decode()


@pytest.mark.parametrize("field", ["width", "size", "density"])
def test_unknown_value_is_refused(as_alice: Client, alice: User, field: str) -> None:
    response = as_alice.post(reverse("reading"), {field: 'x" onload="'})

    alice.refresh_from_db()
    assert response.status_code == 422
    assert alice.reading == ""


def test_form_is_fetched_as_a_dialog(as_alice: Client) -> None:
    as_alice.post(reverse("reading"), FORM)

    fragment = as_alice.get(reverse("reading"), headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in fragment
    checked = html.fromstring(fragment).xpath("//input[@checked]")
    assert [each.get("value", "on") for each in checked] == ["wide", "large", "compact", "on"]


def test_button_at_code_changes_nothing_else(as_alice: Client, alice: User) -> None:
    as_alice.post(reverse("reading"), FORM)

    as_alice.post(reverse("code_wrap"))

    alice.refresh_from_db()
    assert (alice.reading, alice.wraps_code) == ("wide large compact", False)
