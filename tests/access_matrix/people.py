"""Cases of accounts, people and the set-up."""

from __future__ import annotations

from chat.accounts.actions import invitations, tokens
from chat.accounts.adapter import make_reset_link
from chat.models import FileContent, NewContent, ProfilePicture, Team, User, UserSession
from tests.access_matrix.case import (
    SIGN_IN,
    Case,
    Values,
    World,
    account_managers,
    administrators,
    alice_only,
    everyone,
    signed_in_only,
    team_managers,
)
from tests.access_matrix.objects import _team


def _member(world: World) -> Values:
    return {"team_id": world.team.public_id, "person_id": world.bob.public_id}


def _bob(world: World) -> Values:
    return {"person_id": world.bob.public_id}


def _passkey(world: World) -> Values:
    return {"pk": 1}


def _open_invitation(world: World) -> Values:
    invitation, _ = invitations.invite(world.alice, world.team, role="member", days=1)
    return {"team_id": world.team.public_id, "invitation_id": invitation.pk}


def _through_another_team(world: World) -> Values:
    other_team = Team.objects.exclude(pk=world.team.pk).get()
    return {**_open_invitation(world), "team_id": other_team.public_id}


def _invitation_link(world: World) -> Values:
    _, link = invitations.invite(world.alice, world.team, role="member", days=1)
    return {"token": link.rstrip("/").rsplit("/", 1)[1]}


def _wrong_token(world: World) -> Values:
    return {"token": "wrong"}


def _reset_key(world: World) -> Values:
    uid, key = make_reset_link(world.bob).rstrip("/").rsplit("/", 1)[1].split("-", 1)
    return {"uidb36": uid, "key": key}


def _invitation_fields(world: World) -> Values:
    return {"role": "member", "emails": "", "days": 7}


def _viewer_role(world: World) -> Values:
    return {"role": "viewer"}


def _name(world: World) -> Values:
    return {"name": "Springs"}


def _announcements(world: World) -> Values:
    return {"announcements": "ends"}


def _model(world: World) -> Values:
    return {"server": world.upstream.public_id.hex, "model": world.upstream.model_list[0]["id"]}


def _token_fields(world: World) -> Values:
    return {"name": "nightly", "team": world.team.public_id.hex, "lifetime": "7"}


def _token_of_alice(world: World) -> Values:
    token, _ = tokens.create_token(world.alice, world.team, name="nightly", days=7)
    return {"public_id": token.public_id}


def _zone(world: World) -> Values:
    return {"time_zone": "Europe/Vienna"}


def _session_of_alice(world: World) -> Values:
    session, _ = UserSession.objects.get_or_create(
        session_key=world.sessions["alice"], user=world.alice
    )
    return {"public_id": session.public_id}


def _picture_of(person: User) -> Values:
    content = NewContent(body=b"picture")
    FileContent.objects.keep(content)
    ProfilePicture.objects.get_or_create(user=person, defaults={"content_id": content.sha256})
    User.objects.filter(pk=person.pk).update(picture_version="abc")
    return {"person_id": person.public_id, "version": "abc"}


def _picture_of_alice(world: World) -> Values:
    return _picture_of(world.alice)


def _picture_of_guest(world: World) -> Values:
    return _picture_of(world.guest)


PEOPLE_CASES = [
    Case("account_login", everyone(302, anonymous=200)),
    Case("account_logout", everyone(200, anonymous=SIGN_IN)),
    Case("account_logout", everyone(SIGN_IN), method="post"),
    Case("account_inactive", everyone(200)),
    Case("account_signup", everyone(302, anonymous=200)),
    Case("account_reauthenticate", signed_in_only(200)),
    Case("mfa_authenticate", everyone(302, anonymous=SIGN_IN)),
    Case("mfa_login_webauthn", everyone(302, anonymous=SIGN_IN)),
    # Without a second factor the password confirms, on another page.
    Case("mfa_reauthenticate", signed_in_only(302)),
    Case("mfa_reauthenticate_webauthn", signed_in_only(302)),
    Case("mfa_index", signed_in_only(200)),
    # Changes ask for the password first.
    Case("mfa_activate_totp", signed_in_only(302)),
    Case("mfa_deactivate_totp", signed_in_only(404)),
    Case("mfa_add_webauthn", signed_in_only(302)),
    Case("mfa_edit_webauthn", signed_in_only(302), "", _passkey),
    Case("mfa_remove_webauthn", signed_in_only(302), "", _passkey),
    Case("mfa_view_recovery_codes", signed_in_only(404)),
    Case("mfa_generate_recovery_codes", signed_in_only(302)),
    Case("mfa_download_recovery_codes", signed_in_only(404)),
    Case("account_change_password", signed_in_only(200)),
    # Users with a password are redirected to the form that changes it.
    Case("account_set_password", signed_in_only(302)),
    Case("account_reset_password", everyone(200)),
    Case("account_reset_password_done", everyone(200)),
    Case("account_reset_password_from_key", everyone(302), "with a valid link", _reset_key),
    Case("account_reset_password_from_key_done", everyone(200)),
    Case("settings", signed_in_only(200)),
    Case("settings", signed_in_only(302), method="post", data=_name),
    Case("announcements", signed_in_only(302), method="post", data=_announcements),
    Case("invisible", signed_in_only(302), method="post"),
    Case("reading", signed_in_only(302)),
    Case("reading", signed_in_only(302), method="post"),
    Case("code_wrap", signed_in_only(204), method="post"),
    Case("favorite", signed_in_only(204), method="post", data=_model),
    Case("favorite_remove", signed_in_only(204), method="post", data=_model),
    Case("time_zone", signed_in_only(302), method="post", data=_zone),
    Case("sessions", signed_in_only(200)),
    Case("sessions_end", signed_in_only(302), method="post"),
    Case("session_end", alice_only(302), "of Alice", _session_of_alice, "post"),
    # Without a file it says what is missing.
    Case("picture_set", signed_in_only(302), method="post"),
    Case("picture_remove", signed_in_only(302), method="post"),
    Case("person_picture_remove", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case(
        # The guest takes part in none of her conversations.
        *(
            "picture",
            signed_in_only(404, alice=200, bob=200, viewer=200, administrator=200),
        ),
        *("of Alice", _picture_of_alice),
    ),
    Case(
        *(
            "picture",
            signed_in_only(404, alice=200, bob=200, viewer=200, guest=200, administrator=200),
        ),
        *("of the guest", _picture_of_guest),
    ),
    Case("streaming", signed_in_only(200)),
    Case("titles", administrators(200)),
    Case("titles", administrators(302), method="post"),
    Case("mail", administrators(200)),
    # There is no mail server; the page says so.
    Case("mail", administrators(302), method="post"),
    Case("tokens", signed_in_only(200)),
    # A team in which a user may not write is no choice of the form.
    Case("tokens", signed_in_only(422, alice=200, bob=200), method="post", data=_token_fields),
    # Administrators revoke the tokens of others in the admin.
    Case("token_revoke", alice_only(302), "of Alice", _token_of_alice, "post"),
    Case("people", signed_in_only(200)),
    Case("teams", signed_in_only(200)),
    Case("teams", signed_in_only(403, administrator=302), method="post", data=_name),
    Case("accounts", administrators(200)),
    Case("invite", team_managers(200), "", _team),
    Case("invite", team_managers(200), "", _team, "post", _invitation_fields),
    Case("invitations", team_managers(200), "", _team),
    # Without mail it answers with the new link.
    Case("invitation_renew", team_managers(200), "", _open_invitation, "post"),
    Case(
        *("invitation_renew", signed_in_only(404), "through another team"),
        *(_through_another_team, "post"),
    ),
    Case("invitation_revoke", team_managers(302), "", _open_invitation, "post"),
    Case(
        *("invitation_revoke", signed_in_only(404), "through another team"),
        *(_through_another_team, "post"),
    ),
    Case("member_role", team_managers(302), "Bob", _member, "post", _viewer_role),
    # Bob may leave the team.
    Case("member_remove", team_managers(302) | {"bob": 302}, "Bob", _member, "post"),
    Case("person_reset_link", account_managers(200), "Bob", _bob, "post"),
    Case("person_reset_factors", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("person_deactivate", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("person_activate", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("person_sign_out", account_managers(200, alice=403), "Bob", _bob),
    Case("person_sign_out", account_managers(302, alice=403), "Bob", _bob, "post"),
    Case("invitation", everyone(200), "with a valid link", _invitation_link),
    Case("invitation", everyone(404), "with a wrong link", _wrong_token),
    Case("setup", everyone(404), "with a wrong link", _wrong_token),
]
