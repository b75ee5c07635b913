"""The pages on which administrators limit a server to teams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Group, ModelGrant, Team, Upstream, User

SignIn = Callable[[User], Client]


@pytest.fixture
def ada(signed_in: SignIn, administrator: User) -> Client:
    return signed_in(administrator)


def address(route: str, upstream: Upstream, *further: object) -> str:
    return reverse(route, args=[upstream.public_id, *further])


def test_server_is_limited_and_opened(ada: Client, upstream: Upstream) -> None:
    for who, is_limited in (("selected", True), ("selected", True), ("everyone", False)):
        ada.post(address("server_access", upstream), {"who": who})
        assert Upstream.objects.get().is_limited is is_limited

    verbs = list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))
    assert verbs == ["upstream.limit", "upstream.unlimit"]


def test_team_is_given_models_limits_and_a_default(
    ada: Client, upstream: Upstream, team: Team
) -> None:
    ada.post(
        address("server_grant_add", upstream),
        {
            "place": team.public_id.hex,
            "listed": ["demo/model"],
            "patterns": "river-*\n\n river-* ",
            "default_model": "demo/model",
            "limit_max_output_tokens": "500",
        },
    )

    grant = ModelGrant.objects.get()
    assert (grant.team, grant.group) == (team, None)
    assert grant.model_names == ["demo/model", "river-*"]
    assert grant.limits == {"max_output_tokens": 500}
    page = ada.get(address("server_grant", upstream, grant.public_id)).content.decode()
    assert 'value="500"' in page
    assert "river-*" in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"place": "0" * 32},
        {"listed": ["no such model"]},
        {"patterns": "x" * 201},
        {"patterns": "a\x07b"},
        {"patterns": "\n".join(map(str, range(201)))},
        {"patterns": "other", "default_model": "demo/model"},
        {"limit_max_output_tokens": "many"},
        {"limit_temperature": "nan"},
    ],
)
def test_wrong_values_are_refused(
    ada: Client, upstream: Upstream, team: Team, *, wrong: dict[str, object]
) -> None:
    values = {"place": team.public_id.hex, **wrong}

    response = ada.post(address("server_grant_add", upstream), values)

    assert response.status_code == 422
    assert not ModelGrant.objects.exists()


def test_place_has_one_grant(ada: Client, upstream: Upstream, team: Team) -> None:
    group = Group.objects.create(team=team, name="Research")
    places = [team.public_id.hex, f"group:{group.public_id.hex}"]

    statuses = [
        ada.post(address("server_grant_add", upstream), {"place": place}).status_code
        for place in (*places, *places)
    ]

    assert statuses == [302, 302, 422, 422]
    assert ModelGrant.objects.count() == 2


def test_team_has_one_default(ada: Client, upstream: Upstream, team: Team) -> None:
    other = Upstream.objects.create(name="Other", dialect="lmstudio", base_url="http://127.0.0.1:8")
    old = ModelGrant.objects.create(upstream=other, team=team, default_model="old")

    ada.post(
        address("server_grant_add", upstream),
        {"place": team.public_id.hex, "default_model": "demo/model"},
    )

    old.refresh_from_db()
    assert old.default_model == ""
