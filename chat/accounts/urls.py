"""Addresses of accounts, people and set-up, including those of allauth's views that are in use."""

from allauth.account import views as allauth_views
from django.urls import path, re_path

from chat.accounts.views import account, invitations, people, teams, tokens

urlpatterns = [
    # Account pages of allauth.
    path("accounts/login/", allauth_views.login, name="account_login"),
    path("accounts/logout/", account.logout, name="account_logout"),
    path("accounts/inactive/", allauth_views.account_inactive, name="account_inactive"),
    path("accounts/signup/", allauth_views.signup, name="account_signup"),
    path("accounts/reauthenticate/", allauth_views.reauthenticate, name="account_reauthenticate"),
    path(
        "accounts/password/change/", allauth_views.password_change, name="account_change_password"
    ),
    path("accounts/password/set/", allauth_views.password_set, name="account_set_password"),
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
    # The user's own settings.
    path("settings/", account.settings, name="settings"),
    path("settings/instructions/", account.instructions, name="instructions"),
    path("settings/announcements/", account.announcements, name="announcements"),
    path("settings/invisible/", account.invisible, name="invisible"),
    path("settings/sessions/end/", account.sessions_end, name="sessions_end"),
    path("settings/tokens/", tokens.tokens, name="tokens"),
    path("settings/tokens/<uuid:public_id>/revoke/", tokens.token_revoke, name="token_revoke"),
    # Teams and people.
    path("people/", people.people, name="people"),
    path("people/accounts/", people.accounts, name="accounts"),
    path("people/teams/", teams.teams, name="teams"),
    path("people/teams/<uuid:team_id>/invite/", invitations.invite, name="invite"),
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
    path("people/<uuid:person_id>/reset-link/", people.person_reset_link, name="person_reset_link"),
    # Invitations and set-up.
    path("invite/<str:token>/", invitations.invitation, name="invitation"),
    path("setup/<str:token>/", account.setup, name="setup"),
]
