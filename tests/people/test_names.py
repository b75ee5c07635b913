"""Names are what they look like."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from chat.actions import audit
from chat.actions.conversations import title_of
from chat.actions.names import check_name, one_line, without_hidden
from chat.models import AuditEvent, Invitation, Team, User
from tests.conftest import PASSWORD
from tests.people.conftest import MakeInvitation

SignIn = Callable[[User], Client]

HIDDEN = ["Ali\u202ece", "A\u2066b\u2069", "a\x07b", "tag\U000e0041", "zero\u200bwidth", "\ue000"]
NOTHING = ["\u200d", "\u0301", "\u3164\u200b"]
FINE = ["Zoë", "نام\u200cخانوادگی", "👨\u200d👩\u200d👧", "O'Brien-Łukasz Jr.", "=1+1", "李"]


@pytest.mark.parametrize("name", HIDDEN + NOTHING)
def test_a_name_that_hides_something_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        check_name(name)


@pytest.mark.parametrize("name", FINE)
def test_a_name_of_any_language_is_taken_as_it_is(name: str) -> None:
    check_name(one_line(name))

    assert one_line(name) == name


def test_a_name_is_one_composed_line() -> None:
    assert one_line("  Zoe\u0308\n\u2028of\tthe  river ") == "Zoë of the river"


def test_a_title_loses_what_would_turn_the_list_around() -> None:
    assert title_of("\u202eevil \x1btitle") == "evil title"
    assert without_hidden("a\u2067b\u2069") == "ab"


@pytest.mark.parametrize("name", HIDDEN)
def test_nobody_renames_themselves_into_something_hidden(
    bob: User, signed_in: SignIn, name: str
) -> None:
    answer = signed_in(bob).post(reverse("settings"), {"name": name})

    assert answer.status_code == 422
    bob.refresh_from_db()
    assert bob.name == "Bob"


def test_a_guest_cannot_come_in_under_a_hidden_name(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation()
    fields = {"name": "Ali\u202ece", "email": "new@example.org", "password": "a long new password"}

    assert Client().post(path, fields).status_code == 422
    assert not User.objects.filter(email="new@example.org").exists()


def test_the_admin_takes_no_hidden_name_either(administrator: User, signed_in: SignIn) -> None:
    team = Team.objects.create(name="River")
    fields = {
        "name": "Ri\u202ever",
        "memberships-TOTAL_FORMS": "0",
        "memberships-INITIAL_FORMS": "0",
    }

    answer = signed_in(administrator).post(
        reverse("admin:chat_team_change", args=[team.pk]), fields
    )

    assert answer.status_code == 200
    team.refresh_from_db()
    assert team.name == "River"


def test_whoever_takes_another_name_leaves_a_row(bob: User, signed_in: SignIn) -> None:
    client = signed_in(bob)
    client.post(reverse("settings"), {"name": "Alice"})
    client.post(reverse("settings"), {"name": "Alice"})

    event = AuditEvent.objects.get()
    assert (event.verb, event.actor) == ("user.renamed", bob)
    assert event.detail == {"before": "Bob", "after": "Alice"}


def test_a_new_password_leaves_a_row_without_the_password(bob: User, signed_in: SignIn) -> None:
    fields = {"oldpassword": PASSWORD, "password1": "quite another one", "password2": ""}
    fields["password2"] = fields["password1"]

    signed_in(bob).post(reverse("account_change_password"), fields)

    event = AuditEvent.objects.get()
    assert (event.verb, event.actor, event.detail) == ("user.password_set", bob, {})


def test_an_address_longer_than_its_column_is_refused_by_the_form(
    alice: User, team: Team, signed_in: SignIn
) -> None:
    fields = {
        "role": "member",
        "email": f"{'a' * 60}@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 20}.org",
    }
    address = reverse("invite", args=[team.public_id])

    assert signed_in(alice).post(address, {**fields, "days": "1"}).status_code == 422
    assert not Invitation.objects.exists()


def test_a_record_is_kept_whatever_the_length_of_what_it_names(bob: User) -> None:
    event = audit.record(bob, "test", target="t" * 500)

    event.refresh_from_db()
    assert event.target == "t" * 200
