"""Who may open which page of the administration, and what can be changed there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from chat.models import (
    AccessToken,
    Artifact,
    ArtifactVersion,
    AuditEvent,
    Invitation,
    Mockup,
    MockupVersion,
    Run,
    Runner,
    Team,
    Upstream,
    User,
)
from tests.administration.pages import list_url, text_of
from tests.support.files import store_file
from tests.support.reasons import give_reasons
from tests.support.selection import sample

SignIn = Callable[[User], Client]

MODELS = {model._meta.model_name: model for model in admin.site._registry}
EDITABLE = {"user", "team"}
READ_ONLY = sorted(set(MODELS) - EDITABLE)
ADDABLE = {"team"}
WITH_ACTIONS = {"accesstoken", "upstream"}
PAGES = ("changelist", "add", "change", "history", "delete")
EVERY_PAGE = [(model, page) for model in MODELS for page in PAGES]
# Who gets in is decided before the page is: some of them tell in `make test`.
SOME_PAGES = sample(EVERY_PAGE, 20)


@pytest.fixture
def keys(private_run: Run, alice: User, team: Team, upstream: Upstream) -> dict[str, int]:
    """The primary key of one row of each kind that the administration shows, by model."""
    room = {"conversation": private_run.conversation}
    version = {"run": private_run, "number": 1, "seq": 2}
    artifact = Artifact.objects.create(artifact_id="a", **room)
    mockup = Mockup.objects.create(bundle_id="b", **room)
    token = {"team": team, "token_hash": "0" * 64}
    rows = [
        AccessToken.objects.create(user=alice, name="nightly", **token),
        ArtifactVersion.objects.create(artifact=artifact, **version),
        AuditEvent.objects.create(verb="test"),
        private_run.conversation,
        Invitation.objects.create(invited_by=alice, expires_at=private_run.queued_at, **token),
        MockupVersion.objects.create(mockup=mockup, **version),
        private_run,
        Runner.objects.create(host="river", pid=7),
        store_file(body=b"x", **room),
        team,
        upstream,
        alice,
    ]
    return {row._meta.model_name: row.pk for row in rows}


def url_of(model: str, page: str, keys: dict[str, int]) -> str:
    args = [] if page in ("changelist", "add") else [keys[model]]
    return reverse(f"admin:chat_{model}_{page}", args=args)


def test_admin_registers_these_models_only() -> None:
    assert sorted(MODELS) == [
        "accesstoken",
        "artifactversion",
        "auditevent",
        "conversation",
        "invitation",
        "mockupversion",
        "run",
        "runner",
        "storedfile",
        "team",
        "upstream",
        "user",
    ]


# --- other people ------------------------------------------------------------------------------


def test_other_users_are_refused_every_page(
    keys: dict[str, int],
    signed_in: SignIn,
    alice: User,
    bob: User,
    viewer: User,
    charlie: User,
    dana: User,
    subtests: pytest.Subtests,
) -> None:
    people = (alice, bob, viewer, charlie, dana)
    clients = {person.name: signed_in(person) for person in people}

    for person, (model, page) in sample(list(product(clients, EVERY_PAGE)), 30):
        with subtests.test(person=person, model=model, page=page):
            response = clients[person].get(url_of(model, page, keys), follow=True)

            assert response.status_code == 403
            assert not AuditEvent.objects.exclude(verb="test").exists()


def test_anonymous_visitor_is_sent_to_sign_in(
    keys: dict[str, int], client: Client, subtests: pytest.Subtests
) -> None:
    for model, page in SOME_PAGES:
        with subtests.test(model=model, page=page):
            url = url_of(model, page, keys)

            response = client.get(url, follow=True)

            sign_in = response.redirect_chain[-1][0]
            assert sign_in.startswith(reverse("account_login"))
            assert url in sign_in.replace("%2F", "/")


def test_member_finds_no_way_in(bob: User, signed_in: SignIn, subtests: pytest.Subtests) -> None:
    client = signed_in(bob)

    for route in ("index", "login", "logout", "password_change", "jsi18n"):
        with subtests.test(route):
            assert client.get(reverse(f"admin:{route}")).status_code in (302, 403)


def test_member_is_told_to_ask_an_administrator(bob: User, signed_in: SignIn) -> None:
    page = signed_in(bob).get(reverse("admin:index"), follow=True).content.decode()

    assert "You don’t have access. Ask an administrator." in page


def test_deactivated_administrator_is_locked_out(administrator: User, admin_client: Client) -> None:
    User.objects.filter(pk=administrator.pk).update(is_active=False)

    response = admin_client.get(reverse("admin:index"), follow=True)

    assert response.redirect_chain[-1][0].startswith(reverse("account_login"))


# --- administrators ----------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["logout", "password_change"])
def test_account_pages_are_those_of_the_application(route: str, admin_client: Client) -> None:
    response = admin_client.get(reverse(f"admin:{route}"))

    assert response.status_code == 302
    assert response.headers["Location"].startswith("/accounts/")


def test_administrator_reads_all_and_deletes_nothing(
    keys: dict[str, int], administrator: User, admin_client: Client, subtests: pytest.Subtests
) -> None:
    give_reasons(administrator)

    for model, page in EVERY_PAGE:
        with subtests.test(model=model, page=page):
            has_history = 200 if model in EDITABLE else 404
            expected = {
                "add": 200 if model in ADDABLE else 403,
                "delete": 403,
                "history": has_history,
            }.get(page, 200)

            assert admin_client.get(url_of(model, page, keys)).status_code == expected


def test_records_refuse_every_post(
    keys: dict[str, int], admin_client: Client, subtests: pytest.Subtests
) -> None:
    data = {"post": "yes", "title": "Changed", "name": "Changed", "status": "failed"}

    for model in READ_ONLY:
        with subtests.test(model):
            row = MODELS[model].objects.filter(pk=keys[model])
            before = list(row.values())

            for page in ("change", "delete"):
                assert admin_client.post(url_of(model, page, keys), data).status_code in (403, 405)

            assert list(row.values()) == before


def test_lists_have_no_bulk_delete(
    keys: dict[str, int], admin_client: Client, subtests: pytest.Subtests
) -> None:
    for model in MODELS:
        with subtests.test(model):
            url = list_url(model)
            data = {"action": "delete_selected", "_selected_action": [keys[model]], "post": "yes"}

            page = text_of(admin_client, url)
            admin_client.post(url, data)

            assert ('name="action"' in page) == (model in WITH_ACTIONS)
            assert "delete_selected" not in page
            assert MODELS[model].objects.filter(pk=keys[model]).exists()


def test_records_have_no_editable_fields(
    keys: dict[str, int], administrator: User, admin_client: Client, subtests: pytest.Subtests
) -> None:
    give_reasons(administrator)

    for model in READ_ONLY:
        with subtests.test(model):
            page = text_of(admin_client, url_of(model, "change", keys))

            assert 'name="_save"' not in page
            assert "<textarea" not in page
            assert 'type="text"' not in page


def test_unknown_key_is_no_server_error(admin_client: Client, subtests: pytest.Subtests) -> None:
    keys = ("0", "999999", "x", "9" * 30, "1%00", "-1")

    for model, key in sample(list(product(MODELS, keys)), 25):
        with subtests.test(model=model, key=key):
            response = admin_client.get(f"/admin/chat/{model}/{key}/change/")

            assert response.status_code in (302, 404)


def test_front_page_links_every_list(admin_client: Client) -> None:
    page = text_of(admin_client, reverse("admin:index"))

    for model in MODELS:
        assert list_url(model) in page
