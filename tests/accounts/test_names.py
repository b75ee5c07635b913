"""Names look like what they are: hidden and direction-changing characters are refused."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from chat.conversations.titles import title_of
from chat.core.text import check_name, one_line, without_hidden
from chat.models import AuditEvent, Invitation, Team, User
from tests.accounts.conftest import NEW_PASSWORD, MakeInvitation, SignIn
from tests.conftest import PASSWORD

HIDDEN = ["Ali\u202ece", "A\u2066b\u2069", "a\x07b", "tag\U000e0041", "zero\u200bwidth", "\ue000"]
BLANK = ["\u200d", "\u0301", "\u3164\u200b"]
FINE = ["Zoë", "نام\u200cخانوادگی", "👨\u200d👩\u200d👧", "O'Brien-Łukasz Jr.", "=1+1", "李"]


def test_names_with_hidden_characters_are_refused(subtests: pytest.Subtests) -> None:
    for name in HIDDEN + BLANK:
        with subtests.test(ascii(name)), pytest.raises(ValidationError):
            check_name(name)


def test_names_of_any_language_are_accepted(subtests: pytest.Subtests) -> None:
    for name in FINE:
        with subtests.test(ascii(name)):
            check_name(one_line(name))

            assert one_line(name) == name


def test_name_becomes_one_composed_line() -> None:
    assert one_line("  Zoe\u0308\n\u2028of\tthe  river ") == "Zoë of the river"


def test_title_loses_direction_marks() -> None:
    assert title_of("\u202eevil \x1btitle") == "evil title"
    assert without_hidden("a\u2067b\u2069") == "ab"


TITLES = {
    "**Compare** the `level_m` of _both_ gauges": "Compare the level_m of both gauges",
    "# Plan for *Monday* #": "Plan for Monday",
    '> - [ ] read [the **report**](https://example.org/a_(b) "Title")': "read the report",
    "1. ***Write*** ~~a poem~~ an ![ode](https://example.org/x.png)": "Write a poem an ode",
    "```python\nprint(2 ** 3 ** 1)\n```": "print(2 ** 3 ** 1)",
    "---\n\nsnake_case_name and 2 * 3 * 4, a*b*c": "snake_case_name and 2 * 3 * 4, a*b*c",
    "See <https://example.org/a_b_c> and \\*this\\*": "See https://example.org/a_b_c and *this*",
    "-5 degrees, **unclosed": "-5 degrees, **unclosed",
    "42.": "42.",
    "#1 of `` ` ``": "#1 of `",
    "***\n": "New conversation",
    "": "New conversation",
    "[word](https://example.org/" + "x" * 200 + ") " + "long " * 30: "word" + " long" * 11 + "…",
}


def test_title_has_no_marks(subtests: pytest.Subtests) -> None:
    for text, title in TITLES.items():
        with subtests.test(text):
            assert title_of(text) == title


def test_settings_refuse_hidden_names(
    bob: User, signed_in: SignIn, subtests: pytest.Subtests
) -> None:
    client = signed_in(bob)

    for name in HIDDEN:
        with subtests.test(ascii(name)):
            assert client.post(reverse("settings"), {"name": name}).status_code == 422
            bob.refresh_from_db()
            assert bob.name == "Bob"


def test_invitation_refuses_a_hidden_name(make_invitation: MakeInvitation) -> None:
    _, path = make_invitation()
    fields = {"name": "Ali\u202ece", "email": "new@example.org", "password": NEW_PASSWORD}

    assert Client().post(path, fields).status_code == 422
    assert not User.objects.filter(email="new@example.org").exists()


def test_administration_refuses_a_hidden_name(administrator: User, signed_in: SignIn) -> None:
    team = Team.objects.create(name="River")
    fields = {
        "name": "Ri\u202ever",
        "memberships-TOTAL_FORMS": "0",
        "memberships-INITIAL_FORMS": "0",
    }
    url = reverse("admin:chat_team_change", args=[team.pk])

    answer = signed_in(administrator).post(url, fields)

    assert answer.status_code == 200
    team.refresh_from_db()
    assert team.name == "River"


def test_renaming_is_recorded_once(bob: User, signed_in: SignIn) -> None:
    client = signed_in(bob)

    for _ in range(2):
        client.post(reverse("settings"), {"name": "Alice"})

    event = AuditEvent.objects.get()
    assert (event.verb, event.actor) == ("user.renamed", bob)
    assert event.detail == {"before": "Bob", "after": "Alice"}


def test_new_password_is_recorded_without_it(bob: User, signed_in: SignIn) -> None:
    fields = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}

    signed_in(bob).post(reverse("account_change_password"), fields)

    event = AuditEvent.objects.get()
    assert (event.verb, event.actor, event.detail) == ("user.password_set", bob, {})


def test_email_longer_than_its_column_is_refused(
    alice: User, team: Team, signed_in: SignIn
) -> None:
    email = f"{'a' * 60}@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 20}.org"
    fields = {"role": "member", "emails": email, "days": "1"}

    answer = signed_in(alice).post(reverse("invite", args=[team.public_id]), fields)

    assert answer.status_code == 422
    assert not Invitation.objects.exists()


def test_long_target_of_a_record_is_cut(bob: User) -> None:
    event = AuditEvent.objects.record(bob, "test", target="t" * 500)

    event.refresh_from_db()
    assert event.target == "t" * 200
