"""Groups of a provider become teams, roles, groups and administrator rights, and nobody changes those by hand."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chat import access
from chat.accounts.actions import people
from chat.core.errors import ActionRefused
from chat.identity import providers
from chat.identity.claims import groups_at, is_below, is_of_domains, read_person
from chat.identity.rights import apply_rights, rights_of
from chat.models import (
    AuditEvent,
    Group,
    GroupMember,
    GroupRule,
    Identity,
    IdentityProvider,
    Membership,
    PasswordSetting,
    Team,
    TeamRole,
    User,
)
from chat.participants import group_actions
from tests.identity.conftest import sign_in
from tests.identity.fake_provider import FakeProvider

# --- claims ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "path", "found"),
    [
        ({"groups": ["a", "b", "a"]}, "groups", ["a", "b"]),
        ({"groups": "a b, c"}, "groups", ["a", "b", "c"]),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ["a"]),
        ({"resource_access": {"my.app": {"roles": ["a"]}}}, "resource_access.my.app.roles", ["a"]),
        ({"https://example.org/groups": ["a"]}, "https://example.org/groups", ["a"]),
        ({"roles": {"admin": {"1": "x"}, "user": {}}}, "roles", ["admin", "user"]),
        ({"groups": [{"name": "a"}, {"id": 1}, {"name": ["x"]}]}, "groups", ["a"]),
        # "a " is not "a": somebody may found it.
        ({"groups": ["a ", "a", " ", 1, None, ["x"], "a" * 201, "a\x00b"]}, "groups", ["a ", "a"]),
        ({"groups": ["a"]}, "", []),
        ({"groups": ["a"]}, "roles", []),
        ({"groups": ["a"]}, "groups.deep", []),
        ({"groups": 1}, "groups", []),
        ({"groups": [f"g{number}" for number in range(2000)]}, "groups", None),
    ],
)
def test_groups_of_claims(claims: dict[str, Any], path: str, found: list[str] | None) -> None:
    groups = list(groups_at(claims, path))

    assert len(groups) == 1000 if found is None else groups == found


@pytest.mark.parametrize(
    ("group", "rule", "is_match"),
    [
        ("staff", "staff", True),
        ("/staff", "staff", True),
        ("staff", "/staff/", True),
        ("/staff/europe", "/staff", True),
        ("/staff/europe", "staff/europe", True),
        ("/staffing", "/staff", False),
        ("Staff", "staff", False),
        ("/other/staff", "staff", False),
        ("staff ", "staff", False),
        ("staff/", "staff", False),
        ("//staff", "staff", False),
        ("ſtaff", "staff", False),
        ("staff", "/", False),
    ],
)
def test_groups_below_count(group: str, rule: str, is_match: bool) -> None:
    assert is_below(group, rule) == is_match


def test_domains() -> None:
    assert is_of_domains("ana@Example.org", "example.org other.org")
    assert not is_of_domains("ana@sub.example.org", "example.org")
    assert not is_of_domains("ana@evil-example.org", "example.org")
    assert is_of_domains("ana@any.org", "")


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "  Ana   Lima "}, "Ana Lima"),
        ({"given_name": "Ana", "family_name": "Lima"}, "Ana Lima"),
        ({"name": "\u202eanA", "preferred_username": "ana"}, "ana"),
        ({"name": ["Ana"], "preferred_username": ""}, ""),
        ({"name": "a" * 500}, "a" * 80),
    ],
)
def test_name_of_claims(claims: dict[str, Any], name: str) -> None:
    person = read_person({"sub": "1", **claims}, groups_claim="", proves_addresses=False)

    assert person.name == name


@pytest.mark.parametrize(
    ("said", "is_proven"),
    [(True, True), ("true", True), (1, False), (1.0, False), ([True], False), ("True", False)],
)
def test_only_true_proves_an_address(said: object, is_proven: bool) -> None:
    claims = {"sub": "1", "email": "ana@example.org", "email_verified": said}

    person = read_person(claims, groups_claim="", proves_addresses=False)

    assert person.is_proven == is_proven


@pytest.mark.parametrize(
    "email",
    ["mi\u212ae@example.org", "v\u0131ctim@example.org", "\u017fam@example.org", "ана@example.org"],
)
def test_address_that_can_be_taken_for_another_is_none(email: str) -> None:
    claims = {"sub": "1", "email": email, "email_verified": True}

    assert read_person(claims, groups_claim="", proves_addresses=True).email == ""


def rule(claimed: str, team: int | None = None, role: str = "member", **more: Any) -> GroupRule:
    return GroupRule(claimed=claimed, team_id=team, role=role, **more)


@pytest.mark.parametrize(
    ("claimed", "roles", "is_administrator"),
    [
        ([], {}, False),
        (["unknown"], {}, False),
        (["sales"], {1: "viewer"}, False),
        (["/sales/europe"], {1: "admin"}, False),
        (["sales", "sales/europe", "it"], {1: "admin", 2: "member"}, True),
        (["it"], {2: "member"}, True),
    ],
)
def test_rules_give_rights(
    claimed: list[str], roles: dict[int, str], is_administrator: bool
) -> None:
    rules = [
        rule("sales", 1, "viewer"),
        rule("sales/europe", 1, "admin"),
        rule("it", 2),
        rule("it", makes_administrator=True),
    ]

    rights = rights_of(claimed, rules)

    assert (rights.roles, rights.is_administrator) == (roles, is_administrator)


# --- applied at each sign-in -----------------------------------------------------------------------------


@pytest.fixture
def sales(db: None) -> Team:
    return Team.objects.create(name="Sales")


@pytest.fixture
def group(sales: Team) -> Group:
    return Group.objects.create(team=sales, name="Europe")


@pytest.fixture
def rules(provider: IdentityProvider, sales: Team, group: Group) -> None:
    for claimed, team, role, of in (
        ("/sales", sales, TeamRole.MEMBER, None),
        ("/sales/europe", sales, TeamRole.MEMBER, group),
        ("/sales/heads", sales, TeamRole.OWNER, None),
    ):
        GroupRule.objects.create(provider=provider, claimed=claimed, team=team, role=role, group=of)
    GroupRule.objects.create(provider=provider, claimed="it", makes_administrator=True)


def signed_in_with(provider: IdentityProvider, fake: FakeProvider, *groups: str) -> User:
    fake.claims["groups"] = list(groups)
    assert sign_in(Client(), provider).status_code == 302
    return User.objects.get(email="ana@example.org")


@pytest.mark.databases(slow=True)
@pytest.mark.usefixtures("rules", "administrator")
def test_groups_come_and_go_with_each_sign_in(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, team: Team, group: Group
) -> None:
    ana = signed_in_with(provider, fake, "/sales/europe", "it")
    assert ana.is_staff
    assert [each.team for each in ana.memberships.all()] == [sales]
    assert GroupMember.objects.filter(group=group, user=ana).exists()

    ana = signed_in_with(provider, fake, "/sales")
    assert not ana.is_staff
    assert ana.memberships.get().role == TeamRole.MEMBER
    assert not GroupMember.objects.filter(user=ana).exists()

    ana = signed_in_with(provider, fake)
    assert not ana.memberships.exists()
    verbs = list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))
    for verb in ("team_joined", "team_left", "administrator_made", "administrator_removed"):
        assert f"identity.{verb}" in verbs


@pytest.mark.usefixtures("rules")
def test_what_people_gave_stays(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, team: Team
) -> None:
    ana = signed_in_with(provider, fake, "/sales")
    Membership.objects.create(team=team, user=ana, role=TeamRole.ADMIN)

    signed_in_with(provider, fake)

    assert ana.memberships.get().team == team


@pytest.mark.usefixtures("rules")
def test_role_given_by_hand_becomes_that_of_the_group(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, alice: User
) -> None:
    Membership.objects.create(team=sales, user=alice, role=TeamRole.OWNER)
    ana = signed_in_with(provider, fake)
    Membership.objects.create(team=sales, user=ana, role=TeamRole.ADMIN)

    signed_in_with(provider, fake, "/sales")

    assert ana.memberships.get(team=sales).role == TeamRole.MEMBER


@pytest.mark.databases(slow=True)
@pytest.mark.usefixtures("rules")
def test_last_owner_stays(provider: IdentityProvider, fake: FakeProvider, sales: Team) -> None:
    ana = signed_in_with(provider, fake, "/sales/heads")

    for groups in (["/sales"], []):
        signed_in_with(provider, fake, *groups)
        assert ana.memberships.get().role == TeamRole.OWNER


@pytest.mark.usefixtures("rules")
def test_superuser_and_last_administrator_stay(
    provider: IdentityProvider, fake: FakeProvider
) -> None:
    User.objects.filter(is_staff=True).update(is_staff=False)
    ana = signed_in_with(provider, fake, "it", "/sales")

    signed_in_with(provider, fake, "/sales")

    ana.refresh_from_db()
    assert ana.is_staff


@pytest.mark.usefixtures("rules")
def test_rights_of_two_providers_add_up(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, team: Team
) -> None:
    ana = signed_in_with(provider, fake, "/sales")
    other = IdentityProvider.objects.create(slug="other", name="Other", issuer="https://o.example")
    GroupRule.objects.create(provider=other, claimed="heads", team=sales, role=TeamRole.ADMIN)
    Identity.objects.create(provider=other, sub="1", user=ana, groups=["heads"])

    apply_rights(ana)

    assert ana.memberships.get().role == TeamRole.ADMIN
    assert ana.memberships.get().managed.identity.provider == other


# --- managed by the provider -----------------------------------------------------------------------------


@pytest.mark.usefixtures("rules")
def test_managed_membership_is_changed_by_nobody(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, group: Group, administrator: User
) -> None:
    ana = signed_in_with(provider, fake, "/sales/europe")
    membership = ana.memberships.get()

    for change in (
        lambda: people.change_role(administrator, membership, TeamRole.OWNER),
        lambda: people.remove_member(administrator, membership),
        lambda: people.remove_member(ana, membership),
        lambda: group_actions.remove_member(administrator, group, ana),
    ):
        with pytest.raises(ActionRefused, match="Keycloak"):
            change()

    assert ana.memberships.get().role == TeamRole.MEMBER
    assert GroupMember.objects.filter(user=ana, group=group).exists()


@pytest.mark.usefixtures("rules")
def test_pages_say_who_manages(
    provider: IdentityProvider,
    fake: FakeProvider,
    sales: Team,
    group: Group,
    administrator: User,
) -> None:
    ana = signed_in_with(provider, fake, "/sales/europe", "it")
    client = Client()
    client.force_login(administrator)

    page = client.get("/people/").content.decode()
    assert "Managed by Keycloak" in page
    assert f"/members/{ana.public_id}/role/" not in page
    assert f"/members/{ana.public_id}/remove/" not in page
    assert "Keycloak" in client.get("/people/accounts/").content.decode()
    page = client.get(f"/people/groups/{group.public_id}/").content.decode()
    assert "Managed by Keycloak" in page
    assert "Remove Ana" not in page


@pytest.mark.usefixtures("rules")
def test_administration_changes_no_managed_right(
    provider: IdentityProvider, fake: FakeProvider, sales: Team, administrator: User
) -> None:
    ana = signed_in_with(provider, fake, "/sales", "it")
    membership = ana.memberships.get()
    client = Client()
    client.force_login(administrator)
    row = {"id": membership.pk, "team": sales.pk, "user": ana.pk, "role": "owner"}

    response = client.post(
        f"/admin/chat/team/{sales.pk}/change/",
        {
            "name": "Sales",
            "memberships-TOTAL_FORMS": 1,
            "memberships-INITIAL_FORMS": 1,
            **{f"memberships-0-{name}": value for name, value in row.items()},
        },
    )
    assert "Keycloak manages this membership" in response.content.decode()
    client.post(
        f"/admin/chat/user/{ana.pk}/change/",
        {"name": ana.name, "email": ana.email, "is_active": "on"},
    )

    ana.refresh_from_db()
    assert ana.is_staff
    assert ana.memberships.get().role == TeamRole.MEMBER


@pytest.mark.usefixtures("rules")
def test_after_disconnecting_people_decide(
    provider: IdentityProvider, fake: FakeProvider, administrator: User
) -> None:
    ana = signed_in_with(provider, fake, "/sales")

    providers.disconnect(administrator, ana.identities.get())

    people.change_role(administrator, ana.memberships.get(), TeamRole.OWNER)
    assert ana.memberships.get().role == TeamRole.OWNER


@pytest.mark.usefixtures("rules")
def test_emergency_account_stays_an_administrator(
    provider: IdentityProvider, fake: FakeProvider, administrator: User
) -> None:
    ana = signed_in_with(provider, fake, "it")
    assert ana.is_staff
    PasswordSetting.objects.create(emergency_account=ana)

    signed_in_with(provider, fake, "/sales")

    ana.refresh_from_db()
    assert ana.is_staff
    assert access.manager_of_administrator(ana) == ""
