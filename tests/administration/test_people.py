"""Users, teams and invitations are edited in the administration, and every change is recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from allauth.account.models import EmailAddress
from django.contrib.sessions.models import Session
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Invitation, Membership, Team, TeamRole, User
from tests.administration.pages import list_url, row_url, text_of

Form = dict[str, object]


def verbs() -> list[str]:
    return list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))


# --- users -------------------------------------------------------------------------------------


def save_user(client: Client, user: User, **changes: object) -> HttpResponse:
    """Posts the user's form as the browser sends it; ``None`` stands for an empty checkbox."""
    form = {"name": user.name, "email": user.email, "is_active": "on"}
    if user.is_staff:
        form["is_staff"] = "on"
    fields = {name: value for name, value in {**form, **changes}.items() if value is not None}
    response = client.post(row_url(user), fields)
    user.refresh_from_db()
    return response


def test_no_page_shows_a_password_hash(admin_client: Client, alice: User) -> None:
    alice.refresh_from_db()

    for url in (list_url("user"), row_url(alice)):
        page = text_of(admin_client, url)
        assert alice.name in page
        assert alice.password not in page
        assert "pbkdf2" not in page


def test_deactivating_a_user_ends_their_sessions(
    admin_client: Client,
    alice: User,
    signed_in: Callable[[User], Client],
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    signed_in(alice)
    before = Session.objects.count()

    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        save_user(admin_client, alice, is_active=None)

    assert not alice.is_active
    assert Session.objects.count() == before - 1
    assert verbs() == ["user.deactivated"]


def test_new_administrator_is_recorded(admin_client: Client, alice: User) -> None:
    save_user(admin_client, alice, is_staff="on")

    event = AuditEvent.objects.get()
    assert alice.is_staff
    assert not alice.is_superuser
    assert event.subject == alice
    assert event.detail == {"is_staff": {"from": False, "to": True}}


def test_unchanged_user_is_not_recorded(admin_client: Client, alice: User) -> None:
    save_user(admin_client, alice)

    assert verbs() == []


def test_new_email_replaces_the_old_one(admin_client: Client, alice: User) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, primary=True, verified=True)

    save_user(admin_client, alice, email="Alice@Elsewhere.example")

    assert alice.email == "alice@elsewhere.example"
    assert not EmailAddress.objects.filter(user=alice).exists()
    assert verbs() == ["user.changed"]


def test_email_of_another_user_is_refused(admin_client: Client, alice: User, bob: User) -> None:
    response = save_user(admin_client, alice, email=bob.email.upper())

    assert response.status_code == 200
    assert alice.email == "alice@example.org"


def test_administrators_cannot_lock_themselves_out(
    admin_client: Client, administrator: User
) -> None:
    save_user(admin_client, administrator, is_active=None, is_staff=None, name="Ada L.")

    assert administrator.name == "Ada L."
    assert administrator.is_active
    assert administrator.is_staff


def test_superuser_is_not_changed_by_other_administrators(
    administrator: User, alice: User, signed_in: Callable[[User], Client]
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    client = signed_in(User.objects.get(pk=alice.pk))

    save_user(client, administrator, email="mine@evil.example", is_active=None, is_staff=None)

    assert administrator.email == "ada@example.org"
    assert administrator.is_active
    assert administrator.is_staff


@pytest.mark.parametrize("field", ["is_superuser", "password", "groups", "user_permissions"])
def test_rights_and_passwords_cannot_be_edited(
    admin_client: Client, alice: User, field: str
) -> None:
    before = User.objects.values().get(pk=alice.pk)

    save_user(admin_client, alice, **{field: "1"})

    assert User.objects.values().get(pk=alice.pk) == before


# --- teams -------------------------------------------------------------------------------------


def save_team(
    client: Client, team: Team, *, changes: dict[str, Form] | None = None, added: Form | None = None
) -> HttpResponse:
    """Posts the form of a team with its members, as the browser sends it. ``changes`` are those of
    a member's row, by name."""
    rows: list[Form] = []
    for row in team.memberships.order_by("user__name", "pk"):
        form: Form = {"id": row.pk, "team": team.pk, "user": row.user_id, "role": row.role}
        rows.append(form | (changes or {}).get(row.user.name, {}))
    initial = len(rows)
    if added:
        rows.append({"team": team.pk, **added})
    fields = {
        f"memberships-{number}-{name}": value
        for number, row in enumerate(rows)
        for name, value in row.items()
    }
    management = {"memberships-TOTAL_FORMS": len(rows), "memberships-INITIAL_FORMS": initial}
    return client.post(row_url(team), {"name": team.name, **management, **fields})


def test_every_change_of_members_is_recorded(
    admin_client: Client, team: Team, bob: User, viewer: User, charlie: User
) -> None:
    save_team(
        admin_client,
        team,
        changes={"Bob": {"role": "admin"}, "Vera": {"DELETE": "on"}},
        added={"user": charlie.pk, "role": "member"},
    )

    roles = dict(team.memberships.values_list("user__name", "role"))
    assert roles == {"Alice": "owner", "Bob": "admin", "Charlie": "member"}
    assert sorted(verbs()) == [
        "membership.added",
        "membership.removed",
        "membership.role_changed",
    ]
    changed = AuditEvent.objects.get(verb="membership.role_changed")
    assert changed.subject == bob
    assert changed.detail == {"before": "member", "after": "admin"}
    assert AuditEvent.objects.get(verb="membership.removed").subject == viewer


@pytest.mark.parametrize("change", [{"DELETE": "on"}, {"role": "member"}])
def test_team_keeps_an_owner(admin_client: Client, team: Team, change: Form) -> None:
    response = save_team(admin_client, team, changes={"Alice": change})

    assert "A team needs at least one owner." in response.content.decode()
    assert team.memberships.get(user__name="Alice").role == TeamRole.OWNER
    assert verbs() == []


def test_membership_keeps_its_person(admin_client: Client, team: Team, charlie: User) -> None:
    response = save_team(admin_client, team, changes={"Bob": {"user": charlie.pk}})

    assert "You can’t change the person in a row." in response.content.decode()
    assert not Membership.objects.filter(user=charlie).exists()


def test_new_team_is_recorded(admin_client: Client, alice: User) -> None:
    form = {
        "name": "Lake",
        "memberships-TOTAL_FORMS": 1,
        "memberships-INITIAL_FORMS": 0,
        "memberships-0-user": alice.pk,
        "memberships-0-role": "owner",
    }

    admin_client.post(reverse("admin:chat_team_add"), form)

    assert Membership.objects.get(team__name="Lake").user == alice
    assert verbs() == ["team.created", "membership.added"]


# --- invitations -------------------------------------------------------------------------------


def test_no_page_shows_the_hash_of_an_invitation(
    admin_client: Client, alice: User, team: Team
) -> None:
    digest = "0123456789abcdef" * 4
    invitation = Invitation.objects.create(
        team=team, invited_by=alice, token_hash=digest, expires_at=team.created_at
    )

    for url in (list_url("invitation"), row_url(invitation)):
        page = text_of(admin_client, url)
        assert "Expired" in page
        assert digest[:16] not in page
