"""Sessions: the list of a person, ending them, their lifetimes, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings as project_settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chat.accounts.actions.tokens import create_token
from chat.models import (
    AccessToken,
    AuditEvent,
    Identity,
    IdentityProvider,
    ProviderSession,
    Team,
    User,
    UserSession,
)
from chat.sessions.devices import device_of, is_same_network
from chat.web import session_use
from tests.conftest import PASSWORD

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/19.0 Mobile/15E148 Safari/604.1"
)


@pytest.fixture(autouse=True)
def _fresh_memory(settings: object) -> Iterator[None]:
    settings.ACCOUNT_RATE_LIMITS = False
    session_use.recent_writes.clear()
    yield
    session_use.recent_writes.clear()


def sign_in(user: User, agent: str = FIREFOX, address: str = "192.0.2.7") -> Client:
    client = Client(headers={"user-agent": agent}, REMOTE_ADDR=address)
    fields = {"login": user.email, "password": PASSWORD}
    answer = client.post(reverse("account_login"), fields)
    assert answer.status_code == 302
    return client


def session_of(client: Client) -> UserSession:
    return UserSession.objects.get(session_key=client.session.session_key)


def is_signed_in(client: Client) -> bool:
    return client.get(reverse("settings")).status_code == 200


# --- the list -------------------------------------------------------------------------------------


def test_list_names_devices_and_places(alice: User) -> None:
    here = sign_in(alice)
    sign_in(alice, PHONE, "198.51.100.4")

    page = here.get(reverse("sessions"))

    rows = page.context["rows"]
    assert [(row.device.name, row.is_current, row.is_same_network) for row in rows] == [
        ("Firefox on Linux", True, True),
        ("Safari on iPhone", False, False),
    ]
    assert b"198.51.100.4" in page.content
    assert rows[1].session.session_key not in page.content.decode()


def test_list_shows_no_session_of_others_and_none_that_has_ended(alice: User, bob: User) -> None:
    here = sign_in(alice)
    sign_in(bob)
    expired, ended = sign_in(alice, PHONE), sign_in(alice, PHONE)
    Session.objects.filter(session_key=expired.session.session_key).update(
        expire_date=timezone.now()
    )
    ended.post(reverse("account_logout"))

    rows = here.get(reverse("sessions")).context["rows"]

    assert [row.session for row in rows] == [session_of(here)]


def test_sign_in_forgets_sessions_that_have_ended(alice: User) -> None:
    old = sign_in(alice)
    Session.objects.filter(session_key=old.session.session_key).delete()

    sign_in(alice)

    assert UserSession.objects.filter(user=alice).count() == 1


def test_user_agent_is_cut_and_escaped(alice: User) -> None:
    client = sign_in(alice, "<b>" + "x" * 5000)

    page = client.get(reverse("sessions"))

    assert "Unknown device" in page.content.decode()
    assert len(session_of(client).user_agent) == 300


@pytest.mark.parametrize(
    ("agent", "name", "is_phone"),
    [
        (FIREFOX, "Firefox on Linux", False),
        (PHONE, "Safari on iPhone", True),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows", False),
        ("Mozilla/5.0 (Linux; Android 16) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android", True),
        ("curl/8.9.1", "curl", False),
        ("", "Unknown device", False),
    ],
)  # fmt: skip
def test_device_in_words(agent: str, name: str, is_phone: bool) -> None:
    device = device_of(agent)

    assert (device.name, device.is_phone) == (name, is_phone)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("2001:db8:1:2::5", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::5", "2001:db8:1:3::5", False),
        ("192.0.2.7", "2001:db8::1", False),
        (None, "192.0.2.7", False),
    ],
)
def test_same_network(one: str | None, other: str, expected: bool) -> None:
    assert is_same_network(one, other) == expected


# --- ending ---------------------------------------------------------------------------------------


def test_ending_a_session_signs_that_device_out(alice: User) -> None:
    here, phone = sign_in(alice), sign_in(alice, PHONE)

    here.post(reverse("session_end", args=[session_of(phone).public_id]))

    assert not is_signed_in(phone)
    assert is_signed_in(here)
    assert AuditEvent.objects.filter(verb="session.ended", subject=alice).count() == 1


def test_session_of_another_person_does_not_exist(alice: User, bob: User) -> None:
    here, theirs = sign_in(alice), sign_in(bob)

    answer = here.post(reverse("session_end", args=[session_of(theirs).public_id]))

    assert answer.status_code == 404
    assert is_signed_in(theirs)


def test_signing_out_everywhere_else_keeps_this_device(alice: User, bob: User) -> None:
    here, phone, theirs = sign_in(alice), sign_in(alice, PHONE), sign_in(bob)

    here.post(reverse("sessions_end"))

    assert [is_signed_in(client) for client in (here, phone, theirs)] == [True, False, True]


def test_changed_password_ends_other_sessions_and_keeps_the_row_of_this_one(alice: User) -> None:
    here, phone = sign_in(alice), sign_in(alice, PHONE)
    before = session_of(here).pk
    fields = {"oldpassword": PASSWORD, "password1": "seven willow rivers"}

    here.post(reverse("account_change_password"), {**fields, "password2": fields["password1"]})

    assert not is_signed_in(phone)
    assert is_signed_in(here)
    assert session_of(here).pk == before
    assert list(UserSession.objects.filter(user=alice).open()) == [session_of(here)]


@pytest.mark.parametrize("with_tokens", [False, True])
def test_administrator_signs_a_person_out_everywhere(
    administrator: User, alice: User, team: Team, with_tokens: bool
) -> None:
    admin, laptop, phone = sign_in(administrator), sign_in(alice), sign_in(alice, PHONE)
    create_token(alice, team, name="nightly", days=7)
    path = reverse("person_sign_out", args=[alice.public_id])

    page = admin.get(path).content.decode()
    admin.post(path, {"with_tokens": "on"} if with_tokens else {})

    assert all(word in page for word in ("Safari on iPhone", "Firefox on Linux", "nightly"))
    assert not is_signed_in(laptop)
    assert not is_signed_in(phone)
    assert is_signed_in(admin)
    assert AccessToken.objects.not_ended().filter(user=alice).exists() != with_tokens
    event = AuditEvent.objects.get(verb="user.signed_out")
    assert (event.actor, event.subject) == (administrator, alice)
    assert event.detail == {"ended": 2, "tokens": int(with_tokens)}


def test_only_a_superuser_signs_out_a_superuser(administrator: User, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    path = reverse("person_sign_out", args=[administrator.public_id])

    assert sign_in(alice).post(path).status_code == 403


# --- lifetimes ------------------------------------------------------------------------------------


def expiry_of(client: Client) -> float:
    """Seconds until the session ends."""
    row = Session.objects.get(session_key=client.session.session_key)
    return (row.expire_date - timezone.now()).total_seconds()


def test_session_lasts_two_weeks_by_default(alice: User) -> None:
    client = sign_in(alice)

    assert expiry_of(client) == pytest.approx(14 * 24 * 3600, abs=60)
    assert client.cookies[project_settings.SESSION_COOKIE_NAME]["max-age"] == pytest.approx(
        14 * 24 * 3600, abs=60
    )


def test_changed_session_ends_no_later(alice: User) -> None:
    client = sign_in(alice)
    session = client.session
    session["signed_in_at"] -= 10 * 24 * 3600
    session["other"] = 1

    session.save()

    assert expiry_of(client) == pytest.approx(4 * 24 * 3600, abs=60)


def test_session_without_use_ends(alice: User, settings: object) -> None:
    settings.SESSION_IDLE_SECONDS = 3600
    client = sign_in(alice)

    assert expiry_of(client) == pytest.approx(3600, abs=60)
    # The cookie stays: the server decides.
    assert client.cookies[project_settings.SESSION_COOKIE_NAME]["max-age"] > 13 * 24 * 3600


def test_use_keeps_a_session_but_not_beyond_its_time(alice: User, settings: object) -> None:
    settings.SESSION_IDLE_SECONDS = 3600
    client = sign_in(alice)
    rows = UserSession.objects.filter(user=alice)
    day_ago = timezone.now() - timedelta(days=1)
    key = client.session.session_key

    def use(*, signed_in_at: object) -> float:
        session_use.recent_writes.clear()
        rows.update(last_used_at=day_ago, created_at=signed_in_at)
        soon = timezone.now() + timedelta(seconds=60)
        Session.objects.filter(session_key=key).update(expire_date=soon)
        assert is_signed_in(client)
        return expiry_of(client)

    assert use(signed_in_at=day_ago) == pytest.approx(3600, abs=60)
    almost_over = timezone.now() - timedelta(days=14) + timedelta(seconds=600)
    assert use(signed_in_at=almost_over) == pytest.approx(600, abs=60)
    # A session that began at a company's provider ends at its own time.
    provider = IdentityProvider.objects.create(name="Harbor", issuer="https://id.example.org")
    identity = Identity.objects.create(user=alice, provider=provider, sub="alice")
    ends_at = timezone.now() + timedelta(seconds=900)
    ProviderSession.objects.create(identity=identity, session_key=key, expires_at=ends_at)
    assert use(signed_in_at=day_ago) == pytest.approx(900, abs=60)


# --- what it costs --------------------------------------------------------------------------------


def test_last_use_is_written_every_few_minutes(alice: User) -> None:
    client = sign_in(alice)
    rows = UserSession.objects.filter(user=alice)
    hour_ago = timezone.now() - timedelta(hours=1)
    rows.update(last_used_at=hour_ago)

    with CaptureQueriesContext(connection) as statements:
        client.get(reverse("settings"))
    assert not any("chat_usersession" in each["sql"] for each in statements)
    session_use.recent_writes.clear()
    client.get(reverse("sessions"))

    assert rows.get().last_used_at > hour_ago


def test_page_that_updates_itself_is_no_use(alice: User, team: Team) -> None:
    client = sign_in(alice)
    rows = UserSession.objects.filter(user=alice)
    hour_ago = timezone.now() - timedelta(hours=1)
    rows.update(last_used_at=hour_ago)
    session_use.recent_writes.clear()

    client.get(reverse("prompt_find"), {"q": "x"}, headers={"hx-request": "true"})

    assert rows.get().last_used_at == hour_ago


def test_session_of_an_older_version_gets_a_row_with_its_next_use(alice: User) -> None:
    client = sign_in(alice)
    UserSession.objects.all().delete()
    session_use.recent_writes.clear()

    client.get(reverse("settings"))

    assert session_of(client).user == alice


def test_proxy_without_the_header_does_not_end_the_request(alice: User, settings: object) -> None:
    client = sign_in(alice)
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2
    session_use.recent_writes.clear()
    UserSession.objects.all().delete()

    client.get(reverse("settings"), headers={"x-forwarded-for": "192.0.2.1"})

    assert session_of(client).address is None
