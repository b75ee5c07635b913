"""Signing in and out, one's own settings, accounts switched off and on, error pages."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import get_resolver, reverse

from chat.accounts.actions import people
from chat.models import AuditEvent, Team, User
from chat.web import views
from tests.accounts.conftest import NEW_PASSWORD, SignIn
from tests.conftest import PASSWORD, MakeUser


def post_sign_in(client: Client, user: User, **fields: str) -> HttpResponse:
    data = {"login": user.email, "password": PASSWORD, **fields}
    return client.post(reverse("account_login"), data)


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


# --- signing in and out ------------------------------------------------------------------------


def test_person_signs_in_by_email_and_password(bob: User) -> None:
    answer = post_sign_in(Client(), bob, login="BOB@example.org")

    assert answer.status_code == 302
    assert answer.url == reverse("home")


def test_signing_in_leads_back_to_the_page_asked_for(bob: User) -> None:
    client = Client()
    page = client.get(client.get(reverse("people")).url)
    hidden = re.search(r'name="next" value="([^"]+)"', page.content.decode())

    answer = post_sign_in(client, bob, next=hidden[1])

    assert answer.url == reverse("people")


@pytest.mark.parametrize("target", ["https://evil.test/", "//evil.test", "javascript:alert(1)"])
def test_signing_in_leads_to_no_other_site(bob: User, target: str) -> None:
    assert post_sign_in(Client(), bob, next=target).url == reverse("home")


@pytest.mark.parametrize(
    "fields", [{"password": "wrong"}, {"login": "nobody@example.org"}, {"login": ""}]
)
def test_wrong_credentials_are_refused(bob: User, fields: dict[str, str]) -> None:
    client = Client()

    answer = post_sign_in(client, bob, **fields)

    assert answer.status_code == 200
    assert not is_signed_in(client)


def test_unknown_email_and_wrong_password_give_the_same_error(bob: User) -> None:
    unknown = post_sign_in(Client(), bob, login="nobody@example.org")
    wrong = post_sign_in(Client(), bob, password="wrong")

    assert unknown.context["form"].errors == wrong.context["form"].errors


def test_deactivated_account_cannot_sign_in(bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    client = Client()

    post_sign_in(client, bob)

    assert not is_signed_in(client)


def test_signing_out_needs_a_post_and_clears_the_storage(signed_in: SignIn, bob: User) -> None:
    client = signed_in(bob)

    asked = client.get(reverse("account_logout"))
    answer = client.post(reverse("account_logout"))

    assert asked.status_code == 200
    assert answer["Clear-Site-Data"] == '"storage"'
    assert not is_signed_in(client)


def test_nobody_can_sign_up(db: None) -> None:
    client = Client()
    data = {"email": "x@example.org", "password1": PASSWORD, "password2": PASSWORD}

    page = client.get(reverse("account_signup"))
    client.post(reverse("account_signup"), data)

    assert b"You need an invitation to join" in page.content
    assert not User.objects.exists()


def test_unused_account_pages_have_no_address() -> None:
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}

    assert {name for name in names if name.startswith(("socialaccount", "account_email"))} == set()


# --- one's own settings ------------------------------------------------------------------------


def test_person_changes_their_name(signed_in: SignIn, bob: User) -> None:
    signed_in(bob).post(reverse("settings"), {"name": "Robert"})

    bob.refresh_from_db()
    assert bob.name == "Robert"


@pytest.mark.parametrize("name", ["", " ", "x" * 81])
def test_unusable_name_is_refused_beside_the_field(signed_in: SignIn, bob: User, name: str) -> None:
    answer = signed_in(bob).post(reverse("settings"), {"name": name})

    assert answer.status_code == 422
    assert b"field-error" in answer.content


def test_settings_change_nothing_else(signed_in: SignIn, bob: User) -> None:
    fields = {"name": "Bob", "email": "x@example.org", "is_staff": "1"}

    signed_in(bob).post(reverse("settings"), fields)

    bob.refresh_from_db()
    assert (bob.email, bob.is_staff) == ("bob@example.org", False)


def test_announcements_are_kept_for_one_person(signed_in: SignIn, alice: User, bob: User) -> None:
    assert bob.announcements == "states"

    signed_in(bob).post(reverse("announcements"), {"announcements": "ends", "name": "Robert"})

    for person in (alice, bob):
        person.refresh_from_db()
    assert (bob.announcements, bob.name, alice.announcements) == ("ends", "Bob", "states")
    page = signed_in(bob).get(reverse("settings")).content.decode()
    assert '<option value="ends" selected>' in page
    assert 'data-announcements="ends"' in page


def test_unknown_announcements_are_refused(signed_in: SignIn, bob: User) -> None:
    answer = signed_in(bob).post(reverse("announcements"), {"announcements": "shouting"})

    bob.refresh_from_db()
    assert (answer.status_code, bob.announcements) == (422, "states")
    assert b"field-error" in answer.content


def test_new_password_ends_the_other_sessions(signed_in: SignIn, bob: User) -> None:
    here, other = signed_in(bob), signed_in(bob)
    fields = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}

    here.post(reverse("account_change_password"), fields)

    assert here.get(reverse("settings")).status_code == 200
    assert other.get(reverse("settings")).status_code == 302


def test_ending_other_sessions_keeps_this_one_and_other_people(
    signed_in: SignIn, bob: User, charlie: User
) -> None:
    here, other, charlies = signed_in(bob), signed_in(bob), signed_in(charlie)

    here.post(reverse("sessions_end"))

    assert here.get(reverse("settings")).status_code == 200
    assert other.get(reverse("settings")).status_code == 302
    assert charlies.get(reverse("settings")).status_code == 200
    assert AuditEvent.objects.get().detail == {"ended": 1}


# --- switched off ------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_deactivating_ends_every_session(signed_in: SignIn, administrator: User, bob: User) -> None:
    bobs = signed_in(bob)

    signed_in(administrator).post(reverse("person_deactivate", args=[bob.public_id]))

    assert bobs.get(reverse("settings")).status_code == 302
    assert Session.objects.count() == 1
    row = AuditEvent.objects.get()
    assert (row.verb, row.subject) == ("user.deactivated", bob)


def test_reactivated_person_may_sign_in(signed_in: SignIn, administrator: User, bob: User) -> None:
    people.set_active(administrator, bob, is_active=False)

    signed_in(administrator).post(reverse("person_activate", args=[bob.public_id]))

    bob.refresh_from_db()
    assert bob.is_active
    verbs = AuditEvent.objects.values_list("verb", flat=True)
    assert set(verbs) == {"user.activated", "user.deactivated"}


def test_nobody_deactivates_themselves(signed_in: SignIn, administrator: User) -> None:
    path = reverse("person_deactivate", args=[administrator.public_id])

    assert signed_in(administrator).post(path).status_code == 403


def test_only_a_superuser_deactivates_one(
    signed_in: SignIn, make_user: MakeUser, administrator: User
) -> None:
    helper = make_user("Hugo", is_staff=True)
    path = reverse("person_deactivate", args=[administrator.public_id])

    assert signed_in(helper).post(path).status_code == 403
    administrator.refresh_from_db()
    assert administrator.is_active


def test_team_owner_deactivates_nobody(
    signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    path = reverse("person_deactivate", args=[bob.public_id])

    assert signed_in(alice).post(path).status_code == 403


# --- error pages -------------------------------------------------------------------------------


def request_by_stranger(**headers: str) -> HttpRequest:
    request = RequestFactory().get("/", headers=headers)
    request.user = AnonymousUser()
    return request


def test_404_page_is_ours(db: None) -> None:
    answer = Client().get("/nowhere/")

    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()


@pytest.mark.parametrize("handler", ["bad_request", "forbidden", "not_found"])
def test_htmx_request_gets_a_notice_instead_of_a_page(handler: str) -> None:
    request = request_by_stranger(**{"HX-Request": "true"})

    answer = getattr(views, handler)(request, Http404())

    assert answer["HX-Retarget"] == "#toasts"
    assert b"<html" not in answer.content
    assert b'role="alert"' in answer.content


def test_500_page_needs_no_database_and_gives_no_reason() -> None:
    answer = views.broken(RequestFactory().get("/"))

    assert answer.status_code == 500
    assert b"Something went wrong" in answer.content


def test_reason_of_a_403_is_escaped(db: None) -> None:
    answer = views.forbidden(request_by_stranger(), PermissionError("<b>no</b>"))

    assert answer.status_code == 403
    assert b"&lt;b&gt;no&lt;/b&gt;" in answer.content


def test_stale_form_asks_to_reload(bob: User) -> None:
    answer = post_sign_in(Client(enforce_csrf_checks=True), bob)

    assert answer.status_code == 403
    assert b"Reload it and try again" in answer.content


def test_too_many_attempts_get_a_page_of_ours(settings: object, bob: User) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"login": "1/m/ip"}
    cache.clear()
    client = Client()
    post_sign_in(client, bob, password="wrong")

    answer = post_sign_in(client, bob)

    assert answer.status_code == 429
    assert b"sign-in is paused for a few minutes" in answer.content
