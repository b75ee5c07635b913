from __future__ import annotations

from collections.abc import Callable

import pytest
from allauth.account.models import EmailAddress
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Invitation, Membership, Team, TeamRole, User

Form = dict[str, object]


def user_address(user: User) -> str:
    return reverse("admin:chat_user_change", args=[user.pk])


def user_form(user: User, **changes: object) -> Form:
    form: Form = {"name": user.name, "email": user.email, "is_active": "on"}
    if user.is_staff:
        form["is_staff"] = "on"
    form.update(changes)
    return {name: value for name, value in form.items() if value is not None}


def team_form(
    team: Team, *, changes: dict[str, Form] | None = None, added: Form | None = None
) -> Form:
    """The form of a team with its members, as the browser sends it."""
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
    return {
        "name": team.name,
        "memberships-TOTAL_FORMS": len(rows),
        "memberships-INITIAL_FORMS": initial,
        **fields,
    }


def verbs() -> list[str]:
    return list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))


# --- users ---------------------------------------------------------------------------


def test_no_page_shows_a_password_hash(admin_client: Client, alice: User) -> None:
    alice.refresh_from_db()

    for address in (reverse("admin:chat_user_changelist"), user_address(alice)):
        page = admin_client.get(address).content.decode()
        assert alice.name in page
        assert alice.password not in page
        assert "pbkdf2" not in page


def test_switching_a_person_off_ends_their_sessions(
    admin_client: Client,
    alice: User,
    signed_in: Callable[[User], Client],
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    signed_in(alice)
    before = Session.objects.count()

    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        admin_client.post(user_address(alice), user_form(alice, is_active=None))

    alice.refresh_from_db()
    assert not alice.is_active
    assert Session.objects.count() == before - 1
    assert verbs() == ["user.deactivated"]


def test_making_somebody_an_administrator_is_recorded(admin_client: Client, alice: User) -> None:
    admin_client.post(user_address(alice), user_form(alice, is_staff="on"))

    alice.refresh_from_db()
    event = AuditEvent.objects.get()
    assert alice.is_staff
    assert not alice.is_superuser
    assert event.subject == alice
    assert event.detail == {"is_staff": {"from": False, "to": True}}


def test_saving_what_nobody_touched_records_nothing(admin_client: Client, alice: User) -> None:
    admin_client.post(user_address(alice), user_form(alice))

    assert verbs() == []


def test_another_address_forgets_the_old_one(admin_client: Client, alice: User) -> None:
    EmailAddress.objects.create(user=alice, email=alice.email, primary=True, verified=True)

    admin_client.post(user_address(alice), user_form(alice, email="Alice@Elsewhere.example"))

    alice.refresh_from_db()
    assert alice.email == "alice@elsewhere.example"
    assert not EmailAddress.objects.filter(user=alice).exists()
    assert verbs() == ["user.changed"]


def test_an_address_that_somebody_has_is_refused(
    admin_client: Client, alice: User, bob: User
) -> None:
    response = admin_client.post(user_address(alice), user_form(alice, email=bob.email.upper()))

    alice.refresh_from_db()
    assert response.status_code == 200
    assert alice.email == "alice@example.org"


def test_nobody_shuts_themselves_out(admin_client: Client, administrator: User) -> None:
    form = user_form(administrator, is_active=None, is_staff=None, name="Ada L.")

    admin_client.post(user_address(administrator), form)

    administrator.refresh_from_db()
    assert administrator.name == "Ada L."
    assert administrator.is_active
    assert administrator.is_staff


def test_who_set_the_installation_up_is_not_changed_by_another_administrator(
    administrator: User, alice: User, signed_in: Callable[[User], Client]
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    form = user_form(administrator, email="mine@evil.example", is_active=None, is_staff=None)

    signed_in(User.objects.get(pk=alice.pk)).post(user_address(administrator), form)

    administrator.refresh_from_db()
    assert administrator.email == "ada@example.org"
    assert administrator.is_active
    assert administrator.is_staff


@pytest.mark.parametrize("field", ["is_superuser", "password", "groups", "user_permissions"])
def test_rights_and_passwords_are_no_fields(admin_client: Client, alice: User, field: str) -> None:
    before = User.objects.values().get(pk=alice.pk)

    admin_client.post(user_address(alice), user_form(alice, **{field: "1"}))

    assert User.objects.values().get(pk=alice.pk) == before


# --- teams ---------------------------------------------------------------------------


def test_memberships_are_added_changed_and_removed_and_each_leaves_a_row(
    admin_client: Client, team: Team, bob: User, viewer: User, charlie: User
) -> None:
    form = team_form(
        team,
        changes={"Bob": {"role": "admin"}, "Vera": {"DELETE": "on"}},
        added={"user": charlie.pk, "role": "member"},
    )

    admin_client.post(reverse("admin:chat_team_change", args=[team.pk]), form)

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
def test_a_team_keeps_an_owner(admin_client: Client, team: Team, change: Form) -> None:
    response = admin_client.post(
        reverse("admin:chat_team_change", args=[team.pk]),
        team_form(team, changes={"Alice": change}),
    )

    assert "The team needs an owner." in response.content.decode()
    assert team.memberships.get(user__name="Alice").role == TeamRole.OWNER
    assert verbs() == []


def test_a_membership_does_not_become_somebody_elses(
    admin_client: Client, team: Team, charlie: User
) -> None:
    response = admin_client.post(
        reverse("admin:chat_team_change", args=[team.pk]),
        team_form(team, changes={"Bob": {"user": charlie.pk}}),
    )

    assert "A row stays its person" in response.content.decode()
    assert not Membership.objects.filter(user=charlie).exists()


def test_a_new_team_is_recorded(admin_client: Client, alice: User) -> None:
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


# --- invitations ---------------------------------------------------------------------


def test_no_page_shows_the_hash_of_an_invitation(
    admin_client: Client, alice: User, team: Team
) -> None:
    digest = "0123456789abcdef" * 4
    invitation = Invitation.objects.create(
        team=team, invited_by=alice, token_hash=digest, expires_at=team.created_at
    )

    for address in (
        reverse("admin:chat_invitation_changelist"),
        reverse("admin:chat_invitation_change", args=[invitation.pk]),
    ):
        page = admin_client.get(address).content.decode()
        assert "Expired" in page
        assert digest[:16] not in page
