from __future__ import annotations

from collections.abc import Callable

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
    StoredFile,
    Team,
    Upstream,
    User,
)

MODELS = sorted(model._meta.model_name for model in admin.site._registry)
EDITABLE = {"user", "team"}
ADDABLE = {"team"}


def files_of(run: Run) -> dict[str, int]:
    place = {"conversation": run.conversation}
    artifact = Artifact.objects.create(artifact_id="a", **place)
    mockup = Mockup.objects.create(bundle_id="b", **place)
    made = {"run": run, "number": 1, "seq": 2}
    return {
        "artifactversion": ArtifactVersion.objects.create(artifact=artifact, **made).pk,
        "mockupversion": MockupVersion.objects.create(mockup=mockup, **made).pk,
        "storedfile": StoredFile.objects.create(body=b"x", **place).pk,
    }


@pytest.fixture
def rows(private_run: Run, alice: User, team: Team, upstream: Upstream) -> dict[str, int]:
    """One row of each kind that the admin shows, by the name of the model."""
    runner = Runner.objects.create(host="river", pid=7)
    event = AuditEvent.objects.create(verb="test")
    invitation = Invitation.objects.create(
        team=team, invited_by=alice, token_hash="0" * 64, expires_at=private_run.queued_at
    )
    token = AccessToken.objects.create(user=alice, team=team, name="nightly", token_hash="0" * 64)
    return {
        **files_of(private_run),
        "accesstoken": token.pk,
        "auditevent": event.pk,
        "conversation": private_run.conversation_id,
        "invitation": invitation.pk,
        "run": private_run.pk,
        "runner": runner.pk,
        "team": team.pk,
        "upstream": upstream.pk,
        "user": alice.pk,
    }


def test_the_admin_shows_these_records_and_no_others() -> None:
    assert MODELS == [
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


PAGES = ["changelist", "add", "change", "history", "delete"]


def address(model: str, page: str, rows: dict[str, int]) -> str:
    args = [] if page in ("changelist", "add") else [rows[model]]
    return reverse(f"admin:chat_{model}_{page}", args=args)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("person", ["alice", "bob", "viewer", "charlie", "dana"])
def test_to_everybody_else_the_records_do_not_exist(
    person: str,
    model: str,
    rows: dict[str, int],
    signed_in: Callable[[User], Client],
    request: pytest.FixtureRequest,
) -> None:
    client = signed_in(request.getfixturevalue(person))

    response = client.get(address(model, "change", rows), follow=True)

    assert response.status_code == 404
    assert not AuditEvent.objects.exclude(verb="test").exists()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("model", MODELS)
def test_to_a_member_no_page_exists(
    model: str,
    page: str,
    rows: dict[str, int],
    bob: User,
    signed_in: Callable[[User], Client],
) -> None:
    response = signed_in(bob).get(address(model, page, rows), follow=True)

    assert response.status_code == 404


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("model", MODELS)
def test_a_stranger_is_sent_to_sign_in(
    model: str, page: str, rows: dict[str, int], client: Client
) -> None:
    response = client.get(address(model, page, rows), follow=True)

    assert response.redirect_chain[-1][0].startswith(reverse("account_login"))
    assert address(model, page, rows) in response.redirect_chain[-1][0].replace("%2F", "/")


@pytest.mark.parametrize("route", ["index", "login", "logout", "password_change", "jsi18n"])
def test_the_doors_of_the_admin_lead_nowhere_for_others(
    route: str, bob: User, signed_in: Callable[[User], Client]
) -> None:
    response = signed_in(bob).get(reverse(f"admin:{route}"))

    assert response.status_code in (302, 404)


@pytest.mark.parametrize("route", ["logout", "password_change"])
def test_passwords_and_leaving_are_the_applications_own_pages(
    route: str, admin_client: Client
) -> None:
    response = admin_client.get(reverse(f"admin:{route}"))

    assert response.status_code == 302
    assert response.headers["Location"].startswith("/accounts/")


def test_an_administrator_who_is_switched_off_is_out(
    administrator: User, admin_client: Client
) -> None:
    User.objects.filter(pk=administrator.pk).update(is_active=False)

    response = admin_client.get(reverse("admin:index"), follow=True)

    assert response.redirect_chain[-1][0].startswith(reverse("account_login"))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("model", MODELS)
def test_an_administrator_reads_everything_and_deletes_nothing(
    model: str, page: str, rows: dict[str, int], admin_client: Client
) -> None:
    expected = {"add": 200 if model in ADDABLE else 403, "delete": 403}.get(page, 200)

    response = admin_client.get(address(model, page, rows))

    assert response.status_code == expected


@pytest.mark.parametrize("model", sorted(set(MODELS) - EDITABLE))
def test_nothing_can_be_posted_to_a_record(
    model: str, rows: dict[str, int], admin_client: Client
) -> None:
    before = list(_model(model).objects.filter(pk=rows[model]).values())

    for page in ("change", "delete"):
        data = {"post": "yes", "title": "Changed", "name": "Changed", "status": "failed"}
        response = admin_client.post(address(model, page, rows), data)
        assert response.status_code in (403, 405)

    assert list(_model(model).objects.filter(pk=rows[model]).values()) == before


def _model(name: str) -> type:
    return next(model for model in admin.site._registry if model._meta.model_name == name)


@pytest.mark.parametrize("model", MODELS)
def test_no_list_offers_to_delete_its_rows(
    model: str, rows: dict[str, int], admin_client: Client
) -> None:
    page = admin_client.get(address(model, "changelist", rows)).content.decode()

    # Servers are drained and resumed from their list, and tokens revoked.
    assert ('name="action"' in page) == (model in ("accesstoken", "upstream"))
    assert "delete_selected" not in page
    data = {"action": "delete_selected", "_selected_action": [rows[model]], "post": "yes"}
    admin_client.post(address(model, "changelist", rows), data)
    assert _model(model).objects.filter(pk=rows[model]).exists()


@pytest.mark.parametrize("model", sorted(set(MODELS) - EDITABLE))
def test_no_page_of_a_record_has_a_field_to_fill_in(
    model: str, rows: dict[str, int], admin_client: Client
) -> None:
    page = admin_client.get(address(model, "change", rows)).content.decode()

    assert 'name="_save"' not in page
    assert "<textarea" not in page
    assert 'type="text"' not in page


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("key", ["0", "999999", "x", "9" * 30, "1%00", "-1"])
def test_what_does_not_exist_is_not_an_error(model: str, key: str, admin_client: Client) -> None:
    response = admin_client.get(f"/admin/chat/{model}/{key}/change/")

    assert response.status_code in (302, 404)


def test_the_front_page_names_every_record(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:index")).content.decode()

    for model in MODELS:
        assert reverse(f"admin:chat_{model}_changelist") in page
