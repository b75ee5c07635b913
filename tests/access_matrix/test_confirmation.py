"""The routes that ask people with a second factor to show it again are a table, and each of them asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from chat.access import PASSED_KEY
from chat.models import User
from chat.web.admin import ConfirmedChanges
from chat.web.confirmation import ALL_METHODS
from tests.access_matrix.case import SIGN_IN, Case
from tests.access_matrix.cases import CASES
from tests.access_matrix.world import make_world, rolled_back

# The methods that are asked; pages that only have a form are asked before it is filled in.
FORM_AND_PAGE, FORM = ALL_METHODS, ("POST",)
CONFIRMED = {
    # Tokens, and ways to sign in. The pages of the factors themselves are allauth's, see below.
    "tokens": FORM,
    "account_set_password": FORM_AND_PAGE,
    "provider_connect": FORM_AND_PAGE,
    "tool_account_connect": FORM_AND_PAGE,
    "tool_server_connect": FORM_AND_PAGE,
    "call_connect": FORM_AND_PAGE,
    # Keys and secrets.
    "server_add": FORM_AND_PAGE,
    "server_settings": FORM_AND_PAGE,
    "identity_provider_add": FORM_AND_PAGE,
    "identity_provider_settings": FORM_AND_PAGE,
    "tool_server_add": FORM_AND_PAGE,
    "tool_server_settings": FORM_AND_PAGE,
    "tool_server_client": FORM_AND_PAGE,
    "web_search": FORM_AND_PAGE,
    # With headers.
    "tool_add": FORM,
    "tool": FORM,
    # Exports.
    "conversation_export": FORM_AND_PAGE,
    "conversation_zip": FORM_AND_PAGE,
    "export_start": FORM_AND_PAGE,
    "export_file": FORM_AND_PAGE,
    "feedback_export": FORM_AND_PAGE,
    # Other people's accounts and rights.
    "member_role": FORM_AND_PAGE,
    "member_remove": FORM_AND_PAGE,
    "person_activate": FORM_AND_PAGE,
    "person_deactivate": FORM_AND_PAGE,
    "person_reset_link": FORM_AND_PAGE,
    "person_reset_factors": FORM_AND_PAGE,
    "person_sign_out": FORM,
    # For a role that manages the team.
    "invite": FORM,
    "invitation_renew": FORM_AND_PAGE,
    "group_member": FORM_AND_PAGE,
    "group_delete": FORM_AND_PAGE,
    "tool_server_people": FORM_AND_PAGE,
    "server_access": FORM,
    "server_grant_add": FORM_AND_PAGE,
    "server_grant": FORM_AND_PAGE,
    "server_grant_remove": FORM_AND_PAGE,
    "passwords": FORM_AND_PAGE,
    "identity_provider_switch": FORM_AND_PAGE,
    "identity_provider_delete": FORM_AND_PAGE,
    "identity_disconnect": FORM_AND_PAGE,
    "group_rule_add": FORM_AND_PAGE,
    "group_rule_remove": FORM_AND_PAGE,
}
# These ask only for some requests. `tests/accounts/test_two_step.py` has which.
DEPENDS_ON_THE_FORM = {"tool_add", "tool", "invite", "invitation_renew"}

# A route with one of these words in its name, or whose view calls something with one, or hides its form from reports of
# errors, is in the table or below.
SENSITIVE = re.compile(
    r"token|key|secret|password|client|provider|identit|export|zip|download|(?<![pP])reset|factor|mfa|connect"
    r"|member(?!s)|role|invit|grant|person_|sign_out|set_active|header"
    r"|set_people|group_|sensitive_post"
)
NOT_ASKED = {
    "asks for the password or the factor by itself": {
        *("account_change_password", "account_login"),
        *("mfa_index", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_add_webauthn"),
        *("mfa_remove_webauthn", "mfa_edit_webauthn", "mfa_view_recovery_codes"),
        *("mfa_generate_recovery_codes", "mfa_download_recovery_codes"),
        *("mfa_authenticate", "mfa_login_webauthn"),
        *("mfa_reauthenticate", "mfa_reauthenticate_webauthn"),
    },
    "is used before the sign-in": {
        *("account_reset_password", "account_reset_password_done", "invitation", "setup"),
        *("account_reset_password_from_key", "account_reset_password_from_key_done"),
        *("provider_sign_in", "provider_callback", "provider_logout", "oauth_client_metadata"),
    },
    "only takes something away, and must be quick": {
        *("token_revoke", "invitation_revoke", "tool_account_disconnect", "sessions_end"),
        "person_picture_remove",
    },
    "shows, tests or finishes, and changes nothing": {
        *("sessions", "people", "invitations", "identity_providers", "identity_provider"),
        *("identity_provider_test", "identity_provider_trial", "tool_account_callback"),
        *("exports", "accounts", "team_models", "server_dialect"),
    },
    "adds a server without a key": {"server_connect"},
    "shares one conversation or project with colleagues, as its people do all day": {
        *("participant", "conversation_visibility", "project_members", "project_member"),
    },
    "downloads one thing of a page that shows it": {"run_export", "mockup_zip", "skill_download"},
    "only has the word": {
        *("message_source", "search", "conversation_find", "file", "preview", "preview_file"),
        *("conversation_fork", "message_fork", "message_feedback", "context_summary"),
        *("message_edit", "message_retry"),
    },
}


def views(
    patterns: list[URLPattern | URLResolver], space: str = ""
) -> Iterator[tuple[str, object]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from views(pattern.url_patterns, inner)
        else:
            yield f"{space}{pattern.name or pattern.pattern}", pattern.callback


VIEWS = dict(views(get_resolver().url_patterns))


def test_routes_that_ask_are_those_of_the_table() -> None:
    declared = {
        name: view.confirmed_methods  # type: ignore[attr-defined]
        for name, view in VIEWS.items()
        if hasattr(view, "confirmed_methods")
    }

    assert declared == CONFIRMED


def words_of(name: str) -> Iterator[str]:
    """The name, the decorators, and what the view calls."""
    yield name
    view = VIEWS[name]
    while hasattr(view, "__wrapped__"):
        yield view.__code__.co_name  # type: ignore[attr-defined]
        view = view.__wrapped__
    code = getattr(view, "__code__", None)
    yield from code.co_names if code else ()


def test_route_that_sounds_sensitive_asks_or_is_left_out_for_a_reason() -> None:
    sensitive = {
        name
        for name in VIEWS
        if not name.startswith("admin:") and any(map(SENSITIVE.search, words_of(name)))
    }
    left_out = set().union(*NOT_ASKED.values())

    assert sensitive - set(CONFIRMED) - left_out == set()
    assert left_out - sensitive == set()
    assert left_out & set(CONFIRMED) == set()


@pytest.mark.parametrize("model", ["user", "team"])
def test_administration_asks_before_rights_change(model: str) -> None:
    view = VIEWS[f"admin:chat_{model}_change"]

    assert isinstance(view.model_admin, ConfirmedChanges)  # type: ignore[attr-defined]


# --- what is asked -----------------------------------------------------------------------------


def may_act(case: Case) -> str:
    """Somebody whose request is not refused."""
    return next(
        (actor for actor, outcome in case.outcomes.items() if outcome not in (SIGN_IN, 403, 404)),
        "",
    )


def one_case_of_each() -> dict[str, Case]:
    found = {}
    for case in CASES:
        methods = CONFIRMED.get(case.route, ())
        if case.method.upper() in methods and may_act(case):
            found.setdefault(case.route, case)
    return found


@pytest.mark.django_db
@pytest.mark.parametrize("has_factor", [True, False], ids=["with a factor", "without"])
def test_people_with_a_factor_confirm_first(has_factor: bool, subtests: pytest.Subtests) -> None:
    cases = one_case_of_each()
    world, client = make_world(), Client()
    User.objects.update(has_second_factor=has_factor)
    for route in sorted(set(cases) - DEPENDS_ON_THE_FORM):
        case, actor = cases[route], may_act(cases[route])
        with subtests.test(msg=route), rolled_back():
            session = SessionStore(world.sessions[actor])
            session[PASSED_KEY] = User.objects.get(email=f"{actor}@example.org").pk
            session.save()
            client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key

            url = reverse(case.route, kwargs=case.kwargs(world))
            response = getattr(client, case.method)(url, case.data(world))

            if response.streaming:
                # To its end, where it closes its file.
                b"".join(response)
            asked = response.headers.get("Location", "").startswith(
                reverse("account_reauthenticate")
            )
            assert asked == has_factor
    assert set(CONFIRMED) - set(cases) == set()
