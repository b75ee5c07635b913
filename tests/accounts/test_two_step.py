"""Two-step verification: adding it, signing in with it, and every way around it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.core import mail
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat import access
from chat.access import PASSED_KEY
from chat.accounts.actions import invitations, people
from chat.accounts.actions import tokens as token_actions
from chat.accounts.two_step import factors
from chat.administration import keys
from chat.models import AccessToken, AuditEvent, Conversation, Membership, Team, User
from chat.web.confirmation import MOST_KEPT_CHARACTERS, WAITING
from tests.accounts.conftest import NEW_PASSWORD, run_at_once
from tests.conftest import PASSWORD


class Phone:
    """An authenticator app, and the clock of it and of the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        self.secret = ""
        monkeypatch.setattr(totp, "time", SimpleNamespace(time=lambda: self.now))

    def code(self, *, steps: int = 0) -> str:
        counter = int(self.now) // 30 + steps
        return totp.format_hotp_value(totp.hotp_value(self.secret, counter))

    def wait(self, seconds: int = 30) -> None:
        self.now += seconds


@pytest.fixture
def phone(monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(monkeypatch)


def sign_in(user: User, password: str = PASSWORD) -> Client:
    client = Client()
    client.post(reverse("account_login"), {"login": user.email, "password": password})
    return client


def add_app(client: Client, phone: Phone) -> HttpResponse:
    page = client.get(reverse("mfa_activate_totp"))
    phone.secret = page.context["form"].secret
    return client.post(reverse("mfa_activate_totp"), {"code": phone.code()})


def is_in(client: Client) -> bool:
    return client.get(reverse("settings")).status_code == 200


def recovery_codes(user: User) -> list[str]:
    row = Authenticator.objects.get(user=user, type=Authenticator.Type.RECOVERY_CODES)
    return row.wrap().get_unused_codes()


def second_step(client: Client, code: str) -> HttpResponse:
    return client.post(reverse("mfa_authenticate"), {"code": code})


@pytest.fixture
def protected(bob: User, phone: Phone) -> User:
    """Bob, with an authenticator app on the phone, whose next code is new."""
    add_app(sign_in(bob), phone)
    phone.wait()
    bob.refresh_from_db()
    return bob


def test_app_is_added_with_recovery_codes(bob: User, phone: Phone) -> None:
    client = sign_in(bob)

    answer = add_app(client, phone)

    assert answer.url == reverse("mfa_view_recovery_codes")
    page = client.get(answer.url)
    assert all(code in page.content.decode() for code in recovery_codes(bob))
    assert is_in(client)
    bob.refresh_from_db()
    assert bob.has_second_factor
    assert AuditEvent.objects.filter(actor=bob, verb="second_factor.added").exists()


def test_secrets_are_encrypted(protected: User, phone: Phone) -> None:
    texts = [str(data) for data in Authenticator.objects.values_list("data", flat=True)]

    assert len(texts) == 2
    assert not any(phone.secret in text for text in texts)
    assert keys.key_state().readable == 2


def test_rotated_keys_leave_codes_valid(protected: User, phone: Phone, settings: object) -> None:
    old = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = ["0" * 43 + "=", *old]

    state = keys.rotate_keys()
    settings.ENCRYPTION_KEYS = ["0" * 43 + "="]

    assert not state.outdated
    client = sign_in(protected)
    second_step(client, phone.code())
    assert is_in(client)


def test_sign_in_takes_the_code(protected: User, phone: Phone) -> None:
    client = sign_in(protected)
    assert not is_in(client)

    answer = second_step(client, phone.code())

    assert answer.status_code == 302
    assert is_in(client)


@pytest.mark.parametrize("steps", [-2, 2])
def test_code_of_another_time_is_refused(protected: User, phone: Phone, steps: int) -> None:
    phone.wait(120)
    client = sign_in(protected)

    second_step(client, phone.code(steps=steps))

    assert not is_in(client)


def test_code_works_once(protected: User, phone: Phone) -> None:
    code = phone.code()
    second_step(sign_in(protected), code)
    thief = sign_in(protected)

    second_step(thief, code)
    phone.wait()
    second_step(thief, code)

    assert not is_in(thief)


def test_code_that_added_the_app_does_not_sign_in(bob: User, phone: Phone) -> None:
    add_app(sign_in(bob), phone)
    client = sign_in(bob)

    second_step(client, phone.code())

    assert not is_in(client)


def test_recovery_code_works_once(protected: User) -> None:
    code = recovery_codes(protected)[0]
    first, thief = sign_in(protected), sign_in(protected)

    second_step(first, code)
    second_step(thief, code)

    assert is_in(first)
    assert not is_in(thief)


@pytest.mark.django_db(transaction=True)
def test_of_codes_that_race_one_wins(protected: User, phone: Phone) -> None:
    used: list[object] = []
    code, recovery = phone.code(), recovery_codes(protected)[0]
    for each in (code, recovery):
        run_at_once(*[lambda each=each: used.append(factors.use_code(protected, each))] * 6)

    assert len([found for found in used if found]) == 2


def test_guesses_are_limited(protected: User, phone: Phone, settings: object) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "5/5m/key"}
    client = sign_in(protected)
    for number in range(6):
        second_step(client, f"00000{number}")

    second_step(client, phone.code())

    assert not is_in(client)


# --- ways around -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/", "/settings/", "/settings/two-step/", "/settings/two-step/recovery-codes/", "/people/"],
)
def test_pages_without_the_second_step_lead_to_the_sign_in(protected: User, path: str) -> None:
    answer = sign_in(protected).get(path)

    assert answer.status_code == 302
    assert answer.url.startswith("/accounts/login/")


def test_administration_needs_the_second_step(administrator: User, phone: Phone) -> None:
    client = sign_in(administrator)
    add_app(client, phone)
    assert client.get("/admin/").status_code == 200

    answer = sign_in(administrator).get("/admin/", follow=True)

    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")


def test_new_password_does_not_replace_the_code(
    protected: User, alice: User, administrator: User
) -> None:
    link = people.make_reset_link(administrator, protected)
    client = Client()
    page = client.get(link, follow=True)
    answer = client.post(
        page.redirect_chain[-1][0], {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    )

    assert answer.status_code == 302
    assert not is_in(client)
    assert not is_in(sign_in(protected, NEW_PASSWORD))


def test_half_a_sign_in_ends_with_the_other_sessions(
    protected: User, administrator: User, phone: Phone
) -> None:
    """Somebody with the old password must not go on after the person has a new one."""
    client = sign_in(protected)

    people.end_sessions(protected)
    second_step(client, phone.code())

    assert not is_in(client)


def test_second_step_has_another_session_key(protected: User) -> None:
    client = Client()
    planted = client.session
    planted["planted"] = 1
    planted.save()
    client.cookies["sessionid"] = planted.session_key

    client.post(reverse("account_login"), {"login": protected.email, "password": PASSWORD})

    assert client.cookies["sessionid"].value != planted.session_key


def test_session_that_was_made_elsewhere_ends(protected: User) -> None:
    """A provider, a link or a defect could make one without the second step."""
    client = Client()
    client.force_login(protected)

    assert not is_in(client)
    assert PASSED_KEY not in client.session


def test_first_factor_ends_other_sessions(
    bob: User, phone: Phone, django_capture_on_commit_callbacks: object
) -> None:
    other, client = sign_in(bob), sign_in(bob)
    with django_capture_on_commit_callbacks(execute=True):
        add_app(client, phone)

    assert is_in(client)
    assert not is_in(other)


# --- policy --------------------------------------------------------------------------------


def test_nobody_needs_a_factor_by_default(bob: User, administrator: User) -> None:
    assert is_in(sign_in(bob))
    assert is_in(sign_in(administrator))


@pytest.mark.parametrize(("policy", "held"), [("administrators", False), ("all", True)])
def test_policy_holds_people(bob: User, settings: object, policy: str, held: bool) -> None:
    settings.SECOND_FACTOR = policy

    assert is_in(sign_in(bob)) is not held


@pytest.mark.parametrize("path", ["/", "/settings/", "/admin/", "/settings/tokens/"])
def test_person_without_the_required_factor_sees_only_its_pages(
    administrator: User, settings: object, path: str
) -> None:
    settings.SECOND_FACTOR = "administrators"
    client = sign_in(administrator)

    answer = client.get(path, follow=True)

    assert answer.redirect_chain[-1][0] == reverse("mfa_index")
    assert "required for your account" in answer.content.decode()


def test_adding_the_required_factor_opens_everything(
    administrator: User, settings: object, phone: Phone
) -> None:
    settings.SECOND_FACTOR = "administrators"
    client = sign_in(administrator)

    add_app(client, phone)

    assert is_in(client)
    assert client.get("/admin/").status_code == 200


def test_last_required_factor_stays(administrator: User, settings: object, phone: Phone) -> None:
    settings.SECOND_FACTOR = "administrators"
    client = sign_in(administrator)
    add_app(client, phone)

    client.post(reverse("mfa_deactivate_totp"))

    administrator.refresh_from_db()
    assert administrator.has_second_factor


def test_tokens_need_the_required_factor(
    bob: User, team: Team, settings: object, phone: Phone
) -> None:
    _, text = token_actions.create_token(bob, team, name="script", days=None)
    settings.SECOND_FACTOR = "all"
    assert token_actions.find_token(text) is None

    add_app(sign_in(bob), phone)

    assert token_actions.find_token(text) is not None


# --- removal and reset ---------------------------------------------------------------------


def test_removed_app_takes_the_recovery_codes_with_it(protected: User, phone: Phone) -> None:
    client = sign_in(protected)
    second_step(client, phone.code())

    client.post(reverse("mfa_deactivate_totp"))

    assert not Authenticator.objects.exists()
    assert is_in(client)
    assert is_in(sign_in(protected))


def test_removal_needs_a_recent_confirmation(
    protected: User, phone: Phone, settings: object
) -> None:
    client = sign_in(protected)
    second_step(client, phone.code())
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0

    answer = client.post(reverse("mfa_deactivate_totp"))

    assert answer.url.startswith(reverse("mfa_reauthenticate"))
    assert Authenticator.objects.filter(type="totp").exists()


def test_administrator_resets_factors(
    protected: User,
    administrator: User,
    phone: Phone,
    settings: object,
    django_capture_on_commit_callbacks: object,
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    client = sign_in(protected)
    second_step(client, phone.code())
    address = reverse("person_reset_factors", args=[protected.public_id])

    with django_capture_on_commit_callbacks(execute=True):
        sign_in(administrator).post(address)

    assert not is_in(client)
    assert is_in(sign_in(protected))
    assert AuditEvent.objects.filter(verb="second_factor.reset", subject=protected).exists()
    [letter] = mail.outbox
    assert letter.to == [protected.email]
    assert "turned off two-step verification" in letter.body


def test_colleagues_cannot_reset_factors(protected: User, alice: User) -> None:
    sign_in(alice).post(reverse("person_reset_factors", args=[protected.public_id]))

    assert (
        access.factor_state(User.objects.get(pk=protected.pk), {}) is access.FactorState.UNVERIFIED
    )
    assert Authenticator.objects.filter(user=protected, type="totp").exists()


# --- confirmation ----------------------------------------------------------------------------


NEW_TOKEN = {"name": "nightly", "lifetime": "7"}


class Confirming:
    """Somebody who is signed in with a second factor, and was a while ago unless ``confirm`` has been called."""

    def __init__(self, person: User, phone: Phone, settings: Any) -> None:
        self.client, self._phone, self._settings = sign_in(person), phone, settings
        second_step(self.client, phone.code())
        self.wait()

    def wait(self) -> None:
        self._settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0

    def confirm(self, asked: str) -> HttpResponse:
        """Follows the redirect to the confirmation, and enters a code."""
        self._settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 900
        self._phone.wait()
        page = self.client.get(asked)
        assert page.url.startswith(reverse("mfa_reauthenticate"))
        return self.client.post(page.url, {"code": self._phone.code()}, follow=True)


@pytest.fixture
def confirming(protected: User, phone: Phone, settings: Any) -> Confirming:
    return Confirming(protected, phone, settings)


def is_question(response: HttpResponse) -> bool:
    address = response.headers.get("HX-Redirect") or response.headers.get("Location", "")
    return address.startswith(reverse("account_reauthenticate"))


def test_form_arrives_as_it_was_sent_after_the_confirmation(
    confirming: Confirming, team: Team
) -> None:
    data = {**NEW_TOKEN, "team": team.public_id.hex}
    asked = confirming.client.post(reverse("tokens"), data)
    assert is_question(asked)
    assert not AccessToken.objects.exists()

    made = confirming.confirm(asked.url)

    assert made.status_code == 200
    assert AccessToken.objects.get().name == "nightly"
    # Once: the same request again has no kept form.
    address = made.request["PATH_INFO"] + "?" + made.request["QUERY_STRING"]
    assert confirming.client.post(address, {"code": "1"}).status_code == 422


def test_password_confirms_nothing_with_a_factor(confirming: Confirming) -> None:
    page = confirming.client.get(reverse("account_reauthenticate"))

    assert page.url.startswith(reverse("mfa_reauthenticate"))


def test_form_of_htmx_is_kept(confirming: Confirming, team: Team) -> None:
    data = {**NEW_TOKEN, "team": team.public_id.hex}
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{reverse('tokens')}"}
    asked = confirming.client.post(reverse("tokens"), data, headers=headers)
    assert (asked.status_code, is_question(asked)) == (401, True)

    confirming.confirm(asked.headers["HX-Redirect"])

    assert AccessToken.objects.exists()


def test_kept_form_is_encrypted(confirming: Confirming, team: Team) -> None:
    confirming.client.post(reverse("tokens"), {**NEW_TOKEN, "team": team.public_id.hex})

    kept = confirming.client.session[WAITING]

    assert "nightly" not in str(kept)
    assert len(kept["form"]) > 100


@pytest.mark.parametrize("later", ["mfa_activate_totp", "data"])
def test_form_that_was_given_up_is_not_sent_by_another_confirmation(
    confirming: Confirming, team: Team, later: str
) -> None:
    confirming.client.post(reverse("tokens"), {**NEW_TOKEN, "team": team.public_id.hex})

    confirming.confirm(f"{reverse('account_reauthenticate')}?next={reverse(later)}")
    confirming.client.post(reverse("tokens"), {"code": "1"})

    assert not AccessToken.objects.exists()


def test_form_that_waited_too_long_is_not_sent(
    confirming: Confirming, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = confirming.client.post(reverse("tokens"), {**NEW_TOKEN, "team": team.public_id.hex})
    session = confirming.client.session
    session[WAITING] = {**session[WAITING], "at": time.time() - 1000}
    session.save()

    confirming.confirm(asked.url)

    assert not AccessToken.objects.exists()


def test_larger_forms_are_sent_again(confirming: Confirming, team: Team) -> None:
    data = {**NEW_TOKEN, "team": team.public_id.hex, "more": "a" * MOST_KEPT_CHARACTERS}

    confirming.confirm(confirming.client.post(reverse("tokens"), data).url)

    assert not AccessToken.objects.exists()


def test_download_starts_after_the_confirmation(
    confirming: Confirming, protected: User, conversation: Conversation
) -> None:
    Conversation.objects.update(owner=protected)
    address = reverse("conversation_export", args=[conversation.public_id, "json"])
    room = reverse("conversation", args=[conversation.public_id])
    asked = confirming.client.get(address, headers={"Referer": f"http://testserver{room}"})

    page = confirming.confirm(asked.url)

    text = page.content.decode()
    assert f'content="0;url={address}?confirmed=' in text
    assert f'href="{room}"' in text
    file = confirming.client.get(address)
    assert file.headers["Content-Disposition"].startswith("attachment")
    b"".join(file)


@pytest.mark.parametrize(
    ("role", "asks"),
    [("owner", True), ("admin", True), ("member", False), ("viewer", False)],
)
def test_invitations_of_managers_ask(
    confirming: Confirming, protected: User, team: Team, role: str, asks: bool
) -> None:
    Membership.objects.filter(user=protected).update(role="owner")
    Membership.objects.exclude(user=protected).delete()

    invited = confirming.client.post(
        reverse("invite", args=[team.public_id]), {"role": role, "people": "1", "days": "7"}
    )
    invitation, _ = invitations.invite(protected, team, role=role, days=7)
    renewed = confirming.client.post(
        reverse("invitation_renew", args=[team.public_id, invitation.pk])
    )

    assert (is_question(invited), is_question(renewed)) == (asks, asks)


@pytest.mark.parametrize("headers", ["Authorization: Bearer abc", ""])
def test_tools_with_headers_ask(
    confirming: Confirming, protected: User, team: Team, headers: str
) -> None:
    Membership.objects.filter(user=protected).update(role="owner")

    answer = confirming.client.post(
        reverse("tool_add", args=[team.public_id]), {"kind": "http", "headers": headers}
    )

    assert is_question(answer) == bool(headers)


def test_leaving_a_team_asks_nothing(confirming: Confirming, protected: User, team: Team) -> None:
    left = confirming.client.post(
        reverse("member_remove", args=[team.public_id, protected.public_id])
    )

    assert not is_question(left)
    assert not Membership.objects.filter(user=protected).exists()


def test_rights_in_the_administration_need_a_recent_confirmation(
    administrator: User, bob: User, phone: Phone, settings: object
) -> None:
    client = sign_in(administrator)
    add_app(client, phone)
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0

    answer = client.post(reverse("admin:chat_user_change", args=[bob.pk]), {"is_staff": "on"})

    assert answer.url.startswith(reverse("account_reauthenticate"))


def test_people_without_a_factor_confirm_nothing(bob: User, team: Team, settings: object) -> None:
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0
    data = {"name": "nightly", "team": team.public_id.hex, "lifetime": "7"}

    assert sign_in(bob).post(reverse("tokens"), data).status_code == 200


# --- passkeys, as far as no browser is needed ---------------------------------------------------


def passkey(user: User, counter: int) -> Authenticator:
    return Authenticator.objects.create(
        user=user,
        type=Authenticator.Type.WEBAUTHN,
        data={"name": "Key", "credential": {}, "sign_count": counter},
    )


@pytest.mark.parametrize(
    ("before", "sent", "is_copied"),
    [(0, 0, False), (0, 1, False), (4, 9, False), (4, 4, True), (4, 3, True), (4, 0, True)],
)
def test_counter_that_does_not_rise_blocks_the_passkey(
    bob: User, before: int, sent: int, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = passkey(bob, before)
    monkeypatch.setattr(WebAuthn, "authenticator_data", SimpleNamespace(counter=0))

    if not is_copied:
        factors.use_passkey(key, sent)
        return
    with pytest.raises(factors.PasskeyCopied):
        factors.use_passkey(key, sent)
    with pytest.raises(factors.PasskeyCopied):
        factors.use_passkey(key, 100)
    assert AuditEvent.objects.filter(verb="second_factor.copied", subject=bob).count() == 1


def test_passkey_of_somebody_else_is_not_there(protected: User, phone: Phone, alice: User) -> None:
    key = passkey(alice, 0)
    client = sign_in(protected)
    second_step(client, phone.code())

    for name in ("mfa_remove_webauthn", "mfa_edit_webauthn"):
        assert client.post(reverse(name, args=[key.pk]), {"name": "Mine"}).status_code == 404
    assert Authenticator.objects.filter(pk=key.pk, data__name="Key").exists()
