"""Addresses of accounts, people and set-up, including those of allauth's views that are in use."""

from allauth.account import views as allauth_views
from django.urls import path, re_path

from chat.accounts.two_step import views as two_step
from chat.accounts.views import account, invitations, people, sign_out, teams, tokens
from chat.web.confirmation import confirmed_recently

urlpatterns = [
    # Account pages of allauth.
    path("accounts/login/", two_step.login, name="account_login"),
    path("accounts/logout/", account.logout, name="account_logout"),
    path("accounts/inactive/", allauth_views.account_inactive, name="account_inactive"),
    path("accounts/signup/", allauth_views.signup, name="account_signup"),
    path("accounts/reauthenticate/", allauth_views.reauthenticate, name="account_reauthenticate"),
    path(
        "accounts/password/change/", allauth_views.password_change, name="account_change_password"
    ),
    path(
        "accounts/password/set/",
        confirmed_recently()(allauth_views.password_set),
        name="account_set_password",
    ),
    path("accounts/password/reset/", account.password_reset, name="account_reset_password"),
    path(
        "accounts/password/reset/done/",
        allauth_views.password_reset_done,
        name="account_reset_password_done",
    ),
    path(
        "accounts/password/reset/key/done/",
        allauth_views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        # The first hyphen separates the parts; the key itself contains hyphens.
        r"^accounts/password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        account.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    # The second step of signing in, signing in with a passkey, and confirmation before something sensitive.
    path("accounts/login/two-step/", two_step.second_step, name="mfa_authenticate"),
    path("accounts/login/passkey/", two_step.passkey_sign_in, name="mfa_login_webauthn"),
    path("accounts/reauthenticate/code/", two_step.confirm_code, name="mfa_reauthenticate"),
    path(
        "accounts/reauthenticate/passkey/",
        two_step.confirm_passkey,
        name="mfa_reauthenticate_webauthn",
    ),
    # Two-step verification. `chat.web.second_factor` knows the beginning of these addresses.
    path("settings/two-step/", two_step.two_step, name="mfa_index"),
    path("settings/two-step/app/", two_step.add_app, name="mfa_activate_totp"),
    path("settings/two-step/app/remove/", two_step.remove_app, name="mfa_deactivate_totp"),
    path("settings/two-step/passkeys/add/", two_step.add_passkey, name="mfa_add_webauthn"),
    path(
        "settings/two-step/passkeys/<int:pk>/remove/",
        two_step.remove_passkey,
        name="mfa_remove_webauthn",
    ),
    path(
        "settings/two-step/passkeys/<int:pk>/rename/",
        two_step.rename_passkey,
        name="mfa_edit_webauthn",
    ),
    path(
        "settings/two-step/recovery-codes/",
        two_step.recovery_codes,
        name="mfa_view_recovery_codes",
    ),
    path(
        "settings/two-step/recovery-codes/new/",
        two_step.new_recovery_codes,
        name="mfa_generate_recovery_codes",
    ),
    path(
        "settings/two-step/recovery-codes/download/",
        two_step.download_recovery_codes,
        name="mfa_download_recovery_codes",
    ),
    # The user's own settings.
    path("settings/", account.settings, name="settings"),
    path("settings/instructions/", account.instructions, name="instructions"),
    path("settings/reading/", account.reading, name="reading"),
    path("settings/code-wrap/", account.code_wrap, name="code_wrap"),
    path("settings/announcements/", account.announcements, name="announcements"),
    path("settings/invisible/", account.invisible, name="invisible"),
    path("settings/time-zone/", account.time_zone, name="time_zone"),
    path("settings/tokens/", tokens.tokens, name="tokens"),
    path("settings/tokens/<uuid:public_id>/revoke/", tokens.token_revoke, name="token_revoke"),
    # Teams and people.
    path("people/", people.people, name="people"),
    path("people/accounts/", people.accounts, name="accounts"),
    path("people/teams/", teams.teams, name="teams"),
    path("people/teams/<uuid:team_id>/invite/", invitations.invite, name="invite"),
    path("people/teams/<uuid:team_id>/invitations/", invitations.invitations, name="invitations"),
    path(
        "people/teams/<uuid:team_id>/invitations/<int:invitation_id>/renew/",
        invitations.invitation_renew,
        name="invitation_renew",
    ),
    path(
        "people/teams/<uuid:team_id>/invitations/<int:invitation_id>/revoke/",
        invitations.invitation_revoke,
        name="invitation_revoke",
    ),
    path(
        "people/teams/<uuid:team_id>/members/<uuid:person_id>/role/",
        people.member_role,
        name="member_role",
    ),
    path(
        "people/teams/<uuid:team_id>/members/<uuid:person_id>/remove/",
        people.member_remove,
        name="member_remove",
    ),
    path("people/<uuid:person_id>/activate/", people.person_activate, name="person_activate"),
    path("people/<uuid:person_id>/deactivate/", people.person_deactivate, name="person_deactivate"),
    path("people/<uuid:person_id>/sign-out/", sign_out.person_sign_out, name="person_sign_out"),
    path("people/<uuid:person_id>/reset-link/", people.person_reset_link, name="person_reset_link"),
    path(
        "people/<uuid:person_id>/reset-two-step/",
        two_step.person_reset_factors,
        name="person_reset_factors",
    ),
    # Invitations and set-up.
    path("invite/<str:token>/", invitations.invitation, name="invitation"),
    path("setup/<str:token>/", account.setup, name="setup"),
]
